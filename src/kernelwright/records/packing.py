"""How a module's tensor holds a problem's weights, where it has them in another layout."""

from ._record import Record


class PackedWeight(Record):
    """One weight within a tensor."""

    name: str
    """The problem's name for it."""
    shape: tuple[int, ...]
    """Its sizes in the problem."""
    order: tuple[int, ...]
    """Which of its axes come first, second and so on before it is reshaped to its part of the tensor."""
    parted: tuple[int, ...] = ()
    """Instead of `order`: which axes of its part of the tensor come first and so on before that is reshaped to it."""
    scale: float = 1.0
    """The number by which it is multiplied there."""


class Packing(Record):
    """A module's tensor that is made of a problem's weights, joined along an axis, and of nothing else but zeros.

    Example:
        >>> transposed = PackedWeight(name="fc.weight", shape=(3, 2), order=(1, 0))
        >>> Packing(name="w", shape=(2, 3), axis=0, weights=(transposed,)).names
        ('fc.weight',)
    """

    name: str
    """The module's name for the tensor."""
    shape: tuple[int, ...]
    """Its sizes."""
    axis: int
    """The axis that the weights share out."""
    weights: tuple[PackedWeight, ...]
    """The weights, in the order in which they lie along it."""
    held: tuple[int, ...] = ()
    """How much of each axis holds weights, where the rest is filled up with zeros; empty: all of it."""
    viewed: tuple[int, ...] = ()
    """The sizes in which that is viewed where weights share it out, as interleaved ones do; empty: its own."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Its sizes where the weights share out its axis."""
        return self.viewed or self.held or self.shape

    @property
    def names(self) -> tuple[str, ...]:
        """The problem's names of the weights in it."""
        return tuple(weight.name for weight in self.weights)
