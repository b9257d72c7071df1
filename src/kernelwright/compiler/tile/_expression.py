"""Expressions of the tile form: values of elements and integer positions, one tree for both."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from ..graph import Number

Kind: TypeAlias = str
"""The type in which an expression computes: `float32`, `float64`, `int64` or `bool`. Half floats are loaded as
float32 and rounded when they are stored; all integers compute as int64."""


@dataclass(frozen=True)
class Literal:
    """A number."""

    value: Number
    kind: Kind = "float32"


@dataclass(frozen=True)
class Extent:
    """A size, as int64: `text_of(size)` is its rule over the program's symbols."""

    size: int
    kind: Kind = "int64"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Extent) and str(self.size) == str(other.size)

    def __hash__(self) -> int:
        return hash(str(self.size))


@dataclass(frozen=True)
class Position:
    """The counter of the enclosing loop over an axis."""

    axis: str
    kind: Kind = "int64"


@dataclass(frozen=True)
class Variable:
    """What a `Let` or a finished accumulator holds."""

    name: str
    kind: Kind = "float32"


@dataclass(frozen=True)
class Result:
    """One part of an accumulator's state, by its name in `MONOIDS`; read after the loop, or within a scan."""

    accumulator: str
    part: str = "value"
    kind: Kind = "float32"


@dataclass(frozen=True)
class Arith:
    """Integer arithmetic on positions: `+ - * // % min max`; operands of `//` and `%` are not negative."""

    sign: str
    left: "Expression"
    right: "Expression"
    kind: Kind = "int64"


@dataclass(frozen=True)
class Load:
    """An element of a buffer, one index for each of its dimensions."""

    buffer: str
    index: tuple["Expression", ...]
    kind: Kind = "float32"


@dataclass(frozen=True)
class Call:
    """An elementwise operator by its name in the graph form; `cast` converts to the kind."""

    op: str
    args: tuple["Expression | None", ...]
    options: tuple[tuple[str, Number | str | None], ...] = ()
    kind: Kind = "float32"


@dataclass(frozen=True)
class Guard:
    """`value` where the condition holds, `other` elsewhere; what is not chosen must not be loaded."""

    condition: "Expression"
    value: "Expression"
    other: "Expression"
    kind: Kind = "float32"


Expression: TypeAlias = Literal | Extent | Position | Variable | Result | Arith | Load | Call | Guard


def parts_of(expression: Expression) -> tuple[Expression, ...]:
    """Return the expressions directly within one."""
    # the search for schedules asks this millions of times, and a pattern takes three times as long
    if type(expression) is Arith:
        return expression.left, expression.right
    if type(expression) is Load:
        return expression.index
    if type(expression) is Call:
        return tuple(a for a in expression.args if a is not None)
    if type(expression) is Guard:
        return expression.condition, expression.value, expression.other
    return ()


def walk(expression: Expression) -> Iterator[Expression]:
    """Yield an expression and all within it, outer ones first, left to right."""
    waiting = [expression]
    while waiting:
        found = waiting.pop()
        yield found
        if parts := parts_of(found):
            waiting += parts[::-1]


ZERO: Expression = Literal(0, "int64")
"""Position zero."""


def positions(expression: Expression) -> frozenset[str]:
    """Name the axes that an expression depends on directly."""
    return frozenset(e.axis for e in walk(expression) if isinstance(e, Position))


def substitute(expression: Expression, by: Callable[[Expression], Expression | None]) -> Expression:
    """Replace what `by` returns something for, from the top; the rest is rebuilt."""
    found = by(expression)
    if found is not None:
        return found
    match expression:
        case Arith(sign, left, right):
            return arith(sign, substitute(left, by), substitute(right, by))
        case Load(buffer, index, kind):
            return Load(buffer, tuple(substitute(i, by) for i in index), kind)
        case Call(op, args, options, kind):
            return Call(op, tuple(None if a is None else substitute(a, by) for a in args), options, kind)
        case Guard(condition, value, other, kind):
            return Guard(substitute(condition, by), substitute(value, by), substitute(other, by), kind)
        case _:
            return expression


