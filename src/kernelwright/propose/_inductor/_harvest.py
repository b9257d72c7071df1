"""Runs torch.compile on a task's reference in a separate process and returns the code it generates."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import StringConstraints

from ...config import Settings, without_secrets
from ...records import Record, Task, Workload
from ...system.compile_cache import remove_incomplete

DEADLINE_S = 240.0
NO_STEP = "its first result is no loss whose gradient the others begin with"
"""How the failure of a task that is no training step ends."""


class HarvestError(Exception):
    """No code was generated, or none that can stand alone; the message explains why."""


Partition = Literal["default", "min-cut", "everything", "half", "inputs"]
"""What the forward part of a training step keeps for the backward part: what this reads as autograd wrote it; what
torch.compile would keep; every value that both compute; at most half as many bytes as torch.compile would; the step's
inputs alone."""


class Parting(Record):
    """How a training step is parted."""

    keeps: Partition
    """What is kept."""
    head: bool
    """Whether a kernel computes the loss head."""


class Order(Record):
    """Input of the harvesting process, on its standard input."""

    task: Task
    workloads: tuple[Workload, ...]
    """What to compile for, in the order in which the code is returned."""
    modes: tuple[Annotated[str, StringConstraints(pattern=r"^(default|max-autotune)$")], ...]
    """The modes, in order; every workload is compiled in each."""
    partings: tuple[Parting, ...] = ()
    """How to part the task, a training step, in order; done in place of the modes."""


class Generated(Record):
    """What torch.compile makes of the reference on one workload."""

    code: str
    """TorchInductor's Python module, which contains the kernels."""
    flags: tuple[str, ...]
    """Compiler flags of its C++ kernels; `@torch` stands for torch's folder."""
    inputs: tuple[str, ...]
    """The generated code's inputs: names of the task's tensors, arguments first, then state."""


class Head(Record):
    """A loss head: what its kernel is called with."""

    rows: int
    """Rows of logits."""
    width: int
    """What the layer takes for each."""
    vocabulary: int
    """Logits of each."""
    bias: bool
    """Whether the layer has a bias."""
    ignored: int
    """Target of the rows that have no loss."""

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of what the kernel gives: losses, gradients in what the layer takes, its weight, and its bias."""
        rows, width, vocabulary = self.rows, self.width, self.vocabulary
        return (rows,), (rows, width), (vocabulary, width), (vocabulary if self.bias else 0,)


Described = tuple[tuple[int, ...], tuple[int, ...], str]
"""Shape, strides and dtype of a tensor."""


class Step(Record):
    """What torch.compile makes of a training step in two parts, on one workload.

    Values are named by Python: `t[2]` of the step's tensors, `f[0]` of the forward part's results, `h[0]` of the
    head's, `b[0]` of the backward part's.
    """

    tensors: tuple[Described, ...]
    """The step's tensors."""
    constants: tuple[str, ...]
    """Python that makes the tensors that follow them."""
    forward: Generated
    """Takes all of these."""
    backward: Generated
    """Takes what is kept."""
    head: Head | None
    """What is computed in between."""
    asked: tuple[str, ...]
    """What the head takes."""
    kept: tuple[str, ...]
    """What the backward part takes."""
    results: tuple[str, ...]
    """The step's results."""


class Harvested(Record):
    """One mode of an order: a line on the harvesting process's standard output."""

    mode: str
    """One of the order's modes, or what a parting keeps."""
    codes: tuple[Generated, ...] = ()
    """The code for each workload; empty if the mode failed."""
    steps: tuple[Step, ...] = ()
    """The two parts for each workload, where partings were ordered."""
    failure: str = ""
    """Why the mode failed."""


def harvest(
    task: Task,
    workloads: Sequence[Workload],
    modes: Sequence[str] = (),
    *,
    partings: Sequence[Parting] = (),
    deadline_s: float = DEADLINE_S,
) -> tuple[Harvested, ...]:
    """Compile the reference on the workloads in each mode and return the generated code, mode by mode; or each parting.

    One process compiles all, because starting it takes longer than compiling most tasks. What it has finished by the
    deadline, or before a mode ended it, is kept.
    """
    cache = Settings.from_environment().cache / "inductor"
    remove_incomplete(cache)
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "kernelwright.propose._inductor"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**without_secrets(), "TORCHINDUCTOR_CACHE_DIR": str(cache)},
    ) as process:
        asked = Order(task=task, workloads=tuple(workloads), modes=tuple(modes), partings=tuple(partings))
        order, late = asked.to_json(), ""
        try:
            out, err = process.communicate(order, deadline_s)
        except subprocess.TimeoutExpired:
            late = f"no code after {deadline_s:g} s"
            _end(process)
            out, err = process.communicate()
        finally:
            _end(process)
    found = tuple(Harvested.from_json(line) for line in out.splitlines() if line.endswith("}"))
    lines = [line for line in err.strip().splitlines() if line.strip()]
    ended = lines[-1] if lines else f"the compiler's process ended with {process.returncode}"
    missing = [*modes, *(parting.keeps for parting in partings)][len(found) :]
    return (*found, *(Harvested(mode=mode, failure=late or ended) for mode in missing))


def _end(process: "subprocess.Popen[str]") -> None:
    """Kill the process and everything it started; its compilers run in its process group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
