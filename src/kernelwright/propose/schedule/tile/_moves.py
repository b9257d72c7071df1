"""Program, move → Program: one change of the loops of a kernel, explicit, where it keeps the meaning."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal as Choice
from typing import TypeAlias

from ..graph import product
from ._expression import (
    Arith,
    Expression,
    Extent,
    Literal,
    Load,
    Position,
    number,
    offset,
    stride,
    walk,
)
from ._program import Begin, Kernel, Loop, Program, Statement, Store, Update, expressions, statements
from ._rows import kept, worth_keeping

What: TypeAlias = Choice["cut", "tile", "reorder", "parallelise", "vectorise", "unroll", "stream", "keep"]
STREAM_BYTES = 4 << 20
"""Bytes of an output that a last-level cache may not hold; the tuner tries others."""
SIZES: Mapping[What, int] = {"cut": 256, "tile": 32, "unroll": 4, "stream": STREAM_BYTES}
"""What a move is done with at first: elements of a block, vectors in flight, bytes of a buffer."""


class Immovable(Exception):
    """A kernel has no such loop, value or buffer, or the move would change what it computes."""


@dataclass(frozen=True)
class Move:
    """One change of the loops of one kernel."""

    what: What
    kernel: str
    at: str
    """An axis; a buffer where stores stream; a value that is kept."""
    size: int = 0
    """As in `SIZES`, where the move has one."""


def places(program: Program, what: What) -> Iterator[tuple[str, str]]:
    """Yield the kernels and their axes, buffers or values at which a move is legal."""
    for step in program.steps:
        if isinstance(step, Kernel):
            yield from ((step.name, at) for at in dict.fromkeys(_PLACES[what](program, step)))


def moved(program: Program, move: Move) -> Program:
    """Return the program after a move.

    Raises:
        Immovable: the move is not legal there.
    """
    if (move.kernel, move.at) not in set(places(program, move.what)):
        raise Immovable(f"{move.what} is not legal at {move.kernel}.{move.at}")
    if move.what == "keep":
        return kept(program, move.kernel, move.at)
    change = _CHANGES[move.what]

    def done(step: Kernel) -> Kernel:
        return replace(step, body=change(step.body, move.at, move.size or SIZES.get(move.what, 0)))

    return replace(
        program,
        steps=tuple(done(s) if isinstance(s, Kernel) and s.name == move.kernel else s for s in program.steps),
    )


# Where ----------------------------------------------------------------------------------------------------


def paths(body: tuple[Statement, ...], above: tuple[Loop, ...] = ()) -> Iterator[tuple[Loop, ...]]:
    """Yield every loop with those around it, outermost first."""
    for s in body:
        if isinstance(s, Loop):
            yield (*above, s)
            yield from paths(s.body, (*above, s))


def _free(loop: Loop) -> bool:
    """Tell whether iterations from zero on may run in any order."""
    return not loop.ordered and loop.begin == number(0)


def _whole(_: Program, kernel: Kernel) -> Iterator[str]:
    return (path[-1].axis for path in paths(kernel.body) if _free(path[-1]) and _known(path[-1].end))


def _known(end: Expression) -> bool:
    return isinstance(end, Literal | Extent)


def _pairs(_: Program, kernel: Kernel) -> Iterator[str]:
    """Yield loops that hold one other loop and nothing else, over a rectangle."""
    for path in paths(kernel.body):
        outer, inner = path[-1], _only(path[-1])
        if inner is not None and not outer.vector and all(_free(p) and _known(p.end) for p in (outer, inner)):
            yield outer.axis


def _only(loop: Loop) -> Loop | None:
    return loop.body[0] if len(loop.body) == 1 and isinstance(loop.body[0], Loop) else None


def _threads(_: Program, kernel: Kernel) -> Iterator[str]:
    for path in paths(kernel.body):
        around = any(loop.ordered or loop.vector for loop in path[:-1])
        if _free(path[-1]) and not path[-1].parallel and not around:
            yield path[-1].axis


def _lanes(_: Program, kernel: Kernel) -> Iterator[str]:
    for path in paths(kernel.body):
        threads = any(isinstance(s, Loop) and s.parallel for s in statements(path[-1].body))
        if not path[-1].vector and not threads and not any(loop.ordered for loop in path):
            yield path[-1].axis


def _folds(_: Program, kernel: Kernel) -> Iterator[str]:
    for path in paths(kernel.body):
        own = {s.name for s in statements(path[-1].body) if isinstance(s, Begin)}
        folded = any(isinstance(s, Update) and s.name not in own for s in path[-1].body)
        if folded and path[-1].vector:
            yield path[-1].axis


def _streams(program: Program, kernel: Kernel) -> Iterator[str]:
    """Yield outputs beyond the last cache that lanes store side by side and nothing reads again."""
    read = {
        e.buffer
        for step in program.steps if isinstance(step, Kernel)
        for s in statements(step.body) for x in expressions(s) for e in walk(x) if isinstance(e, Load)
    }  # fmt: skip
    for path in paths(kernel.body):
        for s in path[-1].body:
            if not isinstance(s, Store) or s.stream or s.combine or not path[-1].vector:
                continue
            buffer = program.buffer(s.buffer)
            large = buffer.dtype == "float32" and 4 * int(product(buffer.shape)) >= SIZES["stream"]
            beside = stride(offset(s.index, buffer.shape), path[-1].axis) == number(1)
            if large and beside and buffer.role == "output" and s.buffer not in read:
                yield s.buffer


_PLACES: Mapping[What, Callable[[Program, Kernel], Iterator[str]]] = {
    "cut": _whole, "tile": _pairs, "reorder": _pairs, "parallelise": _threads, "vectorise": _lanes,
    "unroll": _folds, "stream": _streams, "keep": worth_keeping,
}  # fmt: skip


# How ------------------------------------------------------------------------------------------------------

Body: TypeAlias = tuple[Statement, ...]


def _at(body: Body, axis: str, change: Callable[[Loop], Loop]) -> Body:
    """Change the loop over an axis."""
    return tuple(
        s if not isinstance(s, Loop) else change(s) if s.axis == axis
        else replace(s, body=_at(s.body, axis, change))
        for s in body
    )  # fmt: skip


def _cut(body: Body, axis: str, size: int) -> Body:
    return _at(body, axis, lambda loop: _blocks(loop, size, (_within(loop, size, loop.body),)))


def _blocks(loop: Loop, size: int, body: Body) -> Loop:
    """Return the loop over blocks of a loop."""
    count = Arith("//", Arith("+", loop.end, number(size - 1)), number(size))
    return Loop(f"{loop.axis}_block", count, body, parallel=loop.parallel)


def _within(loop: Loop, size: int, body: Body) -> Loop:
    """Return the loop within one of its blocks; the last block may be shorter."""
    first = Arith("*", Position(f"{loop.axis}_block"), number(size))
    last = Arith("min", Arith("+", first, number(size)), loop.end)
    return replace(loop, begin=first, end=last, body=body, parallel=False)


def _tile(body: Body, axis: str, size: int) -> Body:
    def change(outer: Loop) -> Loop:
        inner = _only(outer)
        assert inner is not None
        tile = _within(outer, size, (_within(inner, size, inner.body),))
        return _blocks(outer, size, (_blocks(inner, size, (tile,)),))

    return _at(body, axis, change)


def _reorder(body: Body, axis: str, _: int) -> Body:
    def change(outer: Loop) -> Loop:
        inner = _only(outer)
        assert inner is not None
        nested = Loop(
            outer.axis,
            outer.end,
            inner.body,
            parallel=inner.parallel,
            vector=inner.vector,
            unroll=inner.unroll,
        )
        return Loop(inner.axis, inner.end, (nested,), parallel=outer.parallel)

    return _at(body, axis, change)


def _mark(body: Body, axis: str, change: Callable[[Loop, bool], Loop]) -> Body:
    """Change the loop over an axis (true), and those around and within it (false)."""
    found: list[Statement] = []
    for s in body:
        if isinstance(s, Loop) and any(isinstance(t, Loop) and t.axis == axis for t in statements((s,))):
            here = s.axis == axis
            inner = tuple(map(lambda t: _below(t, change), s.body)) if here else _mark(s.body, axis, change)
            found.append(change(replace(s, body=inner), here))
        else:
            found.append(s)
    return tuple(found)


def _below(s: Statement, change: Callable[[Loop, bool], Loop]) -> Statement:
    if not isinstance(s, Loop):
        return s
    return change(replace(s, body=tuple(_below(t, change) for t in s.body)), False)


def _parallelise(body: Body, axis: str, _: int) -> Body:
    return _mark(body, axis, lambda loop, here: replace(loop, parallel=here))


def _vectorise(body: Body, axis: str, _: int) -> Body:
    return _mark(body, axis, lambda loop, here: replace(loop, vector=here, unroll=2 if here else 1))


def _unroll(body: Body, axis: str, size: int) -> Body:
    return _at(body, axis, lambda loop: replace(loop, unroll=size))


def _stream(body: Body, buffer: str, size: int) -> Body:
    def change(s: Statement) -> Statement:
        if isinstance(s, Loop):
            return replace(s, body=tuple(map(change, s.body)))
        return replace(s, stream=size) if isinstance(s, Store) and s.buffer == buffer else s

    return tuple(map(change, body))


_CHANGES: Mapping[What, Callable[[Body, str, int], Body]] = {
    "cut": _cut, "tile": _tile, "reorder": _reorder, "parallelise": _parallelise, "vectorise": _vectorise,
    "unroll": _unroll, "stream": _stream,
}  # fmt: skip
