"""A candidate on trial: its workers, where its inputs lie, and the calls made of it.

Covers: one worker for each set of constructor arguments, deadlines on every request, state set anew.
Does not cover: judging; it only hands back what was seen.
"""

import functools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import cast

import torch

from ..errors import WorkerError
from ..languages import compiles_when_called, executes, is_executed
from ..records import Build, Candidate, CheckStatus, Finding, Workload
from ..sandbox import (
    Arena,
    Argument,
    Audit,
    FailureKind,
    Fetched,
    OperatorIsolation,
    Payload,
    Pool,
    Slot,
    Worker,
    WorkerFailure,
)
from ..system.waiting import PatientDeadline
from ..tasks import Problem, fit_state, listed
from ._case import Case, Oracle, Seeds

_CALL_LIMIT_S = 20.0
"""Seconds that one request may take at most, longer where processors were seen to be waited for."""
_EXECUTED_LIMIT_S = 120.0
"""The same where kernels are executed by a sanitiser, whose translation to C++ is compiled in the first call; and for
loading them, as their languages are large packages."""
_LOAD_LIMIT_S = 60.0
"""Seconds that loading may take at most."""
_FIRST_BUSY_S = 5.0
"""Seconds of computing that a candidate's first call may take, unless it may have something to compile there.

It is on the smallest search workload; one that takes longer has no time for the dozen calls of `repeatable` either.
"""
_COMPILING = re.compile(
    r"compil|inductor|dynamo|triton|numba|jit|inline|exec|import_|getattr|ctypes|subprocess"
)
_SLACK_BYTES = 1 << 20
_BY_WEIGHTS = frozenset({"correct", "state-unchanged"})
"""Checks that fail where weights are given in each other's places."""


@dataclass(frozen=True)
class Placed:
    """A case laid out in the arena and bound in its worker."""

    case: Case
    worker: Worker
    number: int
    """The worker's name for this set of arguments."""
    slots: tuple[Slot, ...]
    """Where the tensor arguments lie, in order."""


