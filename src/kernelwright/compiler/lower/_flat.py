"""Loop fusion: neighbouring loops over contiguous elements run as one."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from ..graph import Size, values_of
from ..tile import (
    Arith,
    Expression,
    Extent,
    Guard,
    Let,
    Literal,
    Load,
    Loop,
    Position,
    Statement,
    Store,
    Update,
    arith,
    number,
    offset,
    parts_of,
    statements,
    stride,
    walk,
)
from ._rename import rename_axis

Shapes: TypeAlias = Mapping[str, tuple[int, ...]]


def flattened(body: tuple[Statement, ...], shapes: Shapes) -> tuple[Statement, ...]:
    """Fuse two loops if the inner is the outer's whole body and offsets are linear in both."""
    found: list[Statement] = []
    for statement in body:
        if isinstance(statement, Loop):
            loop = replace(statement, body=flattened(statement.body, shapes))
            found.append(_flat(loop, shapes))
        else:
            found.append(statement)
    return tuple(found)


def _flat(loop: Loop, shapes: Shapes) -> Loop:
    if len(loop.body) != 1 or not isinstance(loop.body[0], Loop) or loop.ordered:
        return loop
    inner = loop.body[0]
    if inner.ordered or inner.begin != number(0) or loop.begin != number(0):
        return loop
    size = size_of(inner.end)
    outer = size_of(loop.end)
    if size is None or outer is None or not _Pair(loop.axis, inner.axis, size, shapes).even(inner.body):
        return loop
    joined = rename_axis(inner.body, loop.axis, number(0))
    return replace(inner, body=joined, end=number(outer * size))


def size_of(expression: Expression) -> int | None:
    """Return the size that an extent states; None if it is computed."""
    match expression:
        case Extent(size):
            return size
        case Literal(int() as value):
            return value
        case _:
            return None


@dataclass(frozen=True)
class _Pair:
    """Two nested axes, and whether what is done with them could be done with one."""

    outer: str
    inner: str
    size: int
    """Extent of the inner axis."""
    shapes: Shapes

    def even(self, body: tuple[Statement, ...]) -> bool:
        """Whether the axes are only used in offsets that are linear in both."""
        for s in statements(body):
            match s:
                case Loop():
                    if any(self._used(e) for e in (s.begin, s.end)):
                        return False
                case Store():
                    if not (self._grows(offset(s.index, self.shapes[s.buffer])) and self._plain(s.value)):
                        return False
                case Update():
                    if not (self._plain(s.value) and self._grows(s.position)):
                        return False
                case Let():
                    if not self._plain(s.value):
                        return False
        return True

    def _used(self, e: Expression) -> bool:
        return any(isinstance(p, Position) and p.axis in (self.outer, self.inner) for p in walk(e))

    def _plain(self, e: Expression) -> bool:
        if isinstance(e, Load):
            return self._grows(offset(e.index, self.shapes[e.buffer]))
        if isinstance(e, Position | Arith):
            return not self._used(e) or self._grows(e)
        if isinstance(e, Guard) and self._used(e.condition):
            return False
        return all(map(self._plain, parts_of(e)))

    def _grows(self, e: Expression) -> bool:
        """Whether a step of the outer axis is `size` steps of the inner one."""
        if not self._used(e):
            return True
        a, b = stride(e, self.outer), stride(e, self.inner)
        if a is None or b is None:
            return False
        grown = _value(a)
        return grown is not None and grown == _value(arith("*", b, number(self.size)))


def _value(e: Expression) -> tuple[int, ...] | None:
    """Evaluate integer arithmetic over sizes, on every workload seen."""
    count = max(
        (len(x.size.values) for x in walk(e) if isinstance(x, Extent) and isinstance(x.size, Size)), default=1
    )
    found = []
    for k in range(count):
        value = _at(e, k, count)
        if value is None:
            return None
        found.append(value)
    return tuple(found) if len(set(found)) > 1 else (found[0],)


def _at(e: Expression, k: int, count: int) -> int | None:
    match e:
        case Literal(value):
            return int(value)
        case Extent(size):
            return values_of(size, count)[k]
        case Arith(sign, left, right):
            a, b = _at(left, k, count), _at(right, k, count)
            if a is None or b is None:
                return None
            return {"+": a + b, "-": a - b, "*": a * b}.get(sign)
        case _:
            return None
