"""Loop arrangement of a kernel: fused, flattened, over lanes, over threads."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from ..tile import (
    Begin,
    Expression,
    Kernel,
    Let,
    Literal,
    Load,
    Loop,
    Position,
    Result,
    Statement,
    Store,
    Variable,
    expressions,
    number,
    statements,
    stride,
    substitute,
    walk,
)
from ._flat import Shapes, flattened, size_of
from ._passes import fused_passes


@dataclass(frozen=True)
class Layout:
    """Schedule attributes that actions set."""

    vector: str = "auto"
    """`auto`; `inner` for the innermost loops; `outer` for an outer one with contiguous neighbours; `none`."""
    unroll: int = 2
    """Vectors in flight in reductions; four times as many side by side if vector loops contain other loops."""
    fuse_passes: bool = True
    """Whether independent reductions share a pass."""
    flatten: bool = True
    """Whether neighbouring loops over contiguous elements are fused."""
    parallel: bool = True


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


class Arranged:
    """Kernels whose loops were arranged before: schedules of one graph have most of them in common."""

    def __init__(self) -> None:
        self._known: dict[object, Kernel] = {}

    def of(self, kernel: Kernel, layout: Layout, shapes: Shapes) -> Kernel:
        """Return what `scheduled` makes of the kernel. Sizes of the same name have to be the same sizes."""
        touched = {
            name: tuple(map(str, shapes[name])) for name in sorted(_touched(kernel.body)) if name in shapes
        }
        key = kernel, layout, tuple(touched.items())
        if key not in self._known:
            self._known[key] = scheduled(kernel, layout, shapes)
        return self._known[key]


def _touched(body: tuple[Statement, ...]) -> set[str]:
    stored = {s.buffer for s in statements(body) if isinstance(s, Store)}
    return stored | {
        e.buffer for s in statements(body) for x in expressions(s) for e in walk(x) if isinstance(e, Load)
    }


_SIDE_BY_SIDE = 4
_SHORT = 8
"""Iterations, known in advance, that leave most lanes of a vector idle."""

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
    scores = list(_neighbours(loop.body, loop.axis))
    here, below = sum(scores), _best_below(loop)
    within = [s for s in statements(loop.body) if isinstance(s, Loop)]
    windows = not any(scores) and not _is_window(loop) and all(map(_is_window, within))
    outer_fits = here > below or layout.vector == "outer" or windows
    contiguous = not any(_stores_apart(s, loop.axis) for s in inner)
    if (
        outer_fits
        and not _ends_apart(loop)
        and layout.vector != "inner"
        and contiguous
        and (here > 0 or windows)
    ):
        return replace(loop, vector=True, unroll=_SIDE_BY_SIDE * layout.unroll)
    return replace(loop, body=vectorised(loop.body, layout))


def _ends_apart(loop: Loop) -> bool:
    """Whether an inner loop's bounds depend on the iteration."""
    own = {s.name for s in statements(loop.body) if isinstance(s, Let)}
    bounds = (e for s in statements(loop.body) if isinstance(s, Loop) for e in (s.begin, s.end))
    return any(isinstance(e, Variable) and e.name in own for bound in bounds for e in walk(bound))


def _stores_apart(loop: Loop, axis: str) -> bool:
    """Whether neighbours along an outer axis are not contiguous inside the loop."""
    found = (s for s in statements((loop,)) if isinstance(s, Store))
    return any(not s.index or stride(s.index[-1], axis) != number(1) for s in found)


def _contiguous(body: tuple[Statement, ...], axis: str) -> int:
    """Count loads and stores that are contiguous along the axis, minus strided ones."""
    return sum(_neighbours(body, axis))


def _neighbours(body: tuple[Statement, ...], axis: str) -> Iterator[int]:
    """Yield 1 for each load or store that is contiguous along the axis, -1 if it is strided.

    Stride two, as in windows two apart, counts 0: lanes are selected from whole vectors.
    """
    own = _varying(body, axis)
    for index in (tuple(_steady(i, own) for i in index) for index in _accesses(body)):
        last = stride(index[-1], axis) if index else number(0)
        before = [stride(i, axis) for i in index[:-1]]
        if last == number(1) and all(b == number(0) for b in before):
            yield 1
        elif last not in (number(0), number(2)) or any(b != number(0) for b in before):
            yield -1
        else:
            yield 0


def _varying(body: tuple[Statement, ...], axis: str) -> set[str]:
    """Name what differs between iterations: what is computed from the position, and what is folded within."""
    found = {s.name for s in statements(body) if isinstance(s, Begin)}
    for s in statements(body):
        if isinstance(s, Let):
            parts = list(walk(s.value))
            varies = Position(axis) in parts or any(
                (isinstance(e, Variable) and e.name in found)
                or (isinstance(e, Result) and e.accumulator in found)
                for e in parts
            )
            found |= {s.name} if varies else set()
    return found


def _steady(e: Expression, own: Collection[str]) -> Expression:
    """Replace what is the same in all iterations by zero."""

    def by(e: Expression) -> Expression | None:
        outside = isinstance(e, Variable) and e.name not in own
        return number(0) if outside or (isinstance(e, Result) and e.accumulator not in own) else None

    return substitute(e, by)


def _accesses(body: tuple[Statement, ...]) -> Iterator[tuple[Expression, ...]]:
    for s in statements(body):
        if isinstance(s, Store):
            yield s.index
        for x in expressions(s):
            for e in walk(x):
                if isinstance(e, Load):
                    yield e.index


def _is_window(loop: Loop) -> bool:
    return isinstance(loop.end, Literal) and loop.end.value < _SHORT


def _best_below(loop: Loop) -> int:
    """Return the same count for the innermost loops within, each along its own axis; windows fill no vector."""
    score = 0
    for s in loop.body:
        if isinstance(s, Loop):
            has_inner = any(isinstance(t, Loop) for t in s.body)
            here = _best_below(s) if has_inner else _contiguous(s.body, s.axis)
            score += min(0, here) if _is_window(s) else here
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
    size = size_of(loop.end)
    only = loop.body[0] if len(loop.body) == 1 and isinstance(loop.body[0], Loop) else None
    if size is not None and int(size) < _ENOUGH and only is not None and not loop.vector and not only.ordered:
        nested = _threads(only)
        return replace(loop, parallel=True, body=(nested,))
    return replace(loop, parallel=True)
