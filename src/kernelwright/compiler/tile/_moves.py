"""Program, move → Program: one explicit, semantics-preserving change of the loops of a kernel."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from ._expression import Arith, Position, number
from ._feed import fed
from ._known import specialised, wholly
from ._legal import (
    SIZES,
    Spot,
    What,
    can_be_whole,
    can_cut,
    can_feed,
    can_keep,
    can_nest,
    can_overwrite,
    can_parallelise,
    can_rescale,
    can_specialise,
    can_stage,
    can_stream,
    can_strip,
    can_unroll,
    can_vectorise,
    only,
    spots,
)
from ._program import Kernel, Loop, Program, Statement, Store, statements
from ._rescale import rescaled
from ._rows import kept, overwritten
from ._stage import staged, with_loops
from ._strips import stripped


class Immovable(Exception):
    """A kernel has no such loop, value or buffer, or the move would change what it computes."""


@dataclass(frozen=True)
class Move:
    """One change of the loops of one kernel."""

    what: What
    kernel: str
    at: str
    """An axis; a buffer for streaming stores; a value to keep; a size to specialise for."""
    size: int = 0
    """As in `SIZES`, if the move has one."""


def places(program: Program, what: What) -> Iterator[tuple[str, str]]:
    """Yield the kernels and their axes, buffers or values at which a move is legal."""
    legal = _KINDS[what].legal
    for kernel in _kernels(program, what):
        found = (spot.name for spot in spots(program, kernel) if legal(program, kernel, spot))
        yield from ((kernel.name, name) for name in dict.fromkeys(found))


def moved(program: Program, move: Move) -> Program:
    """Return the program after a move.

    Raises:
        Immovable: the move is not legal there.
    """
    kind = _KINDS[move.what]
    for kernel in (k for k in _kernels(program, move.what) if k.name == move.kernel):
        if any(spot.name == move.at and kind.legal(program, kernel, spot) for spot in spots(program, kernel)):
            return kind.done(program, kernel, move.at, move.size or SIZES.get(move.what, 0))
    raise Immovable(f"{move.what} is not legal at {move.kernel}.{move.at}")


def _kernels(program: Program, what: What) -> Iterator[Kernel]:
    """Yield the steps that a move may change, as kernels."""
    for step in program.steps:
        kernel = with_loops(step) if what == "stage" else step
        if isinstance(kernel, Kernel) and kernel.gradients is None:
            yield kernel


@dataclass(frozen=True)
class _Kind:
    """A kind of move: where it is legal, and how it is applied."""

    legal: Callable[[Program, Kernel, Spot], bool]
    done: Callable[[Program, Kernel, str, int], Program]


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
        inner = only(outer)
        assert inner is not None
        tile = _within(outer, size, (_within(inner, size, inner.body),))
        return _blocks(outer, size, (_blocks(inner, size, (tile,)),))

    return _at(body, axis, change)


def _reorder(body: Body, axis: str, _: int) -> Body:
    def change(outer: Loop) -> Loop:
        inner = only(outer)
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


def _in_body(change: Callable[[Body, str, int], Body]) -> Callable[[Program, Kernel, str, int], Program]:
    """Return a change of statements as one of their program."""

    def done(program: Program, kernel: Kernel, at: str, size: int) -> Program:
        new = replace(kernel, body=change(kernel.body, at, size))
        return replace(program, steps=tuple(new if s is kernel else s for s in program.steps))

    return done


_KINDS: Mapping[What, _Kind] = {
    "cut": _Kind(can_cut, _in_body(_cut)),
    "tile": _Kind(can_nest, _in_body(_tile)),
    "reorder": _Kind(can_nest, _in_body(_reorder)),
    "parallelise": _Kind(can_parallelise, _in_body(_parallelise)),
    "vectorise": _Kind(can_vectorise, _in_body(_vectorise)),
    "unroll": _Kind(can_unroll, _in_body(_unroll)),
    "stream": _Kind(can_stream, _in_body(_stream)),
    "keep": _Kind(can_keep, lambda program, kernel, at, _: kept(program, kernel, at)),
    "overwrite": _Kind(can_overwrite, lambda program, kernel, at, _: overwritten(program, kernel, at)),
    "rescale": _Kind(can_rescale, rescaled),
    "stage": _Kind(can_stage, staged),
    "strip": _Kind(can_strip, stripped),
    "feed": _Kind(can_feed, fed),
    "specialise": _Kind(can_specialise, lambda program, kernel, at, _: specialised(program, kernel, at)),
    "whole": _Kind(can_be_whole, lambda program, kernel, at, _: wholly(program, kernel, at)),
}
