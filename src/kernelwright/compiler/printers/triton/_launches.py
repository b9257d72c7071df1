"""Step → launches of programs: what runs over the grid, what over the lanes of a block, what is folded across programs.

A launch is one kernel of the device. Its nest becomes the grid: a program has a block of the nest's iterations.
What lies within runs over the block at once. There are three ways:

- `points`: the block is all there is; loops within are sequential, every lane folds on its own.
- `rows`: the block is a column of rows, and the innermost loops within run over lanes: a tile of two dimensions.
- `single`: no nest. One program runs everything, the innermost loops over its lanes.

An accumulator begun around the nest is folded by every program into its own partial state (`folds`), and the
launches after it begin by merging these (`joined`).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal as Choice

from ...graph import product
from ...tile import (
    Begin,
    Contraction,
    Expression,
    Extent,
    Kernel,
    Let,
    Literal,
    Load,
    Loop,
    Result,
    Statement,
    Store,
    Update,
    Variable,
    as_loops,
    expressions,
    number,
    statements,
    stride,
    walk,
)
from .. import Unprintable

Way = Choice["points", "rows", "single"]
_MANY, _LONG = 2048, 4096
"""Rows that keep a GPU busy with a program each; elements from which several programs for a row pay."""
_LITTLE = 1 << 17
"""Elements of which the order does not matter, so few that sequential loops would only wait for them."""
_SHORT = 8
"""Iterations too few for the lanes of a block."""


@dataclass(frozen=True)
class Launch:
    """One kernel of the device."""

    name: str
    comment: str
    way: Way
    nest: tuple[Loop, ...]
    body: tuple[Statement, ...]
    """What a program does with its block."""
    folds: tuple[Begin, ...] = ()
    """Accumulators of which every program leaves a partial state."""
    joined: tuple[Begin, ...] = ()
    """Accumulators whose partial states are merged before the block."""
    before: tuple[Let, ...] = ()
    """Values that depend on the merged ones."""

    @property
    def count(self) -> int:
        """How many iterations the nest has, as a size."""
        return product([length(loop) for loop in self.nest])

    @property
    def stored(self) -> tuple[str, ...]:
        """Buffers that are written."""
        return tuple(dict.fromkeys(s.buffer for s in statements(self.body) if isinstance(s, Store)))

    @property
    def loaded(self) -> tuple[str, ...]:
        """Buffers that are read."""
        every = (x for s in statements((*self.before, *self.body)) for x in expressions(s))
        return tuple(dict.fromkeys(e.buffer for x in every for e in walk(x) if isinstance(e, Load)))


def launches(step: Kernel | Contraction, lanes: str = "auto") -> Iterator[Launch]:
    """Yield the launches of a step, in order.

    Args:
        step: What to run; a contraction runs as plain loops.
        lanes: `inner` for rows, `outer` for points, `auto` for whichever reads neighbours.

    Raises:
        Unprintable: a launch reads what it writes.
    """
    kernel = as_loops(step) if isinstance(step, Contraction) else step
    for launch in _split(kernel, lanes):
        clash = set(launch.stored) & set(launch.loaded)
        if clash:
            raise Unprintable(f"a kernel reads {clash.pop()}, which it writes")
        yield launch


def _split(kernel: Kernel, lanes: str) -> Iterator[Launch]:
    """Give each outermost loop its own launch; what is between them is known to the later ones."""
    if any(isinstance(s, Loop) and not _independent(s) for s in kernel.body):
        yield Launch(kernel.name, kernel.comment, "single", (), kernel.body)
        return
    begun = {s.name: s for s in kernel.body if isinstance(s, Begin)}
    known: list[Let] = []
    rest = tuple(s for s in kernel.body if isinstance(s, Store | Update))
    found: list[Launch] = []
    for s in kernel.body:
        if isinstance(s, Let):
            known.append(s)
        elif isinstance(s, Loop):
            nest, body = _nest(s)
            own = {t.name for t in statements(body) if isinstance(t, Begin)}
            named = [t.name for t in statements(body) if isinstance(t, Update) and t.name not in own]
            folds = tuple(begun[name] for name in dict.fromkeys(named))
            launch = Launch(kernel.name, kernel.comment, _way(nest, body, lanes), nest, body, folds)
            found.append(_known(launch, begun, known))
    if rest:
        found.append(_known(Launch(kernel.name, kernel.comment, "single", (), rest), begun, known))
    for i, launch in enumerate(found):
        yield launch if len(found) == 1 else replace(launch, name=f"{kernel.name}_{i}")


def _known(launch: Launch, begun: dict[str, Begin], known: list[Let]) -> Launch:
    """Prepend the definitions that a launch refers to."""
    needs = _names(launch.body) - {t.name for t in statements(launch.body) if isinstance(t, Begin)}
    before: list[Let] = []
    for let in reversed(known):
        if let.name in needs:
            before.insert(0, let)
            needs |= _names((let,))
    joined = tuple(b for name, b in begun.items() if name in needs - {f.name for f in launch.folds})
    return replace(launch, joined=joined, before=tuple(before))


def _names(body: Iterable[Statement]) -> set[str]:
    every = [e for s in statements(tuple(body)) for x in expressions(s) for e in walk(x)]
    named = {e.name for e in every if isinstance(e, Variable)}
    return named | {e.accumulator for e in every if isinstance(e, Result)}


def _nest(loop: Loop) -> tuple[tuple[Loop, ...], tuple[Statement, ...]]:
    """Return the loops that become the grid, and what a program does; values named between them are named in each."""
    nest, body = [loop], loop.body
    while (
        body and isinstance(only := body[-1], Loop) and _independent(only) and _passes(body[:-1], only, nest)
    ):
        nest.append(only)
        body = (*body[:-1], *only.body)
    return tuple(nest), body


def _passes(named: Sequence[Statement], loop: Loop, nest: Sequence[Loop]) -> bool:
    """Whether the statements before a loop may move into it: only values, and not into the lanes' loop of many rows."""
    deep = any(isinstance(s, Loop) for s in loop.body)
    few = product([length(outer) for outer in nest]) < _MANY and length(loop) > _LONG
    return not named or ((deep or few) and all(isinstance(s, Let) for s in named))


