"""Peak memory of a call, and time and memory of the ways to compute a training step.

Covers: all that a call allocates, also what kernels allocate by themselves, as the most by which the process grows;
memory that earlier calls left free is given back before.
Does not cover: systems other than Linux; allocators other than glibc's, which may keep what is free; pages that the
system takes from the process or gives to it meanwhile, a few MB.
"""

import copy
import ctypes
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from ..config import without_secrets
from ..errors import InputError
from ..records import Candidate, Evaluation, Record, Task
from ..tasks import Problem, one_thread
from ..tasks.capture import quiet
from ._accepted import load_program
from ._joint import TrainedWhole
from ._records import StepProgram
from ._target import Loaded

_DEADLINE_S = 120.0
_MOST = 8
"""Programs whose memory is measured, the fastest ones."""
_TRUSTED = ("schedule", "inductor", "partition")
"""Whose programs run outside the sandbox for that; of others the accepted one alone, which a patch would run too."""
_WARM = 2
"""Calls before the one that is measured."""


class Order(Record):
    """Input of the measuring process, on its standard input."""

    task: Task
    """The step."""
    candidates: tuple[Candidate, ...]
    """Programs for it."""


def peak_bytes(call: Callable[[], Any]) -> int | None:
    """Return by how many bytes a call makes the process grow at most; None where the system does not tell.

    Example:
        >>> import torch
        >>> grown = peak_bytes(lambda: torch.ones(1 << 22).exp().sum())  # twice 16 MiB
        >>> grown is None or grown > 2**24
        True
    """
    try:
        libc, reset = ctypes.CDLL("libc.so.6"), Path("/proc/self/clear_refs")
        for _ in range(_WARM):
            call()
        libc.malloc_trim(0)
        before = _status_bytes("VmRSS")
        reset.write_text("5")
        call()
        return max(_status_bytes("VmHWM") - before, 0)
    except (OSError, AttributeError):
        return None


def _status_bytes(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(f"{name}:")).split()[1])


def peaks_of(task: Task, candidates: Sequence[Candidate]) -> list[int | None]:
    """Return the peak memory of programs for a step, each run in another process; None for one that does not run."""
    order = Order(task=task, candidates=tuple(candidates))
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "kernelwright.models._peaks"], input=order.to_json(), capture_output=True,
            text=True, timeout=_DEADLINE_S, env=without_secrets(), check=False,
        )  # fmt: skip
        out = done.stdout
    except subprocess.TimeoutExpired as error:
        out = error.stdout.decode() if isinstance(error.stdout, bytes) else error.stdout or ""
    found: list[int | None] = [json.loads(line) for line in out.splitlines()]
    return [*found, *[None] * (len(candidates) - len(found))]


def programs_of(
    loaded: Loaded, task: Task, tried: Sequence[Evaluation], accepted: Candidate | None
) -> tuple[StepProgram, ...]:
    """Return time and memory of the native forms of a step, and of the programs that were right and timed.

    Args:
        loaded: The model, in training mode.
        task: Its step.
        tried: What came of each program.
        accepted: The one that was accepted, if any.
    """
    timed = [
        (e.decision.speedup.median, e.candidate)
        for e in tried
        if e.decision.speedup is not None
        and (e.candidate.proposer in _TRUSTED or (accepted is not None and e.candidate.key == accepted.key))
    ]
    best = sorted(timed, key=lambda pair: -pair[0])[:_MOST]
    if not best:
        return ()
    peaks = peaks_of(task, [candidate for _, candidate in best])
    return (
        *(StepProgram(what=what, speedup=None, peak_bytes=peak) for what, peak in _native_peaks(loaded).items()),
        *(
            StepProgram(
                what=f"{candidate.proposer}: {candidate.reason}", speedup=speedup, peak_bytes=peak,
                kept=accepted is not None and candidate.key == accepted.key,
            )
            for (speedup, candidate), peak in zip(best, peaks, strict=True)
        ),
    )  # fmt: skip


def _native_peaks(loaded: Loaded) -> dict[str, int | None]:
    """Return the peak memory of forward and backward in eager torch and under torch.compile."""
    whole = TrainedWhole(copy.deepcopy(loaded.module), loaded.args, loaded.kwargs)
    whole(*whole.tensors)  # finds the loss, which a compiled call does not tell

    def measured(call: Callable[..., Any]) -> int | None:
        def step() -> None:
            call(*whole.tensors)[whole.loss].backward()
            whole.zero_grad()  # so that the next call starts without gradients, as programs do

        try:
            return peak_bytes(step)
        except Exception:  # noqa: BLE001  the model's own code runs under the compiler, and may raise anything
            return None

    with torch.random.fork_rng(devices=[]), quiet(), one_thread():
        try:
            return {"eager": measured(whole), "compile": measured(torch.compile(whole))}
        finally:
            torch._dynamo.reset()


def main() -> int:
    """Measure the order on standard input; a line for each program."""
    answer, sys.stdout = sys.stdout, sys.stderr
    order = Order.from_json(sys.stdin.read())
    torch.set_num_threads(1)
    problem, workload = Problem(order.task), order.task.workloads[0]
    inputs = problem.inputs(workload, seed=0)
    for candidate in order.candidates:
        try:
            kernel = load_program(candidate, workload).kernel
            with torch.no_grad():
                peak = peak_bytes(lambda kernel=kernel: kernel(*inputs))  # type: ignore[misc]  # as in the pilot
        except (InputError, NotImplementedError, RuntimeError):
            peak = None
        print(json.dumps(peak), file=answer, flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
