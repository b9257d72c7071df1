"""Kernel → Kernel in which later passes reuse a row of values that an earlier pass computed."""

from collections.abc import Callable, Collection
from dataclasses import replace

from ._expression import (
    Call,
    Expression,
    Extent,
    Literal,
    Load,
    Position,
    Result,
    Variable,
    number,
    offset,
    stride,
    substitute,
    walk,
)  # fmt: skip
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
    read_by,
    renamed,
    statements,
)

_MOST_BYTES = 1 << 18
"""Bytes of a row that stays in a thread's L2 cache next to what else it reads."""
_LEAST_BYTES = 1 << 15
"""Bytes of a row that no longer stays in the first-level cache: from there on it may wait in the result."""
_COSTLY = frozenset({
    "exp", "log", "sigmoid", "tanh", "erf", "gelu", "silu", "mish", "softplus", "pow", "sin", "cos", "expm1", "log1p",
    "div", "sqrt", "rsqrt",
})  # fmt: skip
_MANY = 4
"""Operations that justify a row even if none of them is costly."""
HERE = Position("")
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


def passes_of(
    body: tuple[Statement, ...], first: Loop, *, long: bool = False
) -> tuple[Loop, ...] | None:  # fmt: skip
    """Return a loop of a block and the later ones over as many elements; no loops within.

    Rows that a second-level cache holds, or `long` ones that a first-level cache does not hold.
    """
    flat = [s for s in body if isinstance(s, Loop) and _is_pass(s)]
    if not any(s is first for s in flat) or first.begin != Literal(0, "int64"):
        return None
    if not isinstance(first.end, Extent | Literal):
        return None
    size = 4 * int(_size(first))
    if size < _LEAST_BYTES if long else size > _MOST_BYTES:
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


def meaning(loop: Loop, value: Expression, known: dict[str, Expression] | None = None) -> Expression:
    """Return what a value of a pass is, in terms of the pass's element and of what was named before the pass.

    `known` has what the names of the pass mean (`meanings`), where that is at hand.
    """
    names = meanings(loop) if known is None else known

    def by(e: Expression) -> Expression | None:
        if isinstance(e, Variable):
            return names.get(e.name)
        return HERE if e == Position(loop.axis) else None

    return substitute(value, by)


def meanings(loop: Loop) -> dict[str, Expression]:
    """Return what the names of a pass mean, in the same terms."""
    found: dict[str, Expression] = {}
    for s in loop.body:
        if isinstance(s, Let):
            found[s.name] = meaning(loop, s.value, found)
    return found


def _values(loop: Loop) -> dict[str, Expression]:
    return {name: value for name, value in meanings(loop).items() if value.kind == "float32"}


def _costs(value: Expression) -> bool:
    calls = [e for e in walk(value) if isinstance(e, Call)]
    return any(c.op in _COSTLY for c in calls) or len(calls) >= _MANY


def result_over(program: Program, kernel: Kernel, loops: tuple[Loop, ...]) -> Store | None:
    """Return the store of a result by the last of some passes, over which an earlier pass may keep a value.

    The kernel stores it nowhere else and reads it nowhere; its elements lie side by side along the passes, each pass
    has its own, and its place follows from the loops alone.
    """
    last = loops[-1]
    stores = [s for s in last.body if isinstance(s, Store)]
    if len(stores) != 1:
        return None
    (store,) = stores
    buffer = program.buffer(store.buffer)
    places = [s for s in statements(kernel.body) if isinstance(s, Store) and s.buffer == store.buffer]
    plain = not (store.combine or store.stream) and buffer.role == "output" and buffer.dtype == "float32"
    steady = not any(isinstance(e, Variable | Result | Load) for at in store.index for e in walk(at))
    along = stride(offset(store.index, buffer.shape), last.axis) == number(1)
    own = len(places) == 1 and not any(store.buffer in read_by(step) for step in program.steps)
    return store if plain and steady and along and own else None


def overwritten(program: Program, kernel: Kernel, name: str) -> Program:
    """Return the program in which a pass keeps a value where the last pass writes the result over it."""

    def changed(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        for loop in (s for s in body if isinstance(s, Loop)):
            loops, value = passes_of(body, loop, long=True), _values(loop).get(name)
            store = result_over(program, kernel, loops) if loops is not None and value is not None else None
            if loops is not None and value is not None and store is not None:
                last = loops[-1].axis

                def at(axis: str, place: Store = store, last: str = last) -> tuple[Expression, ...]:
                    return tuple(renamed(e, {last: Position(axis)}) for e in place.index)

                return tuple(_with_row(s, loops, store.buffer, name, value, at) for s in body)
        return tuple(replace(s, body=changed(s.body)) if isinstance(s, Loop) else s for s in body)

    new = replace(kernel, body=changed(kernel.body))
    return replace(program, steps=tuple(new if s is kernel else s for s in program.steps))


def _along(axis: str) -> tuple[Expression, ...]:
    return (Position(axis),)


def _with_row(
    s: Statement, loops: tuple[Loop, ...], room: str, name: str, value: Expression,
    at: Callable[[str], tuple[Expression, ...]] = _along,
) -> Statement:  # fmt: skip
    """Store the value in the first of the passes, load it in the others; `at` is its place for a pass's axis."""
    if s is loops[0]:
        body: list[Statement] = []
        for t in loops[0].body:
            body.append(t)
            if isinstance(t, Let) and t.name == name:
                body.append(Store(room, at(loops[0].axis), Variable(name, "float32")))
        return replace(loops[0], body=tuple(body))
    if not isinstance(s, Loop) or not any(s is loop for loop in loops):
        return s
    known = _values(s)
    load = Load(room, at(s.axis))
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
