"""A product and the passes over its rows → one kernel: rows of the product stay in a thread's cache."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ..graph import Size, same, values_of
from ._expression import (
    Expression,
    Load,
    Position,
    arith,
    number,
    offset,
    positions,
    stride,
    substitute,
    walk,
)
from ._merge import known_size, merged
from ._parts import Axis
from ._program import (
    Buffer,
    Contraction,
    Kernel,
    Let,
    Loop,
    Program,
    Row,
    Statement,
    Store,
    expressions,
    mapped,
    read_by,
    renamed,
    statements,
    written,
)  # fmt: skip

_MOST_BYTES = 1 << 18
"""Bytes of the least strip: one row of the result, or all rows of one item of a batch."""
_MOST_IMAGE_BYTES = 1 << 21
"""The same of a convolution's results of one image: at most a share of the last cache, whose memory is used again."""
_WHOLE = ("loops", "channels-last")
"""Forms that run as a whole: without tiles, or from where an image begins in memory."""


@dataclass(frozen=True)
class Strips:
    """How a product runs strip by strip within the loop that reads it."""

    product: Contraction
    """With its axes merged, otherwise as in the program."""
    step: Contraction
    """The same, as the program has it."""
    buffer: Buffer
    axis: Axis
    """What is cut: an element of it is a row, or a matrix of a batch."""
    row: int
    """Elements that one of the axis stores."""
    rows: int
    """This many of the axis correspond to that many iterations of the loop; one of both is 1."""
    iterations: int


def strips_of(program: Program, kernel: Kernel, loop: Loop) -> Strips | None:
    """Return how the one product runs whose rows the iterations of a kernel's only outer loop read, each its own.

    Legal if a tiled product stores only them, in memory that nothing else reads.
    """
    if kernel.body != (loop,) or loop.vector or loop.ordered or loop.begin != number(0):
        return None
    every = [_strips(program, c, kernel, loop) for c in program.steps if isinstance(c, Contraction)]
    found = [strips for strips in every if strips is not None]
    return found[0] if len(found) == 1 else None


