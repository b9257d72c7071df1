"""Kernel → Kernel in which a pass finds a row of values that an earlier pass computed."""

from collections.abc import Iterator
from dataclasses import replace

from ._expression import Call, Expression, Extent, Literal, Load, Position, Variable, substitute, walk
from ._program import (
    Buffer,
    Kernel,
    Let,
    Loop,
    Program,
    Row,
    Statement,
    Store,
    expressions,
    statements,
)

_MOST_BYTES = 1 << 18
"""Bytes of a row that stays in a worker's second cache beside what else it reads."""
_COSTLY = frozenset({
    "exp", "log", "sigmoid", "tanh", "erf", "gelu", "silu", "mish", "softplus", "pow", "sin", "cos", "expm1", "log1p",
    "div", "sqrt", "rsqrt",
})  # fmt: skip
_MANY = 4
"""Operations that are worth a row even where none of them is costly."""
_HERE = Position("")
"""The element of a row, whatever its loop calls it."""


def worth_keeping(_: Program, kernel: Kernel) -> Iterator[str]:
    """Yield costly values that two passes over a row compute alike."""
    stored = {s.buffer for s in statements(kernel.body) if isinstance(s, Store)}
    for loops in _passes(kernel.body):
        first, later = _values(loops[0]), [_values(loop) for loop in loops[1:]]
        for name, value in first.items():
            reads = {e.buffer for e in walk(value) if isinstance(e, Load)}
            if (
                _costs(value)
                and reads.isdisjoint(stored)
                and any(value in values.values() for values in later)
            ):
                yield name


def kept(program: Program, kernel: str, name: str) -> Program:
    """Return the program in which a kernel keeps a value in a row: stored by one pass, loaded by those after it."""
    taken = {b.name for b in program.buffers}
    room = next(n for n in (f"{name}_row", *(f"{name}_row{i}" for i in range(2, 99))) if n not in taken)
    made: list[Buffer] = []

    def changed(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        for loops in _passes(body, deep=False):
            value = _values(loops[0]).get(name)
            if value is not None:
                made.append(Buffer(room, "float32", (_size(loops[0]),), "row"))
                return (Row(room), *(_with_row(s, loops, room, name, value) for s in body))
        return tuple(replace(s, body=changed(s.body)) if isinstance(s, Loop) else s for s in body)

    steps = tuple(
        replace(s, body=changed(s.body)) if isinstance(s, Kernel) and s.name == kernel else s
        for s in program.steps
    )
    return replace(program, steps=steps, buffers=(*program.buffers, *made))


def _passes(body: tuple[Statement, ...], *, deep: bool = True) -> Iterator[tuple[Loop, ...]]:
    """Yield, for each loop of a block, itself and the later ones over as many elements: no loops within, short rows."""
    loops = [s for s in body if isinstance(s, Loop)]
    flat = [s for s in loops if not s.ordered and not any(isinstance(t, Loop) for t in s.body)]
    for place, loop in enumerate(flat):
        alike = [t for t in flat[place + 1 :] if (t.begin, t.end) == (loop.begin, loop.end)]
        short = isinstance(loop.end, Extent | Literal) and 4 * int(_size(loop)) <= _MOST_BYTES
        if alike and short and loop.begin == Literal(0, "int64"):
            yield loop, *alike
    if deep:
        for loop in loops:
            if not loop.vector:
                yield from _passes(loop.body)


def _size(loop: Loop) -> int:
    """Return how many elements a pass has; `_passes` yields none that is computed."""
    assert isinstance(loop.end, Extent | Literal)
    return loop.end.size if isinstance(loop.end, Extent) else int(loop.end.value)


def _values(loop: Loop) -> dict[str, Expression]:
    """Return what the names of a pass stand for, by the pass's own element."""
    found: dict[str, Expression] = {}

    def by(e: Expression) -> Expression | None:
        if isinstance(e, Variable):
            return found.get(e.name)
        return _HERE if e == Position(loop.axis) else None

    for s in loop.body:
        if isinstance(s, Let):
            found[s.name] = substitute(s.value, by)
    return {name: value for name, value in found.items() if value.kind == "float32"}


def _costs(value: Expression) -> bool:
    calls = [e for e in walk(value) if isinstance(e, Call)]
    return any(c.op in _COSTLY for c in calls) or len(calls) >= _MANY


def _with_row(s: Statement, loops: tuple[Loop, ...], room: str, name: str, value: Expression) -> Statement:
    """Store the value in the first of the passes, load it in the others."""
    if s is loops[0]:
        body: list[Statement] = []
        for t in loops[0].body:
            body.append(t)
            if isinstance(t, Let) and t.name == name:
                body.append(Store(room, (Position(loops[0].axis),), Variable(name, "float32")))
        return replace(loops[0], body=tuple(body))
    if not isinstance(s, Loop) or not any(s is loop for loop in loops):
        return s
    known = _values(s)
    load = Load(room, (Position(s.axis),))
    new = tuple(Let(t.name, load) if isinstance(t, Let) and known.get(t.name) == value else t for t in s.body)
    return replace(s, body=_needed(new))


def _needed(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """Return a pass without names that nothing reads any more."""
    while True:
        used = {e.name for s in body for x in expressions(s) for e in walk(x) if isinstance(e, Variable)}
        less = tuple(s for s in body if not isinstance(s, Let) or s.name in used)
        if len(less) == len(body):
            return body
        body = less