def arith(sign: str, left: Expression, right: Expression) -> Expression:
    """Make integer arithmetic, without no-ops."""
    zero_left, zero_right = _is(left, 0), _is(right, 0)
    if sign == "+" and (zero_left or zero_right):
        return right if zero_left else left
    if sign == "-" and zero_right:
        return left
    if sign == "*" and (_is(left, 1) or _is(right, 1)):
        return right if _is(left, 1) else left
    if (sign == "*" and (zero_left or zero_right)) or (sign in ("//", "%") and zero_left):
        return number(0)
    if sign == "//" and _is(right, 1):
        return left
    if sign == "%" and _is(right, 1):
        return number(0)
    if sign == "+" and _is_taken_apart(left, right):
        return right.left  # type: ignore[union-attr]  # a quotient and the remainder are what was divided
    if isinstance(left, Literal) and isinstance(right, Literal):
        a, b = int(left.value), int(right.value)
        return number({"+": a + b, "-": a - b, "*": a * b, "//": a // b if b else 0, "%": a % b if b else 0,
                       "min": min(a, b), "max": max(a, b)}[sign])  # fmt: skip
    return Arith(sign, left, right)


def _is_taken_apart(high: Expression, low: Expression) -> bool:
    """Tell whether a sum is `a // n * n + a % n`."""
    return (
        isinstance(high, Arith) and isinstance(low, Arith) and (high.sign, low.sign) == ("*", "%")
        and high == Arith("*", Arith("//", low.left, low.right), low.right)
    )  # fmt: skip


def number(value: int) -> Expression:
    """Make an integer, or a size that follows a rule."""
    return Literal(value, "int64") if type(value) is int else Extent(value)


def _is(expression: Expression, value: int) -> bool:
    return isinstance(expression, Literal) and expression.value == value


def stride(expression: Expression, axis: str) -> Expression | None:
    """Return by how much an index grows per step of an axis; None if that is not constant.

    Example:
        >>> row, column = Position("row"), Position("column")
        >>> stride(Arith("+", Arith("*", row, number(8)), column), "row")
        Literal(value=8, kind='int64')
    """
    match expression:
        case Position(name):
            return number(1 if name == axis else 0)
        case Literal() | Extent():
            return number(0)
        case Arith(("+" | "-") as sign, left, right):
            a, b = stride(left, axis), stride(right, axis)
            return None if a is None or b is None else arith(sign, a, b)
        case Arith("*", left, right):
            a, b = stride(left, axis), stride(right, axis)
            if a is not None and _is(a, 0) and b is not None:
                return arith("*", left, b)
            return arith("*", a, right) if b is not None and _is(b, 0) and a is not None else None
        case _:
            return None if axis in positions(expression) or _unknown(expression) else number(0)


def lies_along(expression: Expression, axis: str) -> bool:
    """Whether some buffer that it reads is contiguous along an axis."""
    return any(
        isinstance(e, Load) and bool(e.index) and stride(e.index[-1], axis) == number(1)
        for e in walk(expression)
    )


def _unknown(expression: Expression) -> bool:
    """Whether an index is made of values that may themselves depend on any axis."""
    return any(isinstance(e, Variable | Result | Load) for e in walk(expression))


def offset(index: Sequence[Expression], shape: Sequence[int]) -> Expression:
    """Flatten an index into a row-major buffer.

    Example:
        >>> offset((Position("i"), Position("j")), (4, 8))  # doctest: +ELLIPSIS
        Arith(sign='+', left=Arith(sign='*', left=Position(axis='i', ...
    """
    flat: Expression = number(0)
    for at, size in zip(index, shape, strict=True):
        flat = arith("+", arith("*", flat, number(size)), at)
    return flat


@dataclass(frozen=True)
class Monoid:
    """How a reduction folds: the parts of its state, and how they change."""

    parts: Mapping[str, Number]
    """Name → initial value. `index` and `count` parts are int64 and of the state's kind; others too."""
    update: Callable[[Mapping[str, Expression], Expression, Expression], dict[str, Expression]]
    """(state, element, position) → new state; all parts change at once."""
    merge: Callable[[Mapping[str, Expression], Mapping[str, Expression]], dict[str, Expression]]
    """(state, later state) → state of both: for lanes, threads and blocks."""


def _call(op: str, *args: Expression) -> Expression:
    kind = "bool" if op in ("lt", "gt", "eq", "ne", "isnan", "logical_and", "logical_or") else args[-1].kind
    return Call(op, args, (), kind)


def _simple(op: str, start: Number) -> Monoid:
    return Monoid(
        {"value": start},
        lambda s, x, _: {"value": _call(op, s["value"], x)},
        lambda s, t: {"value": _call(op, s["value"], t["value"])},
    )


def _extreme(op: str, start: Number) -> Monoid:
    """What comes is the first operand: vectors test only that for NaN, so no fold waits for the test of its state."""
    return replace(_simple(op, start), update=lambda s, x, _: {"value": _call(op, x, s["value"])})


