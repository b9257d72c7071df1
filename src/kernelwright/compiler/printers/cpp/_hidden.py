"""A score of an attention → whether a tile of scores is certainly hidden: minus infinity whatever the sums, as C++.

Conditions on positions are decided by intervals: a causal mask, a window, blocks, lengths of items. Others, and masks
that are read, are looked at element by element, up to the first that tells.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ...tile import (
    Arith,
    Axis,
    Call,
    Expression,
    Extent,
    Guard,
    Literal,
    Load,
    Position,
    Program,
    Variable,
    positions,
    walk,
)  # fmt: skip
from ._factors import parameter, taken_apart
from ._lanes import Lanes
from ._scalar import Scalar, Scope, size_text

_YES, _NO = "true", "false"
_OPPOSITE = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "eq": "ne", "ne": "eq"}
_SIGNS = {"add": "+", "sub": "-", "mul": "*", "minimum": "min", "maximum": "max"}
Interval = tuple[str, str]
"""The least and the largest value of an integer in a tile."""


@dataclass(frozen=True)
class Hidden:
    """Prints conditions on a tile of rows and keys."""

    program: Program
    rows: Sequence[Axis]
    key: Axis
    accumulator: str
    """Variable of the sum, which may be anything finite."""

    def text(self, score: Expression) -> str:
        """Return the condition under which the whole tile is minus infinity; `false` where none is known."""
        match score:
            case Literal(value):
                return _YES if value == -math.inf else _NO
            case Guard(condition, value, other) | Call("where", (condition, value, other)):
                assert condition is not None and value is not None and other is not None
                one, two = self.text(value), self.text(other)
                chosen = _or(_and(self.yes(condition), one) if one != _NO else _NO,
                             _and(self.no(condition), two) if two != _NO else _NO)  # fmt: skip
                return _or(chosen, _and(one, two))
            case Call("add", (a, b), ()):
                assert a is not None and b is not None
                return _or(self._beside(a, b), self._beside(b, a))
            case Call("sub", (a, b), ()):
                assert a is not None and b is not None
                return self._beside(a, b)
            case Call("mul" | "div", (a, Literal(value)), ()) if 0 < value < math.inf:
                assert a is not None
                return self.text(a)
            case Load():
                return self._everywhere(Call("eq", (score, Literal(-math.inf)), (), "bool"))
            case _:
                return _NO

    def yes(self, c: Expression) -> str:
        """Return the condition under which another certainly holds in the whole tile."""
        return self._decided(c, True)

    def no(self, c: Expression) -> str:
        """Return the condition under which another certainly fails in the whole tile."""
        return self._decided(c, False)

    def _beside(self, hidden: Expression, other: Expression) -> str:
        """A term is minus infinity, and the other is finite where it is read."""
        found = self.text(hidden)
        if found == _NO:
            return _NO
        for load in {e for e in walk(other) if isinstance(e, Load) and e.kind == "float32"}:
            zero = Call("mul", (load, Literal(0.0)))
            found = _and(found, self._everywhere(Call("eq", (zero, Literal(0.0)), (), "bool")))
        return found

    def _decided(self, c: Expression, wanted: bool) -> str:
        match c:
            case Literal(value):
                return _YES if bool(value) == wanted else _NO
            case Call("logical_not", (a,)):
                assert a is not None
                return self._decided(a, not wanted)
            case Call(("logical_and" | "logical_or") as op, (a, b)):
                assert a is not None and b is not None
                join = _and if (op == "logical_and") == wanted else _or
                return join(self._decided(a, wanted), self._decided(b, wanted))
            case Call("where", (condition, value, other)) | Guard(condition, value, other):
                assert condition is not None and value is not None and other is not None
                one, two = self._decided(value, wanted), self._decided(other, wanted)
                chosen = _or(_and(self.yes(condition), one), _and(self.no(condition), two))
                return _or(chosen, _and(one, two))
            case Call(op, (a, b)) if op in _OPPOSITE:
                assert a is not None and b is not None
                left, right = self._interval(a), self._interval(b)
                if left is not None and right is not None:
                    return _compared(op if wanted else _OPPOSITE[op], left, right)
        return self._everywhere(c if wanted else Call("logical_not", (c,), (), "bool"))

    # Intervals -----------------------------------------------------------------------------------------

    def _varying(self) -> Collection[str]:
        return {self.key.name, *(a.name for a in self.rows)}

    def _interval(self, e: Expression) -> Interval | None:
        """Return the bounds of an integer in the tile; None where they are not known."""
        if e.kind != "int64" or any(isinstance(p, Variable) for p in walk(e)):
            return None
        if not positions(e) & set(self._varying()):
            text = Scalar(Scope(self.program)).text(e)
            return text, text
        match e:
            case Position(axis):
                return f"{axis}_least", f"{axis}_most"
            case Arith(sign, left, right):
                return self._of(sign, left, right)
            case Call(op, (a, b), ()) if op in _SIGNS and a is not None and b is not None:
                return self._of(_SIGNS[op], a, b)
            case _:
                return None

    def _of(self, sign: str, left: Expression, right: Expression) -> Interval | None:
        one, two = self._interval(left), self._interval(right)
        if one is None or two is None:
            return None
        positive = isinstance(right, Extent) or (isinstance(right, Literal) and right.value > 0)
        match sign:
            case "+":
                return f"({one[0]} + {two[0]})", f"({one[1]} + {two[1]})"
            case "-":
                return f"({one[0]} - {two[1]})", f"({one[1]} - {two[0]})"
            case "*" | "//" if positive:
                by = sign.replace("//", "/")
                return f"({one[0]} {by} {two[0]})", f"({one[1]} {by} {two[0]})"
            case "min" | "max":
                low, high = (f"std::{sign}<int64_t>({a}, {b})" for a, b in zip(one, two, strict=True))
                return low, high
            case _:
                return None

    # Element by element --------------------------------------------------------------------------------

    def _everywhere(self, c: Expression) -> str:
        if any(isinstance(e, Variable) for e in walk(c)):
            return _NO
        used = positions(c)
        row, lines = parameter("row", self.rows, set(used))
        key = self.key.name if self.key.name in used else ""
        scope = Scope(self.program, axis=self.key.name)
        return (
            f"kw::everywhere(first_row, end_row, first_key, end_key, "
            f"[&]({f'int64_t {row}'.rstrip()}, {f'int64_t {key}'.rstrip()}, auto lanes) KW_INLINED "
            f"{{ {''.join(f'{line} ' for line in lines)}return {Lanes(scope).text(c)}; }})"
        )

    def function(self, score: Expression, batch: Sequence[Axis]) -> list[str]:
        """Print the function of a tile; that of a score that is never known to be hidden is none."""
        condition = self.text(score)
        if condition == _NO:
            return ["  const kw::Unmasked masked;"]
        item, lines = parameter("item", batch, set(positions(score)))
        bounds = [*_bounds(self.rows, "row"), *_bounds((self.key,), "key")]
        bounds = [line for line in bounds if line.split(" = ")[0].split()[-1] in condition]
        return [
            f"  const auto masked = [=]({f'int64_t {item}'.rstrip()}, int64_t first_row, int64_t end_row, "
            "int64_t first_key, int64_t end_key) KW_INLINED {",
            *(f"    {line}" for line in (*lines, *bounds)),
            f"    return {condition};",
            "  };",
        ]


def _bounds(axes: Sequence[Axis], role: str) -> list[str]:
    """Print the least and largest position on every axis of a tile; all of an axis where an outer one changes."""
    least, most = f"first_{role}", f"(end_{role} - 1)"
    if len(axes) == 1:
        (axis,) = axes
        return [f"const int64_t {axis.name}_least = {least};", f"const int64_t {axis.name}_most = {most};"]
    found, used = list[str](), {a.name for a in axes}
    for place, axis in enumerate(axes):
        size = size_text(axis.size)
        one, two = (
            taken_apart(end, axes, {axis.name})[0].split(" = ")[1].rstrip(";") for end in (least, most)
        )
        behind = [a for a in axes[place:]]
        rest = " * ".join(size_text(a.size) for a in behind)
        same = f"{least} / ({rest}) == {most} / ({rest})" if place else "true"
        found.append(f"const int64_t {axis.name}_least = {same} ? {one} : 0;")
        found.append(f"const int64_t {axis.name}_most = {same} ? {two} : {size} - 1;")
    return found if used else []


def _compared(op: str, one: Interval, two: Interval) -> str:
    """Return when a comparison holds for all values of both intervals."""
    match op:
        case "lt":
            return f"{one[1]} < {two[0]}"
        case "le":
            return f"{one[1]} <= {two[0]}"
        case "gt":
            return f"{one[0]} > {two[1]}"
        case "ge":
            return f"{one[0]} >= {two[1]}"
        case "eq":
            return f"({one[0]} == {two[1]} && {one[1]} == {two[0]})"
        case _:
            return f"({one[1]} < {two[0]} || {one[0]} > {two[1]})"


def _and(one: str, two: str) -> str:
    if _NO in (one, two):
        return _NO
    return two if one == _YES else one if two == _YES else f"({one} && {two})"


def _or(one: str, two: str) -> str:
    if _YES in (one, two):
        return _YES
    return two if one == _NO else one if two == _NO else f"({one} || {two})"


__all__ = ["Hidden"]