def stripped(program: Program, kernel: Kernel, axis: str, size_bytes: int) -> Program:
    """Return the program in which a kernel multiplies the rows that it is about to read, a strip at a time.

    Args:
        program: What to change.
        kernel: What reads the rows.
        axis: Its outer loop.
        size_bytes: Of a strip, at most; the rows that an iteration reads in any case.
    """
    (loop,) = kernel.body
    assert isinstance(loop, Loop) and loop.axis == axis
    s = strips_of(program, kernel, loop)
    assert s is not None
    units, name = s.axis.size // s.rows, s.buffer.name
    most = max(1, min(int(units), size_bytes // (4 * max(1, int(s.rows * s.row)))))
    count = Size(f"{name}_count", (most * int(s.rows),) * _workloads(program))
    strip = Position(f"{axis}_strip")
    first = arith("*", strip, number(most))
    here = arith("min", number(most), arith("-", number(units), first))
    begin, rows = arith("*", first, number(s.iterations)), arith("*", first, number(s.rows))
    inner = replace(
        loop, begin=begin, end=arith("+", begin, arith("*", here, number(s.iterations))), parallel=False,
        expected_extent=most * int(s.iterations),
        body=tuple(_serial(_shifted(t, s.buffer, arith("*", rows, number(s.row)))) for t in loop.body),
    )  # fmt: skip
    last = arith("//", arith("+", number(units), number(most - 1)), number(most))
    counted = Let(str(count), arith("*", here, number(s.rows)))
    outer = Loop(strip.axis, last, (counted, Row(name), _strip(s, rows, count), inner), parallel=True)
    new = replace(kernel, body=(outer,), comment=f"{kernel.comment}, {name} in strips of {most}")
    ones = (1,) * (len(s.buffer.shape) - 1)
    room = replace(s.buffer, role="row", shape=(most * s.rows * s.row, *ones))
    return replace(
        program, steps=tuple(new if step is kernel else step for step in program.steps if step is not s.step),
        buffers=tuple(room if b is s.buffer else b for b in program.buffers),
    )  # fmt: skip


def _strips(program: Program, found: Contraction, kernel: Kernel, loop: Loop) -> Strips | None:
    """Return how a product runs strip by strip within a kernel; None if it may not."""
    if found.tiling.form in _WHOLE or found.tiling.split > 1 or found.others or len(written(found)) != 1:
        return None
    (name,) = written(found)
    buffer = program.buffer(name)
    if buffer.role != "temporary" or not buffer.shape or name in [new for _, new in program.updates]:
        return None
    readers = [step for step in program.steps if name in read_by(step)]
    if len(readers) != 1 or readers[0] is not kernel or {found.name, kernel.name} & program.ahead:
        return None
    joined = merged(found, {b.name: b.shape for b in program.buffers})
    cut, step = _cut(joined, buffer), own_elements(kernel, loop, buffer)
    if cut is None or step is None:
        return None
    axis, row = cut
    rows, iterations = step // row, row // step
    if not same(rows * row, step):
        rows = 1
    elif same(rows * (axis.size // rows), axis.size):
        iterations = 1
    if not same(rows * row, iterations * step):
        return None
    small = 4 * int(rows * row) <= (_MOST_BYTES if found.image is None else _MOST_IMAGE_BYTES)
    return Strips(joined, found, buffer, axis, row, rows, iterations) if small else None


# Whose rows -----------------------------------------------------------------------------------------------


def own_elements(kernel: Kernel, loop: Loop, buffer: Buffer) -> int | None:
    """Return how many elements of a buffer each iteration touches; None if iterations may overlap."""
    ends = {s.axis: s.end for s in statements(kernel.body) if isinstance(s, Loop)}
    every = (e for s in statements(kernel.body) for x in expressions(s) for e in walk(x))
    touched = [(e.buffer, e.index) for e in every if isinstance(e, Load)]
    touched += [(s.buffer, s.index) for s in statements(kernel.body) if isinstance(s, Store)]
    steps = [_own(offset(at, buffer.shape), loop.axis, ends) for name, at in touched if name == buffer.name]
    step, count = steps[0] if steps else None, known_size(loop.end)
    if step is None or count is None or not all(s is not None and same(s, step) for s in steps):
        return None
    return step if int(step) > 0 and same(count * step, buffer.elements) else None


def _own(place: Expression, axis: str, ends: Mapping[str, Expression]) -> int | None:
    """Return how many elements each iteration owns; None if it reaches beyond them."""
    step, others = known_size(stride(place, axis)), positions(place) - {axis}
    reach = 1
    for other in others:
        by, end = known_size(stride(place, other)), known_size(ends.get(other))
        if by is None or end is None:
            return None
        reach = reach + by * (end - 1)
    if step is None or renamed(place, dict.fromkeys({axis, *others}, number(0))) != number(0):
        return None
    count = max(len(s.values) if isinstance(s, Size) else 1 for s in (step, reach))
    fits = all(r <= s for r, s in zip(values_of(reach, count), values_of(step, count), strict=True))
    return step if fits else None


def _cut(found: Contraction, buffer: Buffer) -> tuple[Axis, int] | None:
    """Return the axis of a product that can run in parts, and how many elements one of it stores."""
    (store,) = (s for s in found.epilogue if isinstance(s, Store))
    place = offset(store.index, buffer.shape)
    if found.image is not None:
        outermost = [*found.image.images[:1]]
    else:
        outermost = [axes[0] for axes in (found.batch, found.rows) if axes]
        outermost += found.columns[:1] if len(found.columns) > 1 else ()
    for axis in outermost:
        row = known_size(stride(place, axis.name))
        if row is not None and int(row) > 0 and same(axis.size * row, buffer.elements):
            return axis, row
    return None


# One strip ------------------------------------------------------------------------------------------------


def _shifted(s: Statement, buffer: Buffer, before: Expression) -> Statement:
    """Return a statement that reads a row from its strip, offset by this many elements."""

    def by(e: Expression) -> Expression | None:
        if not isinstance(e, Load) or e.buffer != buffer.name:
            return None
        place = arith("-", offset(e.index, buffer.shape), before)
        return replace(e, index=(*(number(0) for _ in e.index[1:]), place))

    return mapped(s, lambda e: substitute(e, by))


def _serial(s: Statement) -> Statement:
    """Return a statement within a strip, which is one thread's."""
    return replace(s, parallel=False, body=tuple(map(_serial, s.body))) if isinstance(s, Loop) else s


def _strip(s: Strips, first: Expression, count: Size) -> Contraction:
    """Return the product of the rows of one strip, stored from the start of the strip's buffer."""
    whole = mapped(s.product, lambda e: renamed(e, {s.axis.name: arith("+", Position(s.axis.name), first)}))
    assert isinstance(whole, Contraction)
    places = {t.buffer: t.index for t in s.product.epilogue if isinstance(t, Store)}
    epilogue = tuple(
        replace(t, index=places[t.buffer]) if isinstance(t, Store) else t for t in whole.epilogue
    )

    def cut(axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
        return tuple(Axis(a.name, count) if a.name == s.axis.name else a for a in axes)

    image = whole.image and replace(whole.image, images=cut(whole.image.images))
    return replace(
        whole,
        batch=cut(whole.batch),
        rows=cut(whole.rows),
        columns=cut(whole.columns),
        epilogue=epilogue,
        image=image,
    )


def _workloads(program: Program) -> int:
    sizes = (s for b in program.buffers for s in b.shape)
    return max((len(s.values) for s in sizes if isinstance(s, Size)), default=1)
