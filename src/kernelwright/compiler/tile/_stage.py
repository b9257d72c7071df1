"""Kernel → Kernel that copies what its windows read, padding included, into a thread's cache before folding them.

Overlapping windows read each element several times, and padded ones test every time whether it exists. A copy has
the padding around it: windows need no test, and what was fused before them is computed once per element.
"""

from collections.abc import Collection, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from ..graph import Size, product, text_of
from ._expression import (
    Arith,
    Call,
    Expression,
    Guard,
    Literal,
    Load,
    Position,
    Result,
    Variable,
    arith,
    number,
    parts_of,
    positions,
    stride,
    substitute,
    walk,
)
from ._merge import known_size
from ._plain import as_loops
from ._program import (
    Begin,
    Buffer,
    Contraction,
    Kernel,
    Let,
    Loop,
    Program,
    Row,
    Statement,
    Step,
    Store,
    expressions,
    mapped,
    renamed,
    statements,
)

_MOST_BYTES = 1 << 18
"""Bytes of a copy: it stays in a thread's L2 cache."""
_LEAST_READS = 2
"""Times that windows read an element of it, at least, on average."""
_ROWS = 4
"""Adjacent rows of results: they share what their windows read, and a window's weights."""
_Steps = tuple[tuple[str, int], ...]
"""By how much a place grows with each axis of the loops within."""


@dataclass(frozen=True)
class Stage:
    """The copy of a padded value that windows read."""

    inside: Expression
    """The value by the positions of the copy, `_place(0)` the first, where it exists."""
    outside: Expression
    """What is read elsewhere."""
    bounds: tuple[tuple[int, Expression], ...]
    """Along each dimension, the first place where there is a value and the one after the last."""
    index: tuple[Expression, ...]
    """Where a window finds an element."""
    shape: tuple[int, ...]


def with_loops(step: Step) -> Kernel | None:
    """Return a step whose windows can be staged: a traversal, or a product with one filter a channel.

    Such a product has plain loops and one row or column.
    """
    if not isinstance(step, Contraction):
        return step if isinstance(step, Kernel) else None
    dense = all(any(text_of(a.size) != "1" for a in axes) for axes in (step.rows, step.columns))
    return as_loops(step) if step.tiling.form == "loops" and not dense else None


def stages_of(path: tuple[Loop, ...]) -> Mapping[Guard, Stage]:
    """Return the padded values that windows within a loop read several times, and that fit a worker's cache.

    Args:
        path: The loop, after those around it; all that the windows move over is within.
    """
    loop = path[-1]
    if any(s.vector or s.ordered for s in path) or not any(s.parallel for s in path):
        return {}
    own = {s.name for s in statements(loop.body) if isinstance(s, Let | Begin)}
    found: dict[Guard, Stage] = {}
    for within, s in _within(loop.body):
        waiting = list(expressions(s))
        while waiting:
            e = waiting.pop()
            stage = _stage(e, within, own) if isinstance(e, Guard) else None
            if isinstance(e, Guard) and stage is not None:
                found[e] = stage
            else:
                waiting.extend(parts_of(e))
    return found


def staged(program: Program, kernel: Kernel, axis: str, _: int) -> Program:
    """Return the program in which a kernel copies what its windows within a loop read before it folds them."""
    taken, made = {b.name for b in program.buffers}, list[Buffer]()

    def changed(loop: Loop, above: tuple[Loop, ...]) -> Loop:
        path = (*above, loop)
        if loop.axis != axis:
            return replace(
                loop, body=tuple(changed(s, path) if isinstance(s, Loop) else s for s in loop.body)
            )
        stages, rooms, copies = stages_of(path), dict[Stage, str](), list[Statement]()
        for stage in dict.fromkeys(stages.values()):
            source = next(e.buffer for e in walk(stage.inside) if isinstance(e, Load))
            room = next(n for n in (f"{source}_stage{i or ''}" for i in range(99)) if n not in taken)
            taken.add(room)
            rooms[stage] = room
            made.append(Buffer(room, "float32", stage.shape, "row"))
            copies += _copy(stage, room)

        def by(e: Expression) -> Expression | None:
            stage = stages.get(e) if isinstance(e, Guard) else None
            return None if stage is None else Load(rooms[stage], stage.index)

        body = (_jammed(mapped(s, lambda e: substitute(e, by))) for s in loop.body)
        return replace(loop, body=(*copies, *body))

    new = replace(kernel, body=tuple(changed(s, ()) if isinstance(s, Loop) else s for s in kernel.body))
    steps = tuple(new if s.name == kernel.name else s for s in program.steps)
    return replace(program, steps=steps, buffers=(*program.buffers, *made))


# What is copied -------------------------------------------------------------------------------------------


def _within(
    body: tuple[Statement, ...], above: tuple[Loop, ...] = ()
) -> Iterator[tuple[tuple[Loop, ...], Statement]]:
    """Yield every statement that is no loop, after the loops around it."""
    for s in body:
        if isinstance(s, Loop):
            yield from _within(s.body, (*above, s))
        else:
            yield above, s


