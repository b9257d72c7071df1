"""Body of a kernel → software prefetches of its loops.

A kernel that reads a row several times waits for memory in the first pass only; the later ones compute on what
is in a cache while memory is idle: the last of them prefetches the next row's lines, one for each of its own. Where
passes run over a row by blocks, the last of a block prefetches the next block's, and what it writes a little later.
A kernel that reads large data once, from end to end, prefetches what it reads a little later, and one that folds the
columns of large data a row further down: hardware prefetching ends at every page.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

from ...graph import same
from ...tile import (
    SIZES,
    Arith,
    Buffer,
    Expression,
    Guard,
    Literal,
    Load,
    Loop,
    Position,
    Program,
    Statement,
    Store,
    Variable,
    expressions,
    known_size,
    number,
    offset,
    parts_of,
    statements,
    stride,
    substitute,
    walk,
)  # fmt: skip


@dataclass(frozen=True)
class Ahead:
    """A prefetch of a loop over lanes, relative to where it reads."""

    buffer: str
    place: Expression
    """The element that is read, as an offset in the buffer or in its row."""
    further: Expression | None = None
    """Elements from there to the next row or block; None for a pass over the whole buffer."""
    writes: bool = False
    """Whether it is about to be written."""


def is_large(buffer: Buffer) -> bool:
    """Whether a buffer of the largest workload exceeds a cache; smaller ones are detected at run time."""
    return int(buffer.elements) * int(getattr(torch, buffer.dtype).itemsize) >= SIZES["stream"]


def asked_ahead(program: Program, body: Sequence[Statement]) -> Mapping[str, tuple[Ahead, ...]]:
    """Return what to prefetch, by the axis of the loop over lanes.

    Covers: arguments' rows, contiguous in lanes, that several passes in one loop read from end to end; large
    buffers that one pass reads, all at once or row by row; large buffers whose columns are folded.
    Does not cover: partly skipped rows; buffers read at several places, or only under a condition; scans,
    which took 1 to 7 % longer with it.
    """
    found: dict[str, tuple[Ahead, ...]] = {}
    for rows, within in _blocks(body):
        passes = [s for s in within if isinstance(s, Loop)]
        if rows is None or len(passes) == 1:
            walks = (p for p in passes if p.vector and p.begin == number(0))
            found |= {p.axis: tuple(_walked(program, rows, p)) for p in walks}
        elif passes and all(p.vector and _bounds(p) == _bounds(passes[0]) for p in passes):
            axis, size = passes[-1].axis, _block_size(passes[0].begin)
            if passes[0].begin == number(0):
                found[axis] = tuple(dict.fromkeys(_next(program, rows.axis, passes[0], axis)))
            elif size is not None:
                read = dict.fromkeys(_next_block(program, passes[0], axis, size))
                found[axis] = (*read, *_written(program, passes[-1]))
    for columns in (s for s in statements(tuple(body)) if isinstance(s, Loop) and s.vector):
        down = next((s for s in columns.body if isinstance(s, Loop)), None)
        if down and down.begin == number(0):
            found[down.axis] = tuple(_folded(program, columns.axis, down))
    return found


def _blocks(body: Sequence[Statement]) -> Iterator[tuple[Loop | None, Sequence[Statement]]]:
    """Yield the body and those of the loops that are not over lanes, each with its loop."""
    yield None, body
    for loop in (s for s in statements(tuple(body)) if isinstance(s, Loop) and not s.vector):
        yield loop, loop.body


def _bounds(loop: Loop) -> tuple[Expression, Expression]:
    return loop.begin, loop.end


def _next(program: Program, row: str, first: Loop, axis: str) -> Iterator[Ahead]:
    """Yield what a pass reads side by side, of every row another part."""
    for name, place in _side_by_side(program, first):
        further = stride(place, row)
        if further is not None and further != number(0):
            yield Ahead(name, _in_axis(place, first.axis, axis), further)


def _next_block(program: Program, first: Loop, axis: str, size: Expression) -> Iterator[Ahead]:
    """Yield what a pass over a block of a row reads side by side; after the last block follows the next row."""
    for name, place in _side_by_side(program, first):
        yield Ahead(name, _in_axis(place, first.axis, axis), size)


def _written(program: Program, last: Loop) -> Iterator[Ahead]:
    """Yield the large results that a pass writes side by side through the caches."""
    for s in (s for s in last.body if isinstance(s, Store) and not s.stream):
        buffer, steady = program.buffer(s.buffer), not any(map(_varies, s.index))
        if buffer.role == "output" and is_large(buffer) and steady:
            place = offset(s.index, buffer.shape)
            if stride(place, last.axis) == number(1):
                yield Ahead(s.buffer, place, writes=True)


def _block_size(begin: Expression) -> Expression | None:
    """Return how many elements a block has, if a pass begins where one does."""
    match begin:
        case Arith("*", Position(), Literal() as size):
            return size
        case _:
            return None


def _side_by_side(program: Program, loop: Loop) -> Iterator[tuple[str, Expression]]:
    """Yield the arguments that a pass reads side by side in lanes, and where."""
    for load in _loads(loop, walk):
        place = _place(program, load)
        given = program.buffer(load.buffer).role == "argument"
        if given and place is not None and stride(place, loop.axis) == number(1):
            yield load.buffer, place


def _in_axis(place: Expression, old: str, new: str) -> Expression:
    return substitute(place, lambda e: Position(new) if e == Position(old) else None)


def _walked(program: Program, rows: Loop | None, only: Loop) -> Iterator[Ahead]:
    """Yield the large buffers that the only pass over rows reads, each row after the one before."""
    for name, place in _once(program, only, only.axis):
        if rows is None or _follows(stride(place, rows.axis), only.end):
            yield Ahead(name, place)


def _folded(program: Program, columns: str, down: Loop) -> Iterator[Ahead]:
    """Yield the large buffers whose columns the first loop within those of lanes goes down, a row at a time."""
    for name, place in _once(program, down, columns):
        row = stride(place, down.axis)
        if row is not None and row != number(0):
            yield Ahead(name, place, row)


def _once(program: Program, loop: Loop, lanes: str) -> Iterator[tuple[str, Expression]]:
    """Yield the large buffers that a loop reads at one place, side by side in lanes."""
    loads = set(_loads(loop, always))
    times = Counter(load.buffer for load in loads)
    for load in sorted(loads, key=lambda e: e.buffer):
        place = _place(program, load)
        large = is_large(program.buffer(load.buffer)) and times[load.buffer] == 1
        if large and place is not None and stride(place, lanes) == number(1):
            yield load.buffer, place


def _follows(row: Expression | None, end: Expression) -> bool:
    """Whether a row begins where the one before ends."""
    apart, length = known_size(row), known_size(end)
    return apart is not None and length is not None and same(apart, length)


def _loads(loop: Loop, within: Callable[[Expression], Iterator[Expression]]) -> Iterator[Load]:
    return (e for s in loop.body for x in expressions(s) for e in within(x) if isinstance(e, Load))


def always(e: Expression) -> Iterator[Expression]:
    """Yield an expression and all within it that is read whatever the conditions."""
    yield e
    if not isinstance(e, Guard):
        for part in parts_of(e):
            yield from always(part)


def _place(program: Program, load: Load) -> Expression | None:
    """Return the element that is read; None if that follows from values."""
    if any(map(_varies, load.index)):
        return None
    return offset(load.index, program.buffer(load.buffer).shape)


def _varies(place: Expression) -> bool:
    """Whether a place follows from values."""
    return any(isinstance(e, Variable | Load) for e in walk(place))
