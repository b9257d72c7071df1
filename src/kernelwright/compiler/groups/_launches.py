"""Kernel → launches: which loops run over groups, and which over the items of one."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace

from ..printers import Unprintable
from ..tile import (
    Contraction,
    Extent,
    Kernel,
    Let,
    Literal,
    Load,
    Loop,
    NativeCall,
    Program,
    Statement,
    Store,
    Update,
    as_loops,
    expressions,
    pattern,
    statements,
    walk,
)


@dataclass(frozen=True)
class Launch:
    """One kernel of the device."""

    name: str
    comment: str
    nest: tuple[Loop, ...]
    """The loops whose iterations are groups, or single items; none: one group runs everything."""
    body: tuple[Statement, ...]
    """What a group, or an item, does."""
    grouped: bool
    """Whether the items of a group share an iteration, over the vector loops within."""

    @property
    def stored(self) -> tuple[str, ...]:
        """Buffers that are written."""
        return tuple(dict.fromkeys(s.buffer for s in statements(self.body) if isinstance(s, Store)))

    @property
    def loaded(self) -> tuple[str, ...]:
        """Buffers that are read."""
        found = (
            e for s in statements(self.body) for x in expressions(s) for e in walk(x) if isinstance(e, Load)
        )
        return tuple(dict.fromkeys(e.buffer for e in found))


def launches(program: Program) -> Iterator[Launch]:
    """Yield the launches of a program, in order.

    Raises:
        Unprintable: torch computes a part of it, arguments change in place, or a kernel reads what it writes.
    """
    if program.updates:
        raise Unprintable(f"{program.updates[0][0]} is changed in place")
    for step in program.steps:
        if isinstance(step, NativeCall):
            raise Unprintable(f"torch computes {step.name}")
        kernel = as_loops(step) if isinstance(step, Contraction) else step
        for launch in _split(kernel):
            clash = set(launch.stored) & set(launch.loaded)
            if clash:
                raise Unprintable(f"a kernel reads {clash.pop()}, which it writes")
            yield launch


def shared(launched: Sequence[Launch], program: Program) -> list[Launch]:
    """Give launches that differ in names only the name of the first: they run one function on other buffers."""
    first = dict[Hashable, str]()
    return [replace(one, name=first.setdefault(pattern(one, program), one.name)) for one in launched]


def _split(kernel: Kernel) -> Iterator[Launch]:
    """Give each outermost loop its own launch, if nothing is between them."""
    if not all(isinstance(s, Loop) for s in kernel.body):
        yield Launch(kernel.name, kernel.comment, (), kernel.body, grouped=True)
        return
    for i, loop in enumerate(kernel.body):
        assert isinstance(loop, Loop)
        name = kernel.name if len(kernel.body) == 1 else f"{kernel.name}_{i}"
        yield _launch(name, kernel.comment, loop)


def _launch(name: str, comment: str, loop: Loop) -> Launch:
    nest: list[Loop] = []
    body: tuple[Statement, ...] = (loop,)
    while not _vectors(nest) and (inner := _only_loop(body)) is not None and _independent(inner):
        nest.append(inner)
        body = (*body[:-1], *inner.body)
    if nest and (_vectors(nest) or not any(isinstance(s, Loop) and _lanes(s) for s in statements(body))):
        return Launch(name, comment, tuple(nest), tuple(map(_plain, body)), grouped=False)
    return Launch(name, comment, tuple(nest), body, grouped=True)


def _only_loop(body: tuple[Statement, ...]) -> Loop | None:
    """Return the loop that is a whole body, except for values named before it, which each iteration may recompute."""
    loop = body[-1] if body and all(isinstance(s, Let) for s in body[:-1]) else None
    return loop if isinstance(loop, Loop) else None


def _independent(loop: Loop) -> bool:
    """Whether a loop that fills the body around it may run in any order: no accumulator is open."""
    known = all(isinstance(e, Literal | Extent) for x in (loop.begin, loop.end) for e in walk(x))
    return not loop.ordered and known and loop.begin == Literal(0, "int64")


def iterations(body: tuple[Statement, ...], items: int) -> int:
    """Count the iterations of all loops that one item runs through, joins across items too, on the first workload."""
    count = 0
    for s in body:
        if isinstance(s, Loop):
            size = (
                s.end.size if isinstance(s.end, Extent) else s.end.value if isinstance(s.end, Literal) else 1
            )
            trips = -(-int(size) // items) if _lanes(s) else int(size)
            folded = {t.name for t in s.body if isinstance(t, Update)} if _lanes(s) else ()
            count += trips * (1 + iterations(s.body, items)) + len(folded) * (items.bit_length() - 1)
    return count


def _lanes(loop: Loop) -> bool:
    return loop.vector and not loop.ordered


def _vectors(nest: list[Loop]) -> bool:
    return any(map(_lanes, nest))


def _plain(s: Statement) -> Statement:
    return replace(s, vector=False, body=tuple(map(_plain, s.body))) if isinstance(s, Loop) else s
