"""Expression → the values that it loads, each with the share of its evaluations that load it."""

from collections.abc import Iterator

from ..tile import Expression, Guard, Load, parts_of, walk


def reads(expression: Expression, share: float = 1.0) -> Iterator[tuple[Load, float]]:
    """Yield loads with their shares; what is chosen from several loads, as of tensors side by side, reads one of them.

    Example:
        >>> from kernelwright.compiler.tile import Literal
        >>> one, two = Load("one", (Literal(0),)), Load("two", (Literal(0),))
        >>> [(load.buffer, share) for load, share in reads(Guard(Literal(1), one, two))]
        [('one', 0.5), ('two', 0.5)]
    """
    if isinstance(expression, Load):
        yield expression, share
    if isinstance(expression, Guard):
        chosen, other = (_loads(part) for part in (expression.value, expression.other))
        yield from reads(expression.condition, share)
        yield from reads(expression.value, share * chosen / max(1, chosen + other))
        yield from reads(expression.other, share * other / max(1, chosen + other))
        return
    for part in parts_of(expression):
        yield from reads(part, share)


def is_gathered(load: Load) -> bool:
    """Tell whether the place that is read comes from memory too, as of a row of a table."""
    return any(isinstance(x, Load) for place in load.index for x in walk(place))


def _loads(expression: Expression) -> int:
    """Count the values that an expression loads, those that only say where to read apart."""
    if isinstance(expression, Load):
        return 1
    return sum(map(_loads, parts_of(expression)))