def _best(compare: str, start: Number) -> Monoid:
    """Keep the first best; NaN beats everything."""

    def choose(
        s: Mapping[str, Expression], x: Expression, at: Expression, tie: Expression | None
    ) -> dict[str, Expression]:
        better = _call("logical_or", _call(compare, x, s["value"]), _call("isnan", x))
        fresh = Call("logical_not", (_call("isnan", s["value"]),), (), "bool")
        takes: Expression = _call("logical_and", better, fresh)
        if tie is not None:
            takes = _call("logical_or", takes, tie)
        none_yet = _call("lt", s["index"], Literal(0, "int64"))
        takes = _call("logical_or", takes, none_yet)
        return {
            "value": Call("where", (takes, x, s["value"]), (), x.kind),
            "index": Call("where", (takes, at, s["index"]), (), "int64"),
        }

    def merge(s: Mapping[str, Expression], t: Mapping[str, Expression]) -> dict[str, Expression]:
        equal = _call("logical_or", _call("eq", s["value"], t["value"]),
                      _call("logical_and", _call("isnan", s["value"]), _call("isnan", t["value"])))  # fmt: skip
        known = Call("ge", (t["index"], Literal(0, "int64")), (), "bool")
        sooner = _call("logical_and", known, _call("logical_and", equal, _call("lt", t["index"], s["index"])))
        chosen = choose(s, t["value"], t["index"], sooner)
        return {
            name: Call("where", (known, value, s[name]), (), value.kind) for name, value in chosen.items()
        }

    return Monoid({"value": start, "index": -1}, lambda s, x, at: choose(s, x, at, None), merge)


def _welford() -> Monoid:
    one = Literal(1.0)

    def update(s: Mapping[str, Expression], x: Expression, _: Expression) -> dict[str, Expression]:
        count = _call("add", s["count"], one)
        away = _call("sub", x, s["mean"])
        share = _call("div", one, count)  # no value waits for it, as a quotient of `away` would
        mean = _call("add", s["mean"], _call("mul", away, share))
        squares = _call("add", s["squares"], _call("mul", away, _call("sub", x, mean)))
        return {"count": count, "mean": mean, "squares": squares}

    def merge(s: Mapping[str, Expression], t: Mapping[str, Expression]) -> dict[str, Expression]:
        count = _call("add", s["count"], t["count"])
        safe = _call("maximum", count, one)
        away = _call("sub", t["mean"], s["mean"])
        share = _call("div", t["count"], safe)
        between = _call("mul", _call("mul", away, away), _call("mul", s["count"], share))
        return {
            "count": count,
            "mean": _call("add", s["mean"], _call("mul", away, share)),
            "squares": _call("add", _call("add", s["squares"], t["squares"]), between),
        }

    return Monoid({"count": 0.0, "mean": 0.0, "squares": 0.0}, update, merge)


def _sum_of_powers() -> Monoid:
    """The largest and the sum of powers relative to it; sound while all is minus infinity."""

    def shrunk(top: Expression, new: Expression) -> Expression:
        same = _call("eq", top, new)
        return Call("where", (same, Literal(1.0), _call("exp", _call("sub", top, new))), (), top.kind)

    def update(s: Mapping[str, Expression], x: Expression, _: Expression) -> dict[str, Expression]:
        top = _call("maximum", s["top"], x)
        total = _call("add", _call("mul", s["total"], shrunk(s["top"], top)), shrunk(x, top))
        return {"top": top, "total": total}

    def merge(s: Mapping[str, Expression], t: Mapping[str, Expression]) -> dict[str, Expression]:
        top = _call("maximum", s["top"], t["top"])
        mine, other = shrunk(s["top"], top), shrunk(t["top"], top)
        return {
            "top": top,
            "total": _call("add", _call("mul", s["total"], mine), _call("mul", t["total"], other)),
        }

    return Monoid({"top": float("-inf"), "total": 0.0}, update, merge)


MONOIDS: dict[str, Monoid] = {
    "sum": _simple("add", 0), "prod": _simple("mul", 1),
    "max": _extreme("maximum", float("-inf")), "min": _extreme("minimum", float("inf")),
    "any": _simple("logical_or", False), "all": _simple("logical_and", True),
    "argmax": _best("gt", float("-inf")), "argmin": _best("lt", float("inf")),
    "variance": _welford(), "logsumexp": _sum_of_powers(), "sumexp": _sum_of_powers(),
}  # fmt: skip
"""By name: the state, how an element enters it and how two states join.

Extremes of int64 start at the type's own extremes; printers turn infinities into those.
"""


def part_kind(part: str, kind: Kind) -> Kind:
    """Return what a part of an accumulator's state computes in."""
    return "int64" if part == "index" else kind
