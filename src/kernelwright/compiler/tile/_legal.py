"""Where a move is legal: one predicate per move on a loop, store or named value of a kernel."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal as Choice
from typing import TypeAlias

from ..graph import product
from ._expression import Expression, Extent, Literal, number, offset, stride
from ._feed import fed_by
from ._known import LANES, factors_of, sizes_of
from ._program import (
    Begin,
    Buffer,
    Kernel,
    Let,
    Loop,
    Program,
    Statement,
    Store,
    Update,
    read_by,
    statements,
)
from ._rescale import rescaled_passes
from ._rows import passes_of, result_over, worth_keeping
from ._stage import stages_of
from ._strips import strips_of

What: TypeAlias = Choice[
    "cut",
    "tile",
    "reorder",
    "parallelise",
    "vectorise",
    "unroll",
    "stream",
    "keep",
    "overwrite",
    "rescale",
    "stage",
    "strip",
    "specialise",
    "whole",
    "feed",
]
STREAM_BYTES = 4 << 20
"""Bytes of an output that may exceed a last-level cache; the tuner tries others."""
SIZES: Mapping[What, int] = {
    "cut": 256, "tile": 32, "unroll": 4, "stream": STREAM_BYTES, "strip": 1 << 17, "feed": 1 << 20,
    "rescale": 1024,
}  # fmt: skip
"""Initial sizes of moves: elements of a block, vectors in flight, bytes of a buffer, strip or panel."""


@dataclass(frozen=True)
class Spot:
    """What a move may apply to: a loop by its axis, a store by its buffer, a value or size by its name."""

    name: str
    statement: Loop | Store | Let | Extent
    around: tuple[Loop, ...]
    """The loops around it, outermost first."""


def spots(program: Program, kernel: Kernel) -> Iterator[Spot]:
    """Yield every loop of a kernel, the stores and values within them, and the sizes that it depends on."""
    for path in paths(kernel.body):
        yield Spot(path[-1].axis, path[-1], path[:-1])
        for s in path[-1].body:
            if isinstance(s, Store | Let):
                yield Spot(s.buffer if isinstance(s, Store) else s.name, s, path)
    yield from (Spot(name, Extent(size), ()) for name, size in sizes_of(program, kernel).items())


def paths(body: tuple[Statement, ...], above: tuple[Loop, ...] = ()) -> Iterator[tuple[Loop, ...]]:
    """Yield every loop with those around it, outermost first."""
    for s in body:
        if isinstance(s, Loop):
            yield (*above, s)
            yield from paths(s.body, (*above, s))


def only(loop: Loop) -> Loop | None:
    """Return the loop that is the whole body of another."""
    return loop.body[0] if len(loop.body) == 1 and isinstance(loop.body[0], Loop) else None


def free(s: Statement | None) -> bool:
    """Whether iterations run in any order, from zero to a size."""
    return isinstance(s, Loop) and not s.ordered and s.begin == number(0) and _known(s.end)


def _known(end: Expression) -> bool:
    return isinstance(end, Literal | Extent)


# One question a move --------------------------------------------------------------------------------------


def can_cut(_: Program, __: Kernel, spot: Spot) -> bool:
    """Whether a loop can run in blocks."""
    return not isinstance(spot.statement, Extent) and free(spot.statement)


def can_nest(_: Program, __: Kernel, spot: Spot) -> bool:
    """Whether a loop holds one other loop and nothing else, over a rectangle."""
    loop = spot.statement
    return isinstance(loop, Loop) and not loop.vector and free(loop) and free(only(loop))


def can_parallelise(_: Program, __: Kernel, spot: Spot) -> bool:
    """Whether threads may take a loop."""
    loop = spot.statement
    if not isinstance(loop, Loop) or loop.parallel or loop.ordered or loop.begin != number(0):
        return False
    return not any(outer.ordered or outer.vector for outer in spot.around)


def can_vectorise(_: Program, __: Kernel, spot: Spot) -> bool:
    """Whether lanes may take a loop."""
    loop = spot.statement
    if not isinstance(loop, Loop) or loop.vector or any(s.ordered for s in (*spot.around, loop)):
        return False
    return not any(isinstance(s, Loop) and s.parallel for s in statements(loop.body))


def can_unroll(_: Program, __: Kernel, spot: Spot) -> bool:
    """Whether a loop folds lanes into an accumulator begun outside."""
    loop = spot.statement
    if not isinstance(loop, Loop) or not loop.vector:
        return False
    own = {s.name for s in statements(loop.body) if isinstance(s, Begin)}
    return any(isinstance(s, Update) and s.name not in own for s in loop.body)


def can_stream(program: Program, _: Kernel, spot: Spot) -> bool:
    """Whether lanes or a scan store a large output contiguously, and nothing reads it again."""
    s = spot.statement
    lanes = next((loop for loop in spot.around if loop.vector or loop.ordered), None)
    if not isinstance(s, Store) or s.stream or s.combine or lanes is None:
        return False
    buffer = program.buffer(s.buffer)
    if buffer.role != "output" or not _large(buffer):
        return False
    contiguous = stride(offset(s.index, buffer.shape), lanes.axis) == number(1)
    return contiguous and not any(s.buffer in read_by(step) for step in program.steps)


def can_keep(_: Program, kernel: Kernel, spot: Spot) -> bool:
    """Whether a later pass over the same row computes the same costly value."""
    if not isinstance(spot.statement, Let) or any(loop.vector for loop in spot.around[:-1]):
        return False
    block = spot.around[-2].body if len(spot.around) > 1 else kernel.body
    stored = {s.buffer for s in statements(kernel.body) if isinstance(s, Store)}
    alike = passes_of(block, spot.around[-1])
    return alike is not None and worth_keeping(alike, spot.name, stored)


def can_overwrite(program: Program, kernel: Kernel, spot: Spot) -> bool:
    """Whether a value of a long row can wait in the result for the last pass over the row, which needs it."""
    if not isinstance(spot.statement, Let) or any(loop.vector for loop in spot.around[:-1]):
        return False
    block = spot.around[-2].body if len(spot.around) > 1 else kernel.body
    alike = passes_of(block, spot.around[-1], long=True)
    store = result_over(program, kernel, alike) if alike is not None else None
    others = {s.buffer for s in statements(kernel.body) if isinstance(s, Store)}
    return store is not None and alike is not None and worth_keeping(alike, spot.name, others)


def can_rescale(_: Program, kernel: Kernel, spot: Spot) -> bool:
    """Whether a loop sums exponentials of a long row, relative to the largest value that the loop before it found."""
    if not isinstance(spot.statement, Loop):
        return False
    block = spot.around[-1].body if spot.around else kernel.body
    return rescaled_passes(block, spot.statement) is not None


def can_stage(_: Program, __: Kernel, spot: Spot) -> bool:
    """Whether windows in a loop read padded values several times, and no inner loop contains all reads of one."""
    loop = spot.statement
    if not isinstance(loop, Loop):
        return False
    path = (*spot.around, loop)
    found = stages_of(path)
    inner = (stages_of((*path, s)) for s in loop.body if isinstance(s, Loop))
    return bool(found) and not any(inner)


def can_strip(program: Program, kernel: Kernel, spot: Spot) -> bool:
    """Whether the rows that a loop reads can be multiplied where they are read."""
    return isinstance(spot.statement, Loop) and strips_of(program, kernel, spot.statement) is not None


def can_feed(program: Program, kernel: Kernel, spot: Spot) -> bool:
    """Whether everything that a kernel stores feeds one library product, and both run row by row."""
    return isinstance(spot.statement, Store) and fed_by(program, kernel) is not None


def can_specialise(program: Program, kernel: Kernel, spot: Spot) -> bool:
    """Whether a kernel that runs in every call depends on a size, and has no version for it yet."""
    known = spot.name in dict(kernel.known) or kernel.name in program.ahead
    return isinstance(spot.statement, Extent) and not known


def can_be_whole(program: Program, kernel: Kernel, spot: Spot) -> bool:
    """Whether a kernel's lanes may have a tail in a size that is a multiple of the vector on the first workload."""
    size = spot.statement.size if isinstance(spot.statement, Extent) else 1
    if size % LANES or kernel.name in program.ahead or spot.name in (*dict(kernel.known), *kernel.whole):
        return False
    loops = [s for s in statements(kernel.body) if isinstance(s, Loop) and s.vector]
    return any(spot.name in factors_of(loop) for loop in loops)


def _large(buffer: Buffer) -> bool:
    return buffer.dtype == "float32" and 4 * int(product(buffer.shape)) >= SIZES["stream"]
