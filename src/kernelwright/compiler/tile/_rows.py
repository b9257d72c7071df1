"""Kernel → Kernel in which later passes reuse a row of values that an earlier pass computed."""

from collections.abc import Collection
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
)

_MOST_BYTES = 1 << 18
"""Bytes of a row that stays in a thread's L2 cache next to what else it reads."""
_COSTLY = frozenset({
    "exp", "log", "sigmoid", "tanh", "erf", "gelu", "silu", "mish", "softplus", "pow", "sin", "cos", "expm1", "log1p",
    "div", "sqrt", "rsqrt",
})  # fmt: skip
_MANY = 4
"""Operations that justify a row even if none of them is costly."""
_HERE = Position("")
"""The element of a row, whatever its loop calls it."""


def worth_keeping(passes: tuple[Loop, ...], name: str, stored: Collection[str]) -> bool:
    """Whether the first of passes names a costly value of nothing stored here, and a later one computes it too."""
    value = _values(passes[0]).get(name)
    if value is None or not _costs(value):
        return False
    reads = {e.buffer for e in walk(value) if isinstance(e, Load)}
    return reads.isdisjoint(stored) and any(value in _values(loop).values() for loop in passes[1:])


def kept(program: Program, kernel: Kernel, name: str) -> Program:
    """Return the program in which a kernel keeps a value in a row: stored by one pass, loaded by those after it."""
    taken = {b.name for b in program.buffers}
    room = next(n for n in (f"{name}_row", *(f"{name}_row{i}" for i in range(2, 99))) if n not in taken)
    made: list[Buffer] = []

    def changed(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        for loop in (s for s in body if isinstance(s, Loop)):
            loops, value = passes_of(body, loop), _values(loop).get(name)
            if loops is not None and value is not None:
                made.append(Buffer(room, "float32", (_size(loops[0]),), "row"))
                return (Row(room), *(_with_row(s, loops, room, name, value) for s in body))
        return tuple(replace(s, body=changed(s.body)) if isinstance(s, Loop) else s for s in body)

    new = replace(kernel, body=changed(kernel.body))
    steps = tuple(new if s is kernel else s for s in program.steps)
    return replace(program, steps=steps, buffers=(*program.buffers, *made))


def passes_of(body: tuple[Statement, ...], first: Loop) -> tuple[Loop, ...] | None:
    """Return a loop of a block and the later ones over as many elements: short rows, no loops within."""
    flat = [s for s in body if isinstance(s, Loop) and _is_pass(s)]
    if not any(s is first for s in flat) or first.begin != Literal(0, "int64"):
        return None
    if not isinstance(first.end, Extent | Literal) or 4 * int(_size(first)) > _MOST_BYTES:
        return None
    place = next(i for i, s in enumerate(flat) if s is first)
    alike = [s for s in flat[place + 1 :] if (s.begin, s.end) == (first.begin, first.end)]
    return (first, *alike) if alike else None


def _is_pass(loop: Loop) -> bool:
    return not loop.ordered and not any(isinstance(s, Loop) for s in loop.body)


def _size(loop: Loop) -> int:
    """Return how many elements a pass has; `passes_of` returns none that is computed."""
    assert isinstance(loop.end, Extent | Literal)
    return loop.end.size if isinstance(loop.end, Extent) else int(loop.end.value)


def _values(loop: Loop) -> dict[str, Expression]:
    """Return what the names of a pass mean, in terms of the pass's element."""
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
