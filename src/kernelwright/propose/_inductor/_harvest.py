"""Runs torch.compile on a task's reference in a separate process and returns the code it generates."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Annotated

from pydantic import StringConstraints

from ...config import Settings, without_secrets
from ...records import Record, Task, Workload

DEADLINE_S = 240.0


class HarvestError(Exception):
    """No code was generated, or none that can stand alone; the message explains why."""


class Order(Record):
    """Input of the harvesting process, on its standard input."""

    task: Task
    workloads: tuple[Workload, ...]
    """What to compile for, in the order in which the code is returned."""
    modes: tuple[Annotated[str, StringConstraints(pattern=r"^(default|max-autotune)$")], ...]
    """The modes, in order; every workload is compiled in each."""


class Generated(Record):
    """What torch.compile makes of the reference on one workload."""

    code: str
    """TorchInductor's Python module, which contains the kernels."""
    flags: tuple[str, ...]
    """Compiler flags of its C++ kernels; `@torch` stands for torch's folder."""
    inputs: tuple[str, ...]
    """The generated code's inputs: names of the task's tensors, arguments first, then state."""


class Harvested(Record):
    """One mode of an order: a line on the harvesting process's standard output."""

    mode: str
    """One of the order's modes."""
    codes: tuple[Generated, ...] = ()
    """The code for each workload; empty if the mode failed."""
    failure: str = ""
    """Why the mode failed."""


def harvest(
    task: Task, workloads: Sequence[Workload], modes: Sequence[str], *, deadline_s: float = DEADLINE_S
) -> tuple[Harvested, ...]:
    """Compile the reference on the workloads in each mode and return the generated code, mode by mode.

    One process compiles all, because starting it takes longer than compiling most tasks. What it has finished by the
    deadline, or before a mode ended it, is kept.
    """
    settings = Settings.from_environment()
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "kernelwright.propose._inductor"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**without_secrets(), "TORCHINDUCTOR_CACHE_DIR": str(settings.cache / "inductor")},
    ) as process:
        order, late = Order(task=task, workloads=tuple(workloads), modes=tuple(modes)).to_json(), ""
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
    missing = list(modes)[len(found) :]
    return (*found, *(Harvested(mode=mode, failure=late or ended) for mode in missing))


def _end(process: "subprocess.Popen[str]") -> None:
    """Kill the process and everything it started; its compilers run in its process group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
