"""Value: one tensor of a program."""

from dataclasses import dataclass

from ...records import Scalar
from ._axes import Dims


@dataclass(frozen=True, eq=False)
class Value:
    """One tensor of the program; in the kernel, one vector at a time."""

    name: str
    """A C++ identifier."""
    op: str
    """`load`, `point`, `reduce`, `index` (position along the reduced axes), `count` (elements reduced)."""
    dims: Dims
    """Structure, dimension by dimension."""
    args: tuple["Value | Scalar", ...] = ()
    """Its operands."""
    what: str = ""
    """ATen name of a `point`, kind of a `reduce`."""
    kwargs: tuple[tuple[str, Scalar], ...] = ()
    """Keyword arguments of a `point`."""
    over: tuple[int, ...] = ()
    """Axes of a `reduce` or `count`."""
    position: int = -1
    """Argument position of a `load`."""
    dtype: str = "float32"
    """Dtype of a `load`."""
    varies: frozenset[int] = frozenset()
    """Axes along which it is not constant; known once all axes are (`Plan`)."""