class Trial:
    """Holds the workers of one candidate while it is verified."""

    def __init__(
        self,
        oracle: Oracle,
        candidate: Candidate,
        build: Build,
        pool: Pool,
        *,
        deadline: PatientDeadline,
        seeds: Seeds,
        watched: bool = False,
        alone: OperatorIsolation | None = None,
        deployed: bool = False,
        executed: bool = False,
        counted: bool = False,
    ) -> None:
        self.oracle = oracle
        self.candidate = candidate
        self.seeds = seeds
        self._build, self._pool, self._watched, self._alone = build, pool, watched, alone
        self._deployed, self._executed, self._counted = deployed, executed or counted, counted
        self._deadline = deadline
        self._workers: dict[str, Worker] = {}
        self._audits: dict[str, Audit] = {}
        self._arena: Arena = pool.arena
        self._own_arena: Arena | None = None
        self._guessed: tuple[str, ...] = ()
        self._first_busy_s = math.inf if _may_compile(candidate) else _FIRST_BUSY_S
        self.least_us = math.inf
        """The least time that a call has taken so far, its request included."""

    def __enter__(self) -> "Trial":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self._workers.values():
            worker.kill()
        if self._own_arena is not None:
            self._own_arena.close()

    @property
    def problem(self) -> Problem:
        """The problem that the candidate claims to solve."""
        return self.oracle.problem

    @property
    def build(self) -> Build:
        """What was built of the candidate."""
        return self._build

    @property
    def executes(self) -> bool:
        """Whether the candidate's kernels can be executed here under the sanitiser, as there is no GPU to run them."""
        return self._pool.device == "cpu" and executes(self.candidate.language)

    @property
    def device(self) -> str:
        """Where its calls run."""
        return self._pool.device

    @property
    def threads(self) -> int:
        """Threads that were agreed."""
        return self._pool.threads

    @property
    def remaining_s(self) -> float:
        """Seconds left of the deadline, never negative."""
        return self._deadline.left_s

    def limit_s(self) -> float:
        """Return the seconds that the next request may take."""
        return self._deadline.within(_EXECUTED_LIMIT_S if self.translates else _CALL_LIMIT_S)

    @functools.cached_property
    def translates(self) -> bool:
        """Whether calls are executed, not run, so that what is called first is translated and compiled in the call."""
        outputs = next((w.outputs for w in self.problem.task.workloads), ())
        return self._executed or (self.executes and is_executed(self.candidate, outputs))

    def ran_out(self, failure: WorkerFailure) -> bool:
        """Tell whether a request failed because the whole verification's time was up: nobody is to blame, then."""
        return failure.kind is FailureKind.TIMEOUT and self._deadline.has_cut()

    def another(
        self,
        oracle: Oracle,
        *,
        watched: bool = False,
        alone: OperatorIsolation | None = None,
        deployed: bool = False,
        executed: bool = False,
    ) -> "Trial":
        """Return a trial of the same candidate in workers of its own; a context manager.

        Args:
            oracle: Of the same problem or another.
            watched: Whether its workers look at what calls are made of.
            alone: Which of torch's operators its workers do without.
            deployed: Whether its workers' surroundings look like somebody's program.
            executed: Whether its workers execute the kernels' PTX under the sanitiser.
        """
        return Trial(
            oracle, self.candidate, self._build, self._pool, deadline=self._deadline, seeds=self.seeds,
            watched=watched, alone=alone, deployed=deployed, executed=executed,
        )  # fmt: skip

    def worker(self, workload: Workload) -> Worker:
        """Return the worker for the workload, started and loaded where there is none yet."""
        payload = Payload.of(
            self.problem.task, workload, self.candidate, self._build,
            init=self.problem.init_arguments, device=self._pool.device,
        )  # fmt: skip
        key = repr((payload.init, [(s.name, s.shape, s.dtype) for s in workload.state]))
        if key not in self._workers:
            payload = replace(
                payload,
                watched=self._watched,
                alone=self._alone,
                deployed=self._deployed,
                executed=self._executed,
                counted=self._counted,
            )
            limit_s = _EXECUTED_LIMIT_S if self.translates else _LOAD_LIMIT_S
            self._workers[key] = self._pool.worker(
                payload, deadline_s=max(1.0, self._deadline.within(limit_s))
            )
            self._deadline.watch(self._workers[key].pid)
            self._audits[key] = self._workers[key].audit()
            if self.candidate.style == "module":
                self._guessed += fit_state(self.problem, workload, self._workers[key])
        return self._workers[key]

    def believed(self, found: Finding) -> Finding:
        """Return a finding on the candidate's answer, unless it may be due to a guess about its weights.

        Raises:
            WorkerError: it may be.
        """
        if self._guessed and found.check in _BY_WEIGHTS and found.status is CheckStatus.FAIL:
            raise WorkerError(
                f"weights with names of their own that are made alike ({listed(self._guessed)} of the problem's) were "
                f"given in their order, and with that the answer is wrong, which the order may be too: {found.message}"
            )
        return found

    def right(self) -> None:
        """Take note that it was right on secret weights: what was guessed of them is right, or does not matter."""
        self._guessed = ()

    def audits(self) -> list[tuple[Audit, Audit]]:
        """Return each worker's audit just after loading and now."""
        return [(self._audits[key], worker.audit()) for key, worker in self._workers.items()]

    def place(self, *cases: Case) -> list[Placed]:
        """Lay out cases of one workload side by side, in a clean arena, with the first one's state."""
        worker = self.worker(cases[0].workload)
        worker.release()
        self._make_room(cases)
        if cases[0].state:
            worker.set_state(cases[0].state, deadline_s=self.limit_s())
            worker.prepare(deadline_s=self.limit_s())
        return [self._bind(worker, case) for case in cases]

    def call(self, placed: Sequence[Placed]) -> list[Fetched]:
        """Call the candidate on each placed case in one request, then fetch every output."""
        worker = placed[0].worker
        numbers = [p.number for p in placed]
        reply = worker.call(numbers, deadline_s=self.limit_s(), busy_s=self._first_busy_s)
        self._first_busy_s = math.inf
        self.least_us = min(self.least_us, reply.time_us / max(1, len(placed)))
        return [worker.fetch(reply.first + i, deadline_s=self.limit_s()) for i in range(len(placed))]

    @property
    def on_gpu(self) -> bool:
        """Whether calls are queued in streams, so that they return before their work is done."""
        return self._pool.device != "cpu"

    def call_late(self, placed: Placed, case: Case) -> Fetched:
        """Call on other content that the caller's stream brings late, and fetch what it then sees."""
        for slot, tensor in zip(placed.slots, case.tensors, strict=True):
            self._arena.refill(slot, tensor)
        placed.worker.call_late(placed.number, deadline_s=self.limit_s())
        return placed.worker.fetch(deadline_s=self.limit_s())

    def refill(self, placed: Placed, case: Case) -> Placed:
        """Put other content into the same storage, under the same binding."""
        for slot, tensor in zip(placed.slots, case.tensors, strict=True):
            self._arena.refill(slot, tensor)
        placed.worker.push(placed.number, deadline_s=self.limit_s())
        return Placed(case, placed.worker, placed.number, placed.slots)

    def dropped(self, placed: Placed) -> Placed:
        """Let the worker forget the outputs so far; arguments and state stay as and where they are."""
        placed.worker.release()
        slots = iter(placed.slots)
        arguments = tuple(
            next(slots) if isinstance(v, torch.Tensor) else cast(Argument, v) for v in placed.case.inputs
        )
        number = placed.worker.bind(arguments, placed.case.workload.outputs)
        return replace(placed, number=number)

    def arguments(self, placed: Placed) -> tuple[torch.Tensor, ...]:
        """Return the judge's views of the tensor arguments as they are now."""
        placed.worker.pull(placed.number, deadline_s=self.limit_s())
        return tuple(self._arena.view(slot) for slot in placed.slots)

    def guards_intact(self) -> bool:
        """Tell whether the bytes between the tensors are as they were."""
        return self._arena.guards_intact()

    def _bind(self, worker: Worker, case: Case) -> Placed:
        arguments: list[Argument] = []
        slots: list[Slot] = []
        for value in case.inputs:
            if isinstance(value, torch.Tensor):
                slots.append(self._arena.place(value))
                arguments.append(slots[-1])
            else:
                arguments.append(cast(Argument, value))
        number = worker.bind(tuple(arguments), case.workload.outputs)
        return Placed(case, worker, number, tuple(slots))

    def _make_room(self, cases: Sequence[Case]) -> None:
        needed = _SLACK_BYTES + sum(2 * t.nbytes + 3 * (1 << 14) for case in cases for t in case.tensors)
        if needed > self._arena.size_bytes:
            if self._own_arena is not None:
                self._own_arena.close()
            self._arena = self._own_arena = self._pool.new_arena(needed)
        self._arena.reset()


def _may_compile(candidate: Candidate) -> bool:
    """Tell whether a first call may take long for the sake of a compiler; it only ever gives more time."""
    return (
        candidate.language == "cuda"
        or compiles_when_called(candidate.language)
        or any(may_compile(file.text) for file in candidate.sources)
    )


def may_compile(text: str) -> bool:
    """Tell whether a Python kernel's text may have something to compile in its first call, however long that takes.

    Example:
        >>> may_compile("torch.compile(run)"), may_compile("x + x")
        (True, False)
    """
    return bool(_COMPILING.search(text))


def describe(failure: WorkerFailure) -> str:
    """Put a worker's failure in one sentence for people and proposers."""
    last = failure.output.strip().splitlines()
    told = f" ({last[-1][:200]})" if last and failure.kind is not FailureKind.PROTOCOL else ""
    return f"{failure.kind.value}: {failure.message}{told}"


def is_not_executed(failure: WorkerFailure) -> bool:
    """Tell whether the kernel holds what the executor does not execute: nothing is known of it, then."""
    return failure.message.startswith("NotExecutedError: ")
