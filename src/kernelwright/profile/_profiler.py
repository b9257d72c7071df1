"""The profiler interface, and the candidate run that a profiler receives."""

import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol, cast, runtime_checkable

import torch

from ..config import Settings
from ..devices import Device
from ..languages import Availability
from ..records import Build, Candidate, Counters, TensorSpec, Workload
from ..sandbox import Argument, Payload, Pool, Worker
from ..tasks import Problem, fit_state

_SPAN_US, _MOST_CALLS, _MOST_KEPT_BYTES = 100_000, 100, 1 << 28
_ROOM_BYTES, _GAP_BYTES = 1 << 20, 1 << 14


@runtime_checkable
class Profiler(Protocol):
    """Trial → Counters. One file per tool, in `profile/tools/`.

    Covers: a candidate runs in the same sandboxed worker as in verification, or not at all.
    Does not cover: forged figures. A tool that observes from outside cannot be deceived; one that uses a
    library in the candidate's process can. Counters are advice: no verdict and no decision reads them.
    """

    name: str

    def available(self, device: Device) -> Availability:
        """Report whether it works on this machine's device, by a cheap test, and how to enable it."""
        ...

    def count(self, trial: "Trial") -> Counters:
        """Run the candidate and return its counters.

        Raises:
            ProfilerError: the tool's output cannot be read.
            WorkerFailure: the candidate did not run.
        """
        ...


class Ready:
    """A candidate in its worker, already warmed up, so that what is counted next is a typical call."""

    def __init__(self, worker: Worker, number: int, calls: int, deadline: float) -> None:
        self._worker, self._number, self._deadline = worker, number, deadline
        self.pid = worker.pid
        """Process id of the worker, as the judge sees it."""
        self.calls = calls
        """Calls that `call` makes: about a tenth of a second in total."""

    def call(self) -> None:
        """Call it; the results are discarded."""
        self._worker.call([self._number] * self.calls, deadline_s=self._deadline - time.monotonic())


@dataclass(frozen=True)
class Trial:
    """One candidate on one workload, to be run under a tool."""

    problem: Problem
    candidate: Candidate
    build: Build
    workload: Workload
    device: Device
    settings: Settings
    pool: Pool
    """Starts workers that no tool wraps."""
    deadline: float
    """Deadline, by `time.monotonic`."""

    @property
    def left_s(self) -> float:
        """Seconds to the deadline."""
        return self.deadline - time.monotonic()

    @property
    def elements(self) -> int:
        """Elements of all arguments, weights and outputs."""
        tensors = (*self.workload.arguments, *self.workload.state, *self.workload.outputs)
        return sum(torch.Size(s.shape).numel() for s in tensors if isinstance(s, TensorSpec))

    @contextmanager
    def ready(self) -> Iterator[Ready]:
        """Run the candidate in a worker as used for verification, after warm-up calls that are not counted.

        There are as many as will be counted, and their results were released: outputs that are kept between calls
        would otherwise be in fresh memory, whose page faults are not the candidate's.
        """
        outputs = self.workload.outputs
        with self._worker(self.pool) as (worker, arguments):
            number = worker.bind(arguments, outputs)
            first = worker.call([number], deadline_s=self.left_s)
            kept = sum(torch.Size(s.shape).numel() * getattr(torch, s.dtype).itemsize for s in outputs)
            most = min(_SPAN_US / max(first.time_us, 1.0), _MOST_CALLS, _MOST_KEPT_BYTES / max(kept, 1))
            calls = max(1, int(most))
            worker.call([number] * calls, deadline_s=self.left_s)
            worker.release()
            yield Ready(worker, worker.bind(arguments, outputs), calls, self.deadline)

    def under(self, command: Sequence[str]) -> str:
        """Call the candidate once in a worker wrapped by a command; return the command's output.

        The command starts the worker's zygote, inside its sandbox, and ends after it. There is no weaker
        kind of isolation to fall back on.

        Raises:
            WorkerError: it did not start a worker, failed, or timed out; it leaves nothing behind.
        """
        settings = replace(self.settings, sandbox=self.pool.isolation)
        with Pool(
            settings, arena_bytes=1, device=self.device.torch_device, under=command, start_s=self.left_s
        ) as pool:
            with self._worker(pool) as (worker, arguments):
                number = worker.bind(arguments, self.workload.outputs)
                worker.call([number], deadline_s=self.left_s)
            return pool.finish(self.left_s)

    @contextmanager
    def _worker(self, pool: Pool) -> Iterator[tuple[Worker, tuple[Argument, ...]]]:
        workload, seed = self.workload, secrets.randbits(48)
        payload = Payload.of(
            self.problem.task, workload, self.candidate, self.build,
            init=self.problem.init_arguments, device=self.device.torch_device,
        )  # fmt: skip
        values = self.problem.inputs(workload, seed)
        with _arena(pool, values) as arguments, pool.worker(payload, deadline_s=self.left_s) as worker:
            if self.candidate.style == "module":
                fit_state(self.problem, workload, worker)
            if state := self.problem.state(workload, seed):
                worker.set_state(state)
                worker.prepare()
            yield worker, arguments


@contextmanager
def _arena(pool: Pool, values: Sequence[object]) -> Iterator[tuple[Argument, ...]]:
    tensors = [v for v in values if isinstance(v, torch.Tensor)]
    arena = pool.new_arena(_ROOM_BYTES + sum(2 * t.nbytes + _GAP_BYTES for t in tensors))
    try:
        yield tuple(arena.place(v) if isinstance(v, torch.Tensor) else cast(Argument, v) for v in values)
    finally:
        arena.close()
