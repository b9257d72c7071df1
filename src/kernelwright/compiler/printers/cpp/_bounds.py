"""Expression → how large it can be, where that follows from positions and constants: do 32 bits hold it?"""

import math
import re
from collections.abc import Mapping

from ...graph import Size
from ...tile import Arith, Call, Expression, Extent, Literal, Position, Variable

MOST = float(1 << 31)
"""Integers of lanes are below."""
_POSITION = float(1 << 28)
"""Elements along one axis, at most."""
_SYMBOL = re.compile(r"[A-Za-z_]\w*")


def bound(e: Expression | None, known: Mapping[str, float]) -> float:
    """Return a limit of the absolute value; infinity where values of tensors or products of sizes decide.

    Args:
        e: A number, or a position computed from one.
        known: Limits of what was named before.

    Example:
        >>> half = Call("mul", (Call("cast", (Position("i"),)), Literal(0.5)))
        >>> bound(half, {}) < MOST <= bound(Variable("x"), {})
        True
    """
    match e:
        case Literal(Size() as size) | Extent(Size() as size):
            return _POSITION if len(_SYMBOL.findall(size.text)) == 1 else math.inf
        case Literal(value) if not isinstance(value, Size | bool):
            return abs(float(value))
        case Position():
            return _POSITION
        case Variable(name):
            return known.get(name, math.inf)
        case Arith("+" | "-", left, right):
            return bound(left, known) + bound(right, known)
        case Arith("*", left, right):
            return _times(bound(left, known), bound(right, known))
        case Call():
            return _of_call(e, [bound(a, known) for a in e.args if a is not None])
        case _:
            return math.inf


def _of_call(e: Call, limits: list[float]) -> float:
    match e.op, limits:
        case "cast" | "neg" | "abs", [one]:
            return one
        case "floor" | "ceil" | "trunc" | "round", [one]:
            return one + 1
        case "add" | "sub", [one, two] if not e.options:
            return one + two
        case "mul", [one, two]:
            return _times(one, two)
        case "where", [_, one, two]:
            return max(one, two)
        case "maximum" | "minimum" | "clamp", _:
            return max(limits, default=math.inf)
        case _:
            return math.inf


def _times(one: float, two: float) -> float:
    return 0.0 if 0.0 in (one, two) else one * two
