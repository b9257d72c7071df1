"""How the loops of a kernel are arranged: joined, flattened, over lanes, over threads."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from ..graph import Size, values_of
from ..tile import (
    Arith,
    Begin,
    Expression,
    Extent,
    Guard,
    Kernel,
    Let,
    Literal,
    Load,
    Loop,
    Position,
    Result,
    Statement,
    Store,
    Update,
    Variable,
    arith,
    expressions,
    number,
    offset,
    parts_of,
    renamed,
    statements,
    stride,
    substitute,
    walk,
)  # fmt: skip

Shapes: TypeAlias = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Layout:
    """Schedule attributes that actions set."""

    vector: str = "auto"
    """`auto`; `inner` for the innermost loops; `outer` for the last root loop, around reductions; `none`."""
    unroll: int = 2
    """Vectors in flight in reductions."""
    fuse_passes: bool = True
    """Whether reductions that do not wait for each other share a pass."""
    flatten: bool = True
    """Whether neighbouring loops over contiguous elements run as one."""
    parallel: bool = True
    stream: bool = False
    """Whether outputs are written past the caches."""


def scheduled(kernel: Kernel, layout: Layout, shapes: Shapes) -> Kernel:
    """Arrange the loops of a kernel; `shapes` are those of the buffers by name."""
    body = kernel.body
    if layout.fuse_passes:
        body = fused_passes(body)
    if layout.flatten:
        body = flattened(body, shapes)
    body = vectorised(body, layout)
    if layout.parallel:
        body = parallelised(body)
    return replace(kernel, body=body)


# Passes that share a loop ---------------------------------------------------------------------------------


def fused_passes(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """Join loops of one block that have the same extent, where the later does not wait for the earlier."""
    found: list[Statement] = []
    for statement in body:
        if isinstance(statement, Loop):
            inner = replace(statement, body=fused_passes(statement.body))
            place = _partner(found, inner)
            if place is not None:
                other = found[place]
                assert isinstance(other, Loop)
                joined = _joined(other, inner)
                found[place] = replace(joined, body=fused_passes(joined.body))
                continue
            found.append(inner)
        else:
            found.append(statement)
    return tuple(found)


def _partner(before: list[Statement], loop: Loop) -> int | None:
    """Find an earlier loop of the same extent, all of whose later siblings the loop can jump over."""
    needs = _used([loop])
    stores = {s.buffer for s in statements((loop,)) if isinstance(s, Store)}
    for place in range(len(before) - 1, -1, -1):
        other = before[place]
        if isinstance(other, Loop):
            same_extent = str(other.end) == str(loop.end) and other.begin == loop.begin
            free = not (needs & _defined([other])) and not (stores or _stored_in(other) & _read(loop))
            if same_extent and free and not other.ordered and not loop.ordered:
                return place
            if needs & _defined([other]) or stores:
                return None
        elif isinstance(other, Begin) and other.name in needs:
            earlier = any(isinstance(s, Loop) for s in before[:place])
            return _jump(before, loop, needs - {other.name}) if earlier else None
        elif _defined([other]) & needs or isinstance(other, Store):
            return None
    return None


def _jump(before: list[Statement], loop: Loop, needs: set[str]) -> int | None:
    """Move the accumulators that the loop folds into before the loop that it joins."""
    moved = [i for i in range(len(before)) if isinstance(b := before[i], Begin) and b.name in _used([loop])]
    first = min(moved)
    for place in range(first - 1, -1, -1):
        other = before[place]
        if isinstance(other, Loop):
            same_extent = str(other.end) == str(loop.end) and other.begin == loop.begin
            clash = (_used([loop]) - {b.name for i in moved if isinstance(b := before[i], Begin)}) & _defined(
                [other]
            )
            if (
                same_extent
                and not clash
                and not other.ordered
                and not _stored_in(other)
                and not _stores(loop)
            ):
                between = before[place + 1 :]
                if any(_defined([s]) & needs for s in between if not isinstance(s, Begin)):
                    return None
                begins = [before[i] for i in moved]
                rest = [s for i, s in enumerate(before) if i not in moved]
                at = rest.index(other)
                before[:] = [*rest[:at], *begins, *rest[at:]]
                return at + len(begins)
            return None
        if _defined([other]) & needs:
            return None
    return None


def _stores(loop: Loop) -> bool:
    return any(isinstance(s, Store) for s in statements((loop,)))


def _stored_in(statement: Statement) -> set[str]:
    return {s.buffer for s in statements((statement,)) if isinstance(s, Store)}


def _read(statement: Statement) -> set[str]:
    return {
        e.buffer
        for s in statements((statement,))
        for x in expressions(s)
        for e in walk(x)
        if isinstance(e, Load)
    }


def _used(body: Iterable[Statement]) -> set[str]:
    """Name the variables and accumulators that statements refer to."""
    found: set[str] = set()
    for s in statements(tuple(body)):
        if isinstance(s, Update):
            found.add(s.name)
        for x in expressions(s):
            for e in walk(x):
                if isinstance(e, Variable):
                    found.add(e.name)
                elif isinstance(e, Result):
                    found.add(e.accumulator)
    return found


def _defined(body: Iterable[Statement]) -> set[str]:
    """Name what statements define or fold."""
    return {s.name for s in statements(tuple(body)) if isinstance(s, Let | Begin | Update)}


def _joined(first: Loop, second: Loop) -> Loop:
    inner = rename_axis(second.body, second.axis, Position(first.axis))
    return replace(first, body=_shared((*first.body, *inner)))


def _shared(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """Name a value once that a joined body names twice; loads of what it stores stay."""
    stored = {s.buffer for s in statements(body) if isinstance(s, Store)}
    known: dict[Expression, str] = {}
    again: dict[str, str] = {}
    found: list[Statement] = []
    for statement in body:
        s = _renamed(statement, again) if again else statement
        if isinstance(s, Let) and not any(isinstance(e, Load) and e.buffer in stored for e in walk(s.value)):
            if s.value in known:
                again[s.name] = known[s.value]
                continue
            if not any(isinstance(e, Result) for e in walk(s.value)):
                known[s.value] = s.name
        found.append(s)
    return tuple(found)


def _renamed(s: Statement, names: Mapping[str, str]) -> Statement:
    """Put other variables in the place of some, in a statement and all within it."""

    def by(e: Expression) -> Expression | None:
        return Variable(names[e.name], e.kind) if isinstance(e, Variable) and e.name in names else None

    match s:
        case Let():
            return Let(s.name, substitute(s.value, by))
        case Store():
            return replace(s, index=tuple(substitute(i, by) for i in s.index), value=substitute(s.value, by))
        case Update():
            return Update(s.name, substitute(s.value, by), substitute(s.position, by))
        case Loop():
            return replace(s, body=tuple(_renamed(b, names) for b in s.body))
        case _:
            return s


def rename_axis(body: tuple[Statement, ...], axis: str, by: Expression) -> tuple[Statement, ...]:
    """Put an expression in the place of a loop's counter."""
    return tuple(map_expressions(s, {axis: by}) for s in body)


