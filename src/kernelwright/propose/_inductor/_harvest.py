"""Runs torch.compile on a task's reference in a separate process and returns the code it generates."""

import contextlib
import os
import signal
import subprocess
import sys
from typing import Annotated

from pydantic import StringConstraints

from ...config import Settings, without_secrets
from ...records import Record, Task, Workload

DEADLINE_S = 240.0


class HarvestError(Exception):
    """No code was generated; the message explains why."""


class Order(Record):
    """Input of the harvesting process, on its standard input."""

    task: Task
    workload: Workload
    mode: Annotated[str, StringConstraints(pattern=r"^(default|max-autotune)$")]


class Generated(Record):
    """Output of the harvesting process, on its standard output."""

    code: str
    """TorchInductor's Python module, which contains the kernels."""
    flags: tuple[str, ...]
    """Compiler flags of its C++ kernels; `@torch` stands for torch's folder."""
    inputs: tuple[str, ...]
    """The generated code's inputs: names of the task's tensors, arguments first, then state."""


def harvest(task: Task, workload: Workload, mode: str, *, deadline_s: float = DEADLINE_S) -> Generated:
    """Compile the reference on one workload and return the generated code.

    Raises:
        HarvestError: the compiler failed, exceeded the deadline, or produced several graphs.
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
        try:
            out, err = process.communicate(
                Order(task=task, workload=workload, mode=mode).to_json(), deadline_s
            )
        except subprocess.TimeoutExpired:
            raise HarvestError(f"no code after {deadline_s:g} s") from None
        finally:
            _end(process)
    if process.returncode != 0:
        lines = [line for line in err.strip().splitlines() if line.strip()]
        raise HarvestError(lines[-1] if lines else f"the compiler's process ended with {process.returncode}")
    return Generated.from_json(out)


def _end(process: "subprocess.Popen[str]") -> None:
    """Kill the process and everything it started; its compilers run in its process group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
