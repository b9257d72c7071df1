"""What an instruction set offers to the loop: a manual, an assembler, runs with a cost, and a baseline.

`backends.find_backend` returns one by name.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from numpy.typing import NDArray

from .tasks import CraftTask, Workload


@dataclass(frozen=True)
class Ran:
    """What one run gave."""

    output: NDArray[Any] | None
    """The output in rows and columns; None if there was a fault."""
    cost: int
    """What it took, in the backend's unit."""
    fault: str = ""
    """What went wrong, with the line where the backend knows it."""
    kind: str = ""
    """The kind of fault, in a word."""
    lines: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    """For each line what it cost: `issued`, and lost cycles by cause."""
    trace: Sequence[Mapping[str, str | int]] = ()
    """Executed steps, where they were asked for."""


class Backend(Protocol):
    """One instruction set that programs are written for."""

    name: str
    """Its name."""
    unit: str
    """What costs are counted in."""

    def missing(self) -> str:
        """Say what is missing to run it here; empty if nothing is."""
        ...

    def manual(self) -> str:
        """Return all that a writer of programs is told of it."""
        ...

    def contract(self, task: CraftTask) -> str:
        """Say where a program finds the tensors and sizes of a task."""
        ...

    def assemble(self, text: str) -> str:
        """Assemble a program and say what it is.

        Raises:
            AssemblyError: it is none; the lines are named.
        """
        ...

    def run(
        self, task: CraftTask, text: str, workload: Workload, *, most: int = 0, trace: range = range(0)
    ) -> Ran:
        """Run a program on a workload.

        Args:
            task: The task.
            text: The program.
            workload: Sizes and inputs.
            most: Most instructions; 0 for the backend's own limit.
            trace: Numbers of the steps to keep.

        Raises:
            AssemblyError: it is no program.
        """
        ...

    def programs(self, task: CraftTask) -> Mapping[str, str]:
        """Return the programs that are known for a task, by how they were made; the first is the baseline."""
        ...
