"""Real: a number that Python computed from a size, such as the scale `dim ** -0.5`."""

import math
from collections.abc import Mapping, Sequence

_POWERS = (-0.5, -1.0, 0.5, 1.0)
_RELATIVE = 1e-9


class Real(float):
    """A number that differs between workloads: its value on the first one, and the rule for the others.

    Example:
        >>> scale = Real(0.5, "dim", -0.5, (64, 16))
        >>> float(scale), scale.text
        (0.0625, '(0.5 * dim ** -0.5)')
    """

    factor: float
    size: str
    """Integer arithmetic over the symbols."""
    power: float
    """One of -1, -1/2, 1/2 and 1: the rule is `factor * size ** power`."""
    sizes: tuple[int, ...]
    """The size on every workload seen."""

    def __new__(cls, factor: float, size: str, power: float, sizes: Sequence[int]) -> "Real":
        made = super().__new__(cls, factor * sizes[0] ** power)
        made.factor, made.size, made.power, made.sizes = factor, size, power, tuple(sizes)
        return made

    @property
    def text(self) -> str:
        """The rule, as Python prints it."""
        return f"({self.factor!r} * {self.size} ** {self.power!r})"

    def __repr__(self) -> str:
        return self.text

    __str__ = __repr__


def fit_real(values: Sequence[float], symbols: Mapping[str, Sequence[int]]) -> Real | None:
    """Find how a number follows from a size, from its values on several workloads; None if it does not.

    Example:
        >>> fit_real((0.125, 0.25), {"dim": (64, 16)})
        (1.0 * dim ** -0.5)
    """
    for name, sizes in symbols.items():
        if min(sizes) < 1 or len(set(sizes)) < 2:
            continue
        for power in _POWERS:
            factors = [v / s**power for v, s in zip(values, sizes, strict=True)]
            nearest = round(factors[0], 12)
            factor = nearest if math.isclose(nearest, factors[0], rel_tol=_RELATIVE) else factors[0]
            if factor and all(math.isclose(f, factor, rel_tol=_RELATIVE) for f in factors):
                return Real(factor, name, power, sizes)
    return None
