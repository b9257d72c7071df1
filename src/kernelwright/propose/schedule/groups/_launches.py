"""Kernel → launches: which loops run over groups, and which over the items of one."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..printing import Unprintable
from ..tile import (
    Contraction,
    Extent,
    Kernel,
    Literal,
    Load,
    Loop,
    NativeCall,
    Program,
    Statement,
    Store,
    as_loops,
    expressions,
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


def _split(kernel: Kernel) -> Iterator[Launch]:
    """Give each outermost loop a launch of its own, where nothing stands between them."""
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
    while len(body) == 1 and isinstance(body[0], Loop) and _independent(body[0]) and not _vectors(nest):
        nest.append(body[0])
        body = body[0].body
    if nest and (_vectors(nest) or not any(isinstance(s, Loop) and _lanes(s) for s in statements(body))):
        return Launch(name, comment, tuple(nest), tuple(map(_plain, body)), grouped=False)
    return Launch(name, comment, tuple(nest), body, grouped=True)


def _independent(loop: Loop) -> bool:
    known = all(isinstance(e, Literal | Extent) for x in (loop.begin, loop.end) for e in walk(x))
    return (loop.parallel or loop.vector) and not loop.ordered and known and loop.begin == Literal(0, "int64")


def _lanes(loop: Loop) -> bool:
    return loop.vector and not loop.ordered


def _vectors(nest: list[Loop]) -> bool:
    return any(map(_lanes, nest))


def _plain(s: Statement) -> Statement:
    return replace(s, vector=False, body=tuple(map(_plain, s.body))) if isinstance(s, Loop) else s
