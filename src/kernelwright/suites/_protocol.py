"""What an adapter of a benchmark offers; one file each, registered by the entry points `kernelwright.suites`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from ..records import Candidate, Task
from ._records import Rules, SuiteProblem
from ._submission import Submission


@dataclass(frozen=True)
class Script:
    """A benchmark's own rules as a program for one worker, which holds problem and kernel as the benchmark does."""

    rules: str
    """File in `suites/rules/` with `verdict(given) -> dict`."""
    given: Mapping[str, object]
    """What `verdict` is given: JSON values, with the texts of problem and kernel."""
    deadline_s: float
    """Seconds for everything."""
    on_gpu: bool = False
    """Whether the program runs on the GPU that `given["device"]` names; else on a CPU alone."""
    needs_gpu: bool = False
    """Whether the kernel can only run on a GPU."""


@runtime_checkable
class Suite(Protocol):
    """A benchmark: its problems, their rules, and the form of its kernels."""

    name: str
    """The name in commands."""
    title: str
    """One line."""
    repository: str
    """`owner/name` of the public repository; empty for a suite of our own, which is written from tables."""
    commit: str
    """The commit that the adapter was run on."""
    layout: tuple[str, ...]
    """Paths that a checkout has; by them it is recognised."""
    rules: Rules
    """How it judges."""

    def problems(self, data: Path) -> tuple[SuiteProblem, ...]:
        """List every problem of a checkout, in the benchmark's order."""

    def target(self, data: Path, problem: SuiteProblem, folder: Path) -> Path:
        """Write the problem into the folder in a form that `load_task` takes, and return its path.

        Raises:
            TaskError: it has no such form; the message says why.
        """

    def candidates(self, folder: Path, problems: Sequence[SuiteProblem]) -> dict[str, Path]:
        """Find finished kernels in a folder, in the benchmark's own form: file by problem's name."""

    def candidate(self, task: Task, file: Path) -> Path | Candidate:
        """Return a finished kernel as our judge takes it: its file, or a candidate that calls what it defines.

        Raises:
            TaskError: nothing there can be called as a kernel.
        """

    def submission(self, task: Task, candidate: Candidate) -> Submission | None:
        """Return a kernel of ours in the benchmark's own form; None if it has no such form."""

    def script(self, task: Task, candidate: str, data: Path, problem: SuiteProblem) -> Script | None:
        """Return its own verdict on a kernel's text as a program; None if it has none that this kernel can run in here.

        `task` is the problem as it was loaded, with its sizes shrunk if that was asked for: both verdicts are on the
        same sizes.
        """

    def flags(self, candidate: str) -> tuple[str, ...]:
        """Return what its own static screening refuses in a kernel's text; empty if it has none."""


@runtime_checkable
class ForOtherHardware(Protocol):
    """A benchmark with kernels for more kinds of hardware than CPUs and GPUs."""

    def needs(self, candidate: str, data: Path) -> str:
        """Say what a kernel's text needs besides a CPU; empty if nothing."""


@runtime_checkable
class InFolders(Protocol):
    """A benchmark whose kernels consist of several files."""

    def files(self, kernel: Path) -> Mapping[str, Path]:
        """Return a kernel's files by path within its folder, that which is named like the problem first."""


@runtime_checkable
class NamedByText(Protocol):
    """A benchmark whose published results do not name problems, but quote them."""

    def quoted(self, record: Mapping[str, object], data: Path) -> tuple[str, str] | None:
        """Return a record's problem by name, and its code; None if it quotes none."""
