"""Expression → the values that it loads, each with the share of its evaluations that load it."""

from collections.abc import Iterator

from ..tile import Expression, Guard, Load, parts_of, walk


def reads(expression: Expression) -> Iterator[tuple[Load, float]]:
    """Yield loads with their shares; what is chosen from several loads, as of tensors side by side, reads one of them.

    Example:
        >>> from kernelwright.compiler.tile import Literal
        >>> one, two = Load("one", (Literal(0),)), Load("two", (Literal(0),))
        >>> [(load.buffer, share) for load, share in reads(Guard(Literal(1), one, two))]
        [('one', 0.5), ('two', 0.5)]
    """
    waiting = [(expression, 1.0)]
    while waiting:
        found, share = waiting.pop()
        parts = [(part, share) for part in parts_of(found)]
        if isinstance(found, Load):
            yield found, share
        elif isinstance(found, Guard):
            chosen, other = _loads(found.value), _loads(found.other)
            parts = [
                (found.condition, share),
                (found.value, share * chosen / max(1, chosen + other)),
                (found.other, share * other / max(1, chosen + other)),
            ]
        waiting.extend(reversed(parts))


def is_gathered(load: Load) -> bool:
    """Tell whether the place that is read comes from memory too, as of a row of a table."""
    return any(isinstance(x, Load) for place in load.index for x in walk(place))


def _loads(expression: Expression) -> int:
    """Count the values that an expression loads, those that only say where to read apart."""
    count, waiting = 0, [expression]
    while waiting:
        found = waiting.pop()
        count += isinstance(found, Load)
        waiting.extend(() if isinstance(found, Load) else parts_of(found))
    return count