def map_expressions(s: Statement, axes: Mapping[str, Expression]) -> Statement:
    """Rename positions in a statement and all within it."""
    match s:
        case Let(name, value):
            return Let(name, renamed(value, axes))
        case Store():
            index = tuple(renamed(i, axes) for i in s.index)
            return replace(s, index=index, value=renamed(s.value, axes))
        case Update(name, value, position):
            return Update(name, renamed(value, axes), renamed(position, axes))
        case Loop():
            body = tuple(map_expressions(inner, axes) for inner in s.body)
            return replace(s, body=body, end=renamed(s.end, axes), begin=renamed(s.begin, axes))
        case _:
            return s


# Loops that run as one ------------------------------------------------------------------------------------


def flattened(body: tuple[Statement, ...], shapes: Shapes) -> tuple[Statement, ...]:
    """Run two loops as one where the inner is all of the outer's body and offsets grow evenly through both."""
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
    size = _size(inner.end)
    outer = _size(loop.end)
    if size is None or outer is None or not _Pair(loop.axis, inner.axis, size, shapes).even(inner.body):
        return loop
    joined = rename_axis(inner.body, loop.axis, number(0))
    return replace(inner, body=joined, end=number(outer * size))


def _size(expression: Expression) -> int | None:
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
        """Tell whether the axes are only used in offsets that grow evenly through both."""
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
        """Tell whether a step of the outer axis is `size` steps of the inner one."""
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


