"""Body of a vector loop → unroll and jam: several vectors side by side in the same inner loops.

A fold over channels reads one vector of each row in turn: scattered cache lines, every row in a page of its
own. With several at a time, the lines of a row are neighbours, and the folds stall less on each other's results.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from ...tile import (
    Begin,
    Expression,
    Extent,
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
    mapped,
    statements,
    substitute,
    walk,
)  # fmt: skip
from .. import Unprintable

_THREADS, _ROWS = 16, 4
"""Least iterations of loops around those of which several are taken at a time; and how many are."""
_MOST, _SHORT = 128, 8
"""Most statements of all vectors together, short loops unrolled: limited by registers and compile time."""


def vector_offset(axis: str, vector: int) -> str:
    """Name the distance from the first vector to another one of those side by side."""
    return f"{axis}_at{vector}"


def vectors(loop: Loop) -> int:
    """Return how many vectors of a loop to process side by side: fewer for a long body, 1 without inner loops."""
    if not any(isinstance(s, Loop) for s in loop.body):
        return 1
    fit = _MOST // max(1, _length(loop.body))
    return next((count for count in (16, 8, 4, 2) if count <= min(fit, loop.unroll)), 1)


def with_rows_jammed(nest: Sequence[Loop]) -> list[Loop]:
    """Return nested loops over threads without the last, whose body then takes several of its iterations at a time.

    So are rows that lanes read at the same computed places, as a resized image has them: where neighbours lie is found
    once for all of them. Only where the loops around are enough for threads.
    """
    rows = nest[-1]
    if math.prod(_iterations(loop) for loop in nest[:-1]) < _THREADS or not _shares_places(rows):
        return list(nest)
    return [*nest[:-2], replace(nest[-2], body=(replace(rows, unroll=_ROWS),))]


def _iterations(loop: Loop) -> int:
    """Return the iterations of a loop from zero on the first workload, if a size says so."""
    match loop.end:
        case Literal(value) | Extent(value):
            return int(value)
        case _:
            return 1


def _shares_places(rows: Loop) -> bool:
    """Whether lanes within a loop read at places that are computed, and are the same in all its iterations."""
    lanes = next((s for s in rows.body if isinstance(s, Loop)), None)
    if lanes is None or not lanes.vector or any(isinstance(s, Loop) for s in lanes.body):
        return False
    here, across = _varying(rows.body, rows.axis), _varying(lanes.body, lanes.axis)
    loads = (e for s in lanes.body for x in expressions(s) for e in walk(x) if isinstance(e, Load))
    places = [[e for e in walk(load.index[-1]) if isinstance(e, Variable)] for load in loads if load.index]
    return any(
        any(e.name in across for e in place) and not any(e.name in here for e in place) for place in places
    )


def _length(body: Sequence[Statement]) -> int:
    """Count statements, those of a short loop as often as the compiler repeats them."""
    return sum(_times(s) * _length(s.body) if isinstance(s, Loop) else 1 for s in body)


def _times(loop: Loop) -> int:
    return int(loop.end.value) if isinstance(loop.end, Literal) and loop.end.value <= _SHORT else 1


def jammed(body: Sequence[Statement], axis: str, count: int) -> tuple[Statement, ...]:
    """Return a body whose statements that differ between lanes are there once for each of `count` vectors.

    Raises:
        Unprintable: a statement has no form for several vectors.
    """
    own = _varying(body, axis)
    return tuple(new for s in body for new in _copies(s, axis, count, own))


def _varying(body: Sequence[Statement], axis: str) -> frozenset[str]:
    """Name the values and accumulators that differ between lanes."""
    found = {s.name for s in statements(tuple(body)) if isinstance(s, Begin)}
    for s in statements(tuple(body)):
        if isinstance(s, Let) and any(_varies(e, axis, found) for e in walk(s.value)):
            found.add(s.name)
    return frozenset(found)


def _varies(e: Expression, axis: str, names: set[str] | frozenset[str]) -> bool:
    match e:
        case Position(name):
            return name == axis
        case Variable(name) | Result(name):
            return name in names
        case _:
            return False


def _copies(s: Statement, axis: str, count: int, own: frozenset[str]) -> list[Statement]:
    match s:
        case Loop(end=end, begin=begin):
            if any(_varies(e, axis, own) for bound in (begin, end) for e in walk(bound)):
                raise Unprintable("lanes whose loops end apart")
            body = (new for inner in s.body for new in _copies(inner, axis, count, own))
            return [replace(s, body=tuple(body))]
        case Let(name) if name not in own:
            return [s]
        case Let() | Begin() | Update() | Store():
            return [_copy(s, axis, vector, own) for vector in range(count)]
        case _:
            raise Unprintable("rows and products for several vectors")


def _copy(s: Statement, axis: str, vector: int, own: frozenset[str]) -> Statement:
    def name_of(name: str) -> str:
        return f"{name}_at{vector}" if name in own else name

    def by(e: Expression) -> Expression | None:
        match e:
            case Position(name) if name == axis and vector:
                return arith("+", e, Position(vector_offset(axis, vector)))
            case Variable(name, kind) if name in own:
                return Variable(name_of(name), kind)
            case Result(name, part, kind) if name in own:
                return Result(name_of(name), part, kind)
            case _:
                return None

    new = mapped(s, lambda e: substitute(e, by))
    match new:
        case Let(name, value):
            return Let(name_of(name), value)
        case Begin(name, monoid, kind):
            return Begin(name_of(name), monoid, kind)
        case Update(name, value, position):
            return Update(name_of(name), value, position)
        case _:
            return new
