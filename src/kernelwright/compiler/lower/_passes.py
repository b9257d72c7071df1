"""Loop fusion within a block, so that loops share a pass over memory."""

from collections.abc import Iterable
from dataclasses import replace

from ..tile import (
    Begin,
    Expression,
    Let,
    Load,
    Loop,
    Position,
    Result,
    Statement,
    Store,
    Update,
    Variable,
    expressions,
    statements,
    walk,
)
from ._rename import rename_axis, rename_variables


def fused_passes(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """Fuse loops of one block that have the same extent, if the later does not depend on the earlier."""
    found: list[Statement] = []
    for statement in body:
        if isinstance(statement, Loop):
            inner = replace(statement, body=fused_passes(statement.body))
            place = _partner(found, inner)
            if place is not None:
                other = found[place]
                assert isinstance(other, Loop)
                joined = _joined(other, inner)
                found[place] = replace(joined, body=fused_passes(joined.body))
                continue
            found.append(inner)
        else:
            found.append(statement)
    return tuple(found)


def _partner(before: list[Statement], loop: Loop) -> int | None:
    """Find an earlier loop of the same extent that the loop can be moved to, past all siblings in between."""
    needs = _used([loop])
    stores = {s.buffer for s in statements((loop,)) if isinstance(s, Store)}
    for place in range(len(before) - 1, -1, -1):
        other = before[place]
        if isinstance(other, Loop):
            same_extent = str(other.end) == str(loop.end) and other.begin == loop.begin
            free = not (needs & _defined([other])) and not (stores or _stored_in(other) & _read(loop))
            if same_extent and free and not other.ordered and not loop.ordered:
                return place
            if needs & _defined([other]) or stores:
                return None
        elif isinstance(other, Begin) and other.name in needs:
            earlier = any(isinstance(s, Loop) for s in before[:place])
            return _jump(before, loop, needs - {other.name}) if earlier else None
        elif _defined([other]) & needs or isinstance(other, Store):
            return None
    return None


def _jump(before: list[Statement], loop: Loop, needs: set[str]) -> int | None:
    """Move the accumulators that the loop folds into before the loop that it joins."""
    moved = [i for i in range(len(before)) if isinstance(b := before[i], Begin) and b.name in _used([loop])]
    first = min(moved)
    for place in range(first - 1, -1, -1):
        other = before[place]
        if isinstance(other, Loop):
            same_extent = str(other.end) == str(loop.end) and other.begin == loop.begin
            clash = (_used([loop]) - {b.name for i in moved if isinstance(b := before[i], Begin)}) & _defined(
                [other]
            )
            if (
                same_extent
                and not clash
                and not other.ordered
                and not _stored_in(other)
                and not _stores(loop)
            ):
                between = before[place + 1 :]
                if any(_defined([s]) & needs for s in between if not isinstance(s, Begin)):
                    return None
                begins = [before[i] for i in moved]
                rest = [s for i, s in enumerate(before) if i not in moved]
                at = rest.index(other)
                before[:] = [*rest[:at], *begins, *rest[at:]]
                return at + len(begins)
            return None
        if _defined([other]) & needs:
            return None
    return None


def _stores(loop: Loop) -> bool:
    return any(isinstance(s, Store) for s in statements((loop,)))


def _stored_in(statement: Statement) -> set[str]:
    return {s.buffer for s in statements((statement,)) if isinstance(s, Store)}


def _read(statement: Statement) -> set[str]:
    return {
        e.buffer
        for s in statements((statement,))
        for x in expressions(s)
        for e in walk(x)
        if isinstance(e, Load)
    }


def _used(body: Iterable[Statement]) -> set[str]:
    """Name the variables and accumulators that statements refer to."""
    found: set[str] = set()
    for s in statements(tuple(body)):
        if isinstance(s, Update):
            found.add(s.name)
        for x in expressions(s):
            for e in walk(x):
                if isinstance(e, Variable):
                    found.add(e.name)
                elif isinstance(e, Result):
                    found.add(e.accumulator)
    return found


def _defined(body: Iterable[Statement]) -> set[str]:
    """Name what statements define or fold."""
    return {s.name for s in statements(tuple(body)) if isinstance(s, Let | Begin | Update)}


def _joined(first: Loop, second: Loop) -> Loop:
    inner = rename_axis(second.body, second.axis, Position(first.axis))
    return replace(first, body=_shared((*first.body, *inner)))


def _shared(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """Name a value once that a fused body names twice; loads of what it stores stay."""
    stored = {s.buffer for s in statements(body) if isinstance(s, Store)}
    known: dict[Expression, str] = {}
    again: dict[str, str] = {}
    found: list[Statement] = []
    for statement in body:
        s = rename_variables(statement, again) if again else statement
        if isinstance(s, Let) and not any(isinstance(e, Load) and e.buffer in stored for e in walk(s.value)):
            if s.value in known:
                again[s.name] = known[s.value]
                continue
            if not any(isinstance(e, Result) for e in walk(s.value)):
                known[s.value] = s.name
        found.append(s)
    return tuple(found)