# Lanes ----------------------------------------------------------------------------------------------------


def vectorised(body: tuple[Statement, ...], layout: Layout) -> tuple[Statement, ...]:
    """Mark one loop on each path as the one that lanes run over."""
    if layout.vector == "none":
        return body
    return tuple(_lanes(s, layout) if isinstance(s, Loop) else s for s in body)


def _lanes(loop: Loop, layout: Layout) -> Loop:
    inner = [s for s in loop.body if isinstance(s, Loop)]
    if loop.ordered:
        return replace(loop, body=vectorised(loop.body, layout)) if inner else loop
    if not inner:
        return replace(loop, vector=True, unroll=layout.unroll)
    here, below = _contiguous(loop.body, loop.axis), _best_below(loop)
    outer_fits = here > below or layout.vector == "outer"
    last_root = not any(_has_store_loop(s) for s in inner)
    if outer_fits and layout.vector != "inner" and last_root and here > 0:
        return replace(loop, vector=True, unroll=1)
    return replace(loop, body=vectorised(loop.body, layout))


def _has_store_loop(loop: Loop) -> bool:
    """Tell whether elements are stored within a loop: then it is no reduction."""
    return any(isinstance(s, Store) for s in statements((loop,)))


def _contiguous(body: tuple[Statement, ...], axis: str) -> int:
    """Count loads and stores whose neighbours along the axis are neighbours in memory, less those that jump."""
    score = 0
    for index in _accesses(body):
        last = stride(index[-1], axis) if index else number(0)
        before = [stride(i, axis) for i in index[:-1]]
        if last == number(1) and all(b == number(0) for b in before):
            score += 1
        elif last != number(0) or any(b != number(0) for b in before):
            score -= 1
    return score


def _accesses(body: tuple[Statement, ...]) -> Iterator[tuple[Expression, ...]]:
    for s in statements(body):
        if isinstance(s, Store):
            yield s.index
        for x in expressions(s):
            for e in walk(x):
                if isinstance(e, Load):
                    yield e.index


def _best_below(loop: Loop) -> int:
    """Return the same count for the innermost loops within, each along its own axis."""
    score = 0
    for s in loop.body:
        if isinstance(s, Loop):
            has_inner = any(isinstance(t, Loop) for t in s.body)
            score += _best_below(s) if has_inner else _contiguous(s.body, s.axis)
    return score


# Threads --------------------------------------------------------------------------------------------------


def parallelised(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """Run the outermost loops over threads; perfectly nested ones together while the first is short."""
    return tuple(_threads(s) if isinstance(s, Loop) else s for s in body)


_ENOUGH = 64


def _threads(loop: Loop) -> Loop:
    if loop.ordered:
        inner = tuple(s for s in loop.body)
        return replace(loop, body=inner)
    size = _size(loop.end)
    only = loop.body[0] if len(loop.body) == 1 and isinstance(loop.body[0], Loop) else None
    if size is not None and int(size) < _ENOUGH and only is not None and not loop.vector and not only.ordered:
        nested = _threads(only)
        return replace(loop, parallel=True, body=(nested,))
    return replace(loop, parallel=True)


__all__ = ["Layout", "flattened", "fused_passes", "parallelised", "scheduled", "vectorised"]