def _independent(loop: Loop) -> bool:
    """Whether the iterations may run in any order, over a range that the host knows."""
    plain = isinstance(loop.end, Literal | Extent) and loop.begin == number(0)
    return plain and (not loop.ordered or _atomic(loop))


def length(loop: Loop) -> int:
    """Return the iterations of a loop over a range that the host knows, as a size; 0 for others."""
    match loop.end:
        case Extent(size):
            return size
        case Literal(value):
            return int(value)
        case _:
            return 0


def _atomic(loop: Loop) -> bool:
    """Whether all that an ordered loop does is to fold into elements, which has no order."""
    every = list(statements(loop.body))
    return all(isinstance(s, Let | Store) for s in every) and all(
        s.combine for s in every if isinstance(s, Store)
    )


# Lanes -----------------------------------------------------------------------------------------------------


def _way(nest: tuple[Loop, ...], body: tuple[Statement, ...], lanes: str) -> Way:
    inner = innermost(body)
    if not inner or lanes == "outer" or (all(map(_is_short, inner)) and lanes != "inner"):
        return "points"
    if lanes == "inner":
        return "rows"
    long = [loop for loop in inner if not _is_short(loop)] or inner
    if product([length(loop) for loop in nest]) * max(map(length, long)) <= _LITTLE:
        return "rows"
    here = max(_side_by_side(loop.body, nest[-1].axis) for loop in long)
    below = max(_side_by_side(loop.body, loop.axis) for loop in long)
    return "points" if here >= below and here > 0 else "rows"


def innermost(body: Iterable[Statement]) -> list[Loop]:
    """Return the loops that hold no other."""
    loops = [s for s in statements(tuple(body)) if isinstance(s, Loop)]
    return [s for s in loops if not any(isinstance(t, Loop) for t in s.body)]


def _is_short(loop: Loop) -> bool:
    return isinstance(loop.end, Literal) and int(loop.end.value) <= _SHORT


def _side_by_side(body: Iterable[Statement], axis: str) -> int:
    """Count loads and stores that are contiguous along the axis, minus strided ones."""
    score = 0
    for index in _accesses(body):
        steps = [stride(at, axis) for at in index]
        if all(s == number(0) for s in steps):
            continue
        near = steps[-1] == number(1) and all(s == number(0) for s in steps[:-1])
        score += 1 if near else -1
    return score


def _accesses(body: Iterable[Statement]) -> Iterator[tuple[Expression, ...]]:
    for s in statements(tuple(body)):
        if isinstance(s, Store):
            yield s.index
        for x in expressions(s):
            yield from (e.index for e in walk(x) if isinstance(e, Load))
