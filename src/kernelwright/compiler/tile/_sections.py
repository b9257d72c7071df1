"""Program → sections: kernels that follow each other in a call, which one entry runs; torch computes in between."""

from dataclasses import dataclass

from ._expression import Load, walk
from ._plain import as_loops
from ._program import Contraction, Kernel, NativeCall, Program, Row, Store, expressions, statements, written


@dataclass(frozen=True)
class Section:
    """Kernels that run one after the other."""

    steps: tuple[Kernel | Contraction, ...]
    """The kernels, in order; two at least."""
    reads: tuple[str, ...]
    """Buffers from outside that they read."""
    writes: tuple[str, ...]
    """Buffers that they write and that are needed outside."""


def sections_of(program: Program) -> tuple[Section, ...]:
    """Return the sections of a program's calls: kernels between which torch computes nothing but constants.

    Kernels that run ahead of the calls, or a panel at a time, are in none.
    """
    fed = {step.fed for step in program.natives}
    groups: list[list[Kernel | Contraction]] = [[]]
    for step in program.steps:
        if step.name in program.ahead or fed & written(step):
            continue
        if not isinstance(step, NativeCall):
            groups[-1].append(step)
        elif step.op != "constant":
            groups.append([])
    return tuple(_section(program, group) for group in groups if len(group) > 1)


def touched(step: Kernel | Contraction) -> tuple[list[str], list[str]]:
    """Name the buffers that a kernel reads and those that it writes."""
    kernel = as_loops(step) if isinstance(step, Contraction) else step
    reads, writes, own = dict[str, None](), dict[str, None](), set[str]()
    for s in statements(kernel.body):
        if isinstance(s, Row):
            own.add(s.buffer)
        if isinstance(s, Store):
            writes[s.buffer] = None
        for x in expressions(s):
            reads |= dict.fromkeys(e.buffer for e in walk(x) if isinstance(e, Load))
    return [name for name in reads if name not in writes], [name for name in writes if name not in own]


def _section(program: Program, steps: list[Kernel | Contraction]) -> Section:
    inside = {step.name for step in steps}
    needed = {b.name for b in program.buffers if b.role == "output"} | {new for _, new in program.updates}
    for step in program.steps:
        if isinstance(step, NativeCall):
            needed.update(step.reads)
        elif step.name not in inside:
            needed.update(*touched(step))
    reads, made = dict[str, None](), dict[str, None]()
    for step in steps:
        read, wrote = touched(step)
        reads |= dict.fromkeys(name for name in read if name not in made)
        made |= dict.fromkeys(wrote)
    return Section(tuple(steps), tuple(reads), tuple(name for name in made if name in needed))
