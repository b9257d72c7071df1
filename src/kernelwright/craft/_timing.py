"""The cycle model: in-order issue, units with latencies, one scratchpad port, DMA queues on one channel.

An instruction issues when its operands are ready, its unit and the port are free. What it waited for longest is the
cause of the stall, and the stall belongs to its line.

Covers: latencies, busy units, the port, waits for DMA and for the matrix unit, full queues, taken branches.
Does not cover: conflicts between DMA and the port, instruction fetch.
"""

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass

from ._assembler import Instruction
from ._description import Description

_UNITS = ("scalar", "vector", "reduce", "memory", "matrix", "dma", "control")
_CAUSES = {
    "vector": "vector unit", "reduce": "reduction unit", "memory": "scratchpad port", "matrix": "matrix unit",
    "scalar": "scalar unit", "dma": "dma unit", "control": "control",
}  # fmt: skip


@dataclass(frozen=True)
class Cost:
    """What the model must know of one instruction."""

    reads: tuple[int, ...]
    """Registers, numbered through all classes."""
    writes: tuple[int, ...]
    """Registers that it writes."""
    unit: int
    """Its unit."""
    latency: int
    """Cycles until its result is there."""
    busy: int
    """Cycles for which the unit is taken."""


def cost_of(instruction: Instruction, description: Description) -> Cost:
    """Return what the model must know of an instruction."""
    base, at = {}, 0
    for cls in ("s", "v", "m"):
        base[cls] = at
        at += description.count(cls)
    reads, writes = [], []
    for role in instruction.operation.roles:
        if role.cls in base:
            number = base[role.cls] + int(instruction.values[role.name])
            if "r" in role.access:
                reads.append(number)
            if "w" in role.access:
                writes.append(number)
    operation = instruction.operation
    unit = _UNITS.index(operation.kind.unit)
    return Cost(tuple(reads), tuple(writes), unit, operation.latency, operation.busy)


class Clock:
    """Counts the cycles of a run."""

    def __init__(self, description: Description) -> None:
        self._description = description
        self._ready = [0] * sum(description.count(c) for c in ("s", "v", "m"))
        self._free = [0] * len(_UNITS)
        self._queues: list[deque[int]] = [deque() for _ in range(description.count("q"))]
        self._queue_free = [0] * description.count("q")
        self._channel_free = 0
        self._matrix_done = 0
        self.now = 0
        """The first cycle at which the next instruction may issue."""
        self.issued_at = 0
        """The cycle at which the last one issued."""
        self.stall = (0, "")
        """Cycles that the last one waited, and for what."""
        self.stalls: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        """Cycles lost on each line by cause."""
        self.issues: dict[int, int] = defaultdict(int)
        """Instructions issued on each line."""

    def issue(self, cost: Cost, line: int) -> None:
        """Issue an instruction."""
        at, cause, ready = self.now, "", self._ready
        for register in cost.reads:
            if ready[register] > at:
                at, cause = ready[register], "operand"
        for register in cost.writes:
            if ready[register] - cost.latency > at:
                at, cause = ready[register] - cost.latency, "result"
        if self._free[cost.unit] > at:
            at, cause = self._free[cost.unit], _CAUSES[_UNITS[cost.unit]]
        self._set(at, cause, line)
        self.issues[line] += 1
        for register in cost.writes:
            ready[register] = at + cost.latency
        self._free[cost.unit] = at + cost.busy
        if cost.unit == 4 and cost.latency + at > self._matrix_done:
            self._matrix_done = at + cost.latency

    def branch(self, line: int) -> None:
        """Lose the cycles of a taken branch."""
        self._wait(self.now + self._description.branch, "branch", line)

    def wait_matrix(self, line: int) -> None:
        """Wait for the matrix unit."""
        self._wait(self._matrix_done, "matrix unit", line)

    def transfer(self, queue: int, rows: Sequence[tuple[int, int]], line: int) -> None:
        """Start a transfer of these rows at the last instruction."""
        d, under_way = self._description, self._queues[queue]
        running = sum(end > self.now for end in under_way)
        if running >= d.dma_depth:
            self._wait(sorted(under_way)[-d.dma_depth], "full queue", line)
        words = sum(hi - lo for lo, hi in rows)
        start = max(self.now, self._queue_free[queue]) + d.dma_latency
        end = max(start, self._channel_free) + len(rows) * d.dma_row + -(-words // d.dma_words)
        self._channel_free = self._queue_free[queue] = end
        under_way.append(end)

    def wait_transfers(self, queue: int, count: int, line: int) -> None:
        """Wait for the oldest `count` transfers of a queue."""
        for _ in range(count):
            self._wait(self._queues[queue].popleft(), "dma", line)

    def _set(self, at: int, cause: str, line: int) -> None:
        self.stall = (at - self.now, cause)
        if at > self.now:
            self.stalls[line][cause] += at - self.now
        self.issued_at, self.now = at, at + 1

    def _wait(self, until: int, cause: str, line: int) -> None:
        if until > self.now:
            self.stalls[line][cause] += until - self.now
            self.stall = (until - self.now, cause)
            self.now = until
