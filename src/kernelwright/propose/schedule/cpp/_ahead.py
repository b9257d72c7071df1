"""Body of a kernel → what the last pass over a row asks memory for: the row that the first pass reads next.

The first pass waits for memory, and those after it compute on what lies in a cache while memory has nothing to do. So
the last of them asks for the next row's lines, one for each of its own.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..tile import (
    Expression,
    Load,
    Loop,
    Position,
    Program,
    Statement,
    Variable,
    expressions,
    number,
    offset,
    statements,
    stride,
    substitute,
    walk,
)  # fmt: skip


@dataclass(frozen=True)
class Ahead:
    """Where a pass finds, in its own place of the row, what is read a row later."""

    buffer: str
    place: Expression
    """Of this row, in elements of the buffer."""
    further: Expression
    """Elements from there to the next row."""


def asked_ahead(program: Program, body: Sequence[Statement]) -> Mapping[str, tuple[Ahead, ...]]:
    """Return what to ask for, by the axis of the pass.

    Covers: rows of arguments, side by side in lanes, that several passes within one loop go over from end to end.
    Does not cover: rows that one pass is enough for, where the machine's own prefetching sees what comes.
    """
    found: dict[str, tuple[Ahead, ...]] = {}
    for rows in (s for s in statements(tuple(body)) if isinstance(s, Loop) and not s.vector):
        passes = [s for s in rows.body if isinstance(s, Loop)]
        if len(passes) > 1 and all(p.vector and _bounds(p) == (number(0), passes[0].end) for p in passes):
            axis = passes[-1].axis
            found[axis] = tuple(dict.fromkeys(_next(program, rows.axis, passes[0], axis)))
    return found


def _bounds(loop: Loop) -> tuple[Expression, Expression]:
    return loop.begin, loop.end


def _next(program: Program, row: str, first: Loop, axis: str) -> Iterator[Ahead]:
    """Yield what a pass reads side by side, of every row another part."""
    for load in (e for s in first.body for x in expressions(s) for e in walk(x) if isinstance(e, Load)):
        computed = any(isinstance(e, Variable | Load) for index in load.index for e in walk(index))
        if computed or program.buffer(load.buffer).role != "argument":
            continue
        place = offset(load.index, program.buffer(load.buffer).shape)
        further = stride(place, row)
        if stride(place, first.axis) == number(1) and further is not None and further != number(0):
            here = substitute(place, lambda e: Position(axis) if e == Position(first.axis) else None)
            yield Ahead(load.buffer, here, further)