def _stage(e: Guard, within: tuple[Loop, ...], own: AbstractSet[str]) -> Stage | None:
    """Return the copy of a guarded value; None if it is not a padded value, or a copy does not pay.

    Args:
        e: The value.
        within: The loops between the copy and the windows' reads.
        own: Names that have a meaning there only.
    """
    ends = {s.axis: size for s in within if s.begin == number(0) and (size := known_size(s.end)) is not None}
    parts = list(walk(e))
    named = {p.name for p in parts if isinstance(p, Variable)} | {
        p.accumulator for p in parts if isinstance(p, Result)
    }
    padded = e.kind == "float32" and isinstance(e.other, Literal) and any(isinstance(p, Load) for p in parts)
    if not padded or named & own or len(ends) < len(within):
        return None
    dims: dict[_Steps, int] = {}
    fixed = True

    def by(p: Expression) -> Expression | None:
        nonlocal fixed
        steps = _steps(p, ends)
        if not steps:
            return None
        rest = known_size(renamed(p, dict.fromkeys(ends, number(0))))
        fixed = fixed and isinstance(rest, int) and not isinstance(rest, Size)
        place = _place(dims.setdefault(steps, len(dims)))
        return place if not rest else arith("-" if rest < 0 else "+", place, number(abs(rest)))

    inside, conditions = substitute(e.value, by), [substitute(c, by) for c in _conditions(e.condition)]
    axes = [axis for steps in dims for axis, _ in steps]
    if not fixed or not dims or len(set(axes)) < len(axes) or positions(inside) & ends.keys():
        return None
    shape = tuple(_extent(steps, ends) for steps in dims)
    bounds = _bounds(conditions, shape)
    count, reads = int(product(shape)), int(product([ends[axis] for axis in axes]))
    if bounds is None or len(shape) < 2 or 4 * count > _MOST_BYTES or reads < _LEAST_READS * count:
        return None
    if not all(_lasts(steps, ends) for steps in dims):
        return None
    return Stage(inside, e.other, bounds, tuple(map(_joined, dims)), shape)


def _steps(e: Expression, axes: Collection[str]) -> _Steps:
    """Return the integer's stride along each of the axes; empty if they are not constants, starting at zero."""
    if e.kind != "int64" or not positions(e) & set(axes):
        return ()
    found = [(axis, stride(e, axis)) for axis in axes]
    if not all(isinstance(step, Literal) and int(step.value) >= 0 for _, step in found):
        return ()
    return tuple((axis, int(step.value)) for axis, step in found if isinstance(step, Literal) and step.value)


def _joined(steps: _Steps) -> Expression:
    found: Expression = number(0)
    for axis, step in steps:
        found = arith("+", found, arith("*", Position(axis), number(step)))
    return found


def _extent(steps: _Steps, ends: Mapping[str, int]) -> int:
    """Return how many places there are, from the first one that a window reads to the last."""
    sizes = [(ends[axis], step) for axis, step in steps if isinstance(ends[axis], Size)]
    found = 1 + sum(step * (ends[axis] - 1) for axis, step in steps if not isinstance(ends[axis], Size))
    found -= sum(step for _, step in sizes)
    for size, step in sizes:
        found = size * step + found
    return found


def _lasts(steps: _Steps, ends: Mapping[str, int]) -> bool:
    """Whether there are never fewer than no places, a size that differs between calls being zero."""
    nothing = Size("0", (0,))
    return (
        _extent(steps, {axis: nothing if isinstance(end, Size) else end for axis, end in ends.items()}) >= 0
    )


def _conditions(e: Expression) -> Iterator[Expression]:
    """Yield the conditions that have to hold together."""
    if isinstance(e, Call) and e.op == "logical_and":
        for part in parts_of(e):
            yield from _conditions(part)
    else:
        yield e


def _bounds(asked: list[Expression], shape: tuple[int, ...]) -> tuple[tuple[int, Expression], ...] | None:
    """Return the box in which conditions hold; None if one is not a bound of a position."""
    begins, ends = [0] * len(shape), [number(size) for size in shape]
    places = {_place(d).axis: d for d in range(len(shape))}
    for e in asked:
        if not isinstance(e, Call) or e.op not in ("ge", "lt"):
            return None
        shifted, bound = _shifted(e.args[0]), known_size(e.args[1])
        if shifted is None or bound is None or shifted[0] not in places:
            return None
        d, at = places[shifted[0]], bound + -shifted[1]
        if e.op == "lt":
            ends[d] = arith("min", ends[d], number(at))
        elif isinstance(at, Size):
            return None
        else:
            begins[d] = max(begins[d], at)
    return tuple(zip(begins, ends, strict=True))


def _shifted(e: Expression | None) -> tuple[str, int] | None:
    """Return the axis of a place and what is added to it."""
    match e:
        case Position(axis):
            return axis, 0
        case Arith(("+" | "-") as sign, Position(axis), Literal(value)):
            return axis, int(value) if sign == "+" else -int(value)
        case _:
            return None


# The copy -------------------------------------------------------------------------------------------------


def _place(dim: int, axis: str = "place") -> Position:
    return Position(f"{axis}{dim}")


def _copy(stage: Stage, room: str) -> list[Statement]:
    """Return what makes a copy: padding everywhere, and then the values."""
    flat = Position(f"{room}_at")
    everywhere = Store(room, (*(number(0) for _ in stage.shape[1:]), flat), stage.outside)
    pad = Loop(flat.axis, number(product(stage.shape)), (everywhere,), vector=True)
    axes = [_place(d, f"{room}_i") for d in range(len(stage.shape))]
    value = renamed(stage.inside, {_place(d).axis: at for d, at in enumerate(axes)})
    found: Statement = Store(room, tuple(axes), value)
    for d, (begin, end) in reversed(list(enumerate(stage.bounds))):
        found = Loop(axes[d].axis, end, (found,), number(begin), vector=d == len(axes) - 1)
    return [Row(room), pad, found]


def _jammed(s: Statement) -> Statement:
    """Return the windows' loops without threads, and several rows of lanes at a time: they share what they read."""
    if not isinstance(s, Loop):
        return s
    match s.body:
        case (Loop(vector=True) as lanes,) if not s.ordered:
            return replace(s, body=(replace(lanes, unroll=1, parallel=False),), parallel=False, unroll=_ROWS)
        case _:
            return replace(s, body=tuple(map(_jammed, s.body)), parallel=False)
