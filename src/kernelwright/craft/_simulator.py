"""Program → Execution: runs a program on the accelerator, with faults by line and cycles by line.

Covers: everything `_memory.py` and `_machine.py` find, programs without end, transfers left over at the end. A program
is data: nothing of it runs on this processor.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ._assembler import Program, decode
from ._description import Description
from ._handlers import handlers_of
from ._machine import Machine
from ._memory import Fault, Memory, Region
from ._timing import Clock, cost_of

_LOOK_EVERY = 1024
_SHOWN_LANES = 8


@dataclass(frozen=True)
class Limits:
    """When a run is stopped."""

    steps: int = 2_000_000
    """Most instructions."""
    deadline_s: float = 20.0
    """Most seconds."""


@dataclass(frozen=True)
class Found:
    """The fault that ended a run."""

    kind: str
    """`bounds`, `align`, `uninitialised`, `dma`, `matrix`, `value` or `endless`."""
    line: int
    """The line of the source."""
    message: str
    """What is wrong, with the line."""


@dataclass(frozen=True)
class Step:
    """One executed instruction."""

    number: int
    """Its number in the run, from 0."""
    cycle: int
    """The cycle at which it issued."""
    line: int
    """Its line."""
    text: str
    """The line's text."""
    stall: str
    """How long it waited, and for what."""
    result: str
    """What it wrote."""


@dataclass(frozen=True)
class Execution:
    """What a run gave."""

    outputs: dict[str, NDArray[np.float32]]
    """The words of each output; empty if there was a fault."""
    fault: Found | None
    """What ended the run early."""
    steps: int
    """Instructions executed."""
    cycles: int
    """Cycles by the model."""
    stalls: dict[int, dict[str, int]] = field(default_factory=dict)
    """Cycles lost on each line by cause."""
    issues: dict[int, int] = field(default_factory=dict)
    """Instructions issued on each line."""
    trace: tuple[Step, ...] = ()
    """The steps that were asked for."""


def simulate(
    program: Program,
    regions: Sequence[Region],
    sizes: Sequence[int],
    *,
    limits: Limits = Limits(),
    trace: range = range(0),
) -> Execution:
    """Run a program from its binary form.

    Args:
        program: The program.
        regions: The tensors; scalar registers hold their addresses at the start, and `sizes` after them.
        sizes: Whole numbers that the program is given.
        limits: When it is stopped.
        trace: The numbers of the steps to keep.
    """
    d = program.description
    memory = Memory(regions, d.scratch_words, d.count("q"))
    machine = Machine(d, memory, [start * d.unit for start in memory.starts] + list(sizes))
    run = _Run(program, machine)
    with np.errstate(all="ignore"):
        fault = run.go(limits, trace)
    outputs: dict[str, NDArray[np.float32]] = {}
    if fault is None:
        try:
            outputs = {r.name: memory.output(n) for n, r in enumerate(regions) if r.role == "out"}
        except Fault as error:
            outputs, fault = {}, _found(error, run.line)
    clock = run.clock
    return Execution(
        outputs, fault, run.steps, clock.now, {n: dict(c) for n, c in sorted(clock.stalls.items())},
        dict(sorted(clock.issues.items())), tuple(run.trace),
    )  # fmt: skip


def _found(error: Fault, line: int) -> Found:
    return Found(error.kind, line, f"line {line}: {error}")


class _Run:
    """The loop over instructions."""

    def __init__(self, program: Program, machine: Machine) -> None:
        self._program, self._machine = program, machine
        handlers = handlers_of(program.description)
        decoded = decode(program.encode(), program.description)
        self._code = [
            (handlers[o.kind.name], values, cost_of(i, program.description), i.line, o.kind.name)
            for (o, values), i in zip(decoded, program.instructions, strict=True)
        ]
        self.clock = Clock(program.description)
        self.steps, self.line = 0, 0
        self.trace: list[Step] = []

    def go(self, limits: Limits, trace: range) -> Found | None:
        code, clock, machine = self._code, self.clock, self._machine
        place, until = 0, time.monotonic() + limits.deadline_s
        while place >= 0:
            handler, values, cost, self.line, name = code[place]
            if self.steps >= limits.steps or (self.steps % _LOOK_EVERY == 0 and time.monotonic() > until):
                return self._endless(limits)
            clock.issue(cost, self.line)
            try:
                target = handler(machine, values)
                if name == "halt":
                    self._check_end()
            except Fault as error:
                return _found(error, self.line)
            if cost.unit >= 5:
                self._control(name, values, target)
            if self.steps in trace:
                self._keep(place)
            self.steps += 1
            place = place + 1 if target is None else target
        return None

    def _control(self, name: str, values: dict[str, int | float], target: int | None) -> None:
        """Charge what takes more time than its issue."""
        clock, machine, line = self.clock, self._machine, self.line
        if name in {"din", "dout"}:
            queue = int(values["q"])
            clock.transfer(queue, machine.memory.pending[queue][-1].memory, line)
        elif name == "dwait":
            clock.wait_transfers(*machine.finished, line)
        elif name == "mwait":
            clock.wait_matrix(line)
        elif target is not None and target >= 0:
            clock.branch(line)

    def _endless(self, limits: Limits) -> Found:
        busiest = max(self.clock.issues, key=lambda n: self.clock.issues[n])
        return Found(
            "endless", busiest,
            f"line {busiest}: the program did not end within {self.steps} instructions "
            f"(at most {limits.steps} in {limits.deadline_s:g} s); this line ran {self.clock.issues[busiest]} times",
        )  # fmt: skip

    def _check_end(self) -> None:
        left = sum(map(len, self._machine.memory.pending))
        if left:
            wait = self._program.description.by_kind["dwait"].name
            raise Fault("dma", f"the program ends while {left} transfers were not waited for; {wait} first")

    def _keep(self, place: int) -> None:
        instruction = self._program.instructions[place]
        waited, cause = self.clock.stall
        text = self._program.source[instruction.line - 1].strip()
        self.trace.append(
            Step(
                self.steps, self.clock.issued_at, instruction.line, text,
                f"{waited} for {cause}" if waited else "", self._result(place),
            )
        )  # fmt: skip

    def _result(self, place: int) -> str:
        """Say what an instruction wrote."""
        instruction, machine = self._program.instructions[place], self._machine
        d: Description = self._program.description
        for role in instruction.operation.roles:
            if "w" not in role.access:
                continue
            number = int(instruction.values[role.name])
            name = d.register(role.cls, number)
            if role.cls == "s":
                return f"{name} = {machine.s[number]}"
            row = machine.v[number, : machine.vl] if role.cls == "v" else machine.m[number, 0]
            values = ", ".join(f"{v:.6g}" for v in row[:_SHOWN_LANES])
            return f"{name} = {values}{' ...' if len(row) > _SHOWN_LANES else ''}"
        return ""
