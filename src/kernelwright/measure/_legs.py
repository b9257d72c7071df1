"""The contestants: a fresh worker for the candidate, warm ones for the baselines."""

from collections.abc import Iterator
from contextlib import contextmanager

from ..languages import get_language
from ..records import Build, Candidate, Leg, Workload
from ..sandbox import Payload, Pool, Worker, WorkerFailure
from ..tasks import Problem
from ._decide import CANDIDATE

_LOAD_S = 180.0
_MOST_WARM = 16


class Contestant:
    """One leg on one workload: its worker and the proof of what it holds."""

    def __init__(self, name: str, worker: Worker) -> None:
        self.name, self.worker = name, worker
        self.first_call_us = 0.0

    def record(self) -> Leg:
        """Return the proof of what ran."""
        loaded = self.worker.loaded
        return Leg(
            name=self.name,
            content=loaded.content,
            symbol=loaded.symbol,
            worker=self.worker.pid,
            first_call_us=self.first_call_us,
        )


class Baselines:
    """Baseline workers, warm across candidates; the least recently used goes first."""

    def __init__(self, problem: Problem, pool: Pool, names: tuple[str, ...]) -> None:
        self._problem, self._pool, self._names = problem, pool, names
        self._warm: dict[tuple[str, str], Contestant] = {}
        self.notes: dict[tuple[str, str], str] = {}
        """Why a baseline is absent, by its name and the workload's."""

    def of(self, workload: Workload) -> list[Contestant]:
        """Return the baselines that work on the workload, starting those that are not warm."""
        found = [self._one(name, workload) for name in self._names if (name, workload.name) not in self.notes]
        return [c for c in found if c is not None]

    def drop(self, workload: Workload, name: str) -> None:
        """End one worker, so that the next use gets a fresh process."""
        held = self._warm.pop((name, workload.name), None)
        if held is not None:
            held.worker.kill()

    def give_up(self, workload: Workload, name: str, why: str) -> None:
        """Note that a baseline does not work on a workload."""
        self.drop(workload, name)
        self.notes[name, workload.name] = why

    def close(self) -> None:
        """End every worker."""
        for held in self._warm.values():
            held.worker.kill()
        self._warm.clear()

    def _one(self, name: str, workload: Workload) -> Contestant | None:
        key = (name, workload.name)
        held = self._warm.pop(key, None)
        if held is None or not held.worker.alive:
            candidate = self._problem.baseline(name, workload)
            build = get_language(candidate.language).build(candidate)
            payload = Payload(
                candidate=candidate,
                artefact=build.artefact,
                init=self._problem.init_arguments(workload),
                outputs=workload.outputs,
                mode=self._problem.task.contract.mode,
                trusted=True,
            )
            try:
                held = Contestant(name, self._pool.worker(payload, deadline_s=_LOAD_S))
            except WorkerFailure as failure:
                self.notes[key] = f"{failure.kind.value}: {failure.message}"
                return None
        self._warm[key] = held
        while len(self._warm) > _MOST_WARM:
            self._warm.pop(next(iter(self._warm))).worker.kill()
        return held


@contextmanager
def candidate_legs(
    problem: Problem, pool: Pool, candidate: Candidate, build: Build
) -> Iterator["CandidateLegs"]:
    """Hold the candidate's workers for one measurement; fresh ones each time."""
    legs = CandidateLegs(problem, pool, candidate, build)
    try:
        yield legs
    finally:
        legs.close()


class CandidateLegs:
    """The candidate's workers: one for each set of constructor arguments."""

    def __init__(self, problem: Problem, pool: Pool, candidate: Candidate, build: Build) -> None:
        self._problem, self._pool, self._candidate, self._build = problem, pool, candidate, build
        self._held: dict[str, Contestant] = {}

    def of(self, workload: Workload, deadline_s: float) -> Contestant:
        """Return the candidate's leg; raises `WorkerFailure` where it does not load."""
        init = self._problem.init_arguments(workload) if self._candidate.style == "module" else ()
        key = repr((init, [(s.name, s.shape, s.dtype) for s in workload.state]))
        if key not in self._held:
            payload = Payload(
                candidate=self._candidate,
                artefact=self._build.artefact,
                init=tuple(init),
                outputs=workload.outputs,
                mode=self._problem.task.contract.mode,
            )
            self._held[key] = Contestant(CANDIDATE, self._pool.worker(payload, deadline_s=deadline_s))
        return self._held[key]

    def close(self) -> None:
        """End every worker."""
        for held in self._held.values():
            held.worker.kill()
