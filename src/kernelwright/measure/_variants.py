"""Workers of the variants: fresh ones for the candidate, warm ones for the baselines."""

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from statistics import median

from torch import Tensor

from ..languages import get_language
from ..records import Build, Candidate, Variant, Workload
from ..sandbox import Payload, Pool, Worker, WorkerFailure
from ..tasks import Problem, fit_state, keeps_weights, superfluous
from ._startup import CANDIDATE

_LOAD_S = 180.0
_MOST_WARM = 16


class VariantWorker:
    """One variant on one workload: its worker, and evidence of what it loaded."""

    def __init__(self, name: str, worker: Worker) -> None:
        self.name, self.worker = name, worker
        self.first_call_us = 0.0
        self.kept: int | None = None
        """The seed of the weights that a baseline keeps; None before it has them, and for all other variants."""
        self.checked = False
        """Whether the judge has verified that it uses the weights that it keeps."""
        self.known_us: dict[bool, float] = {}
        """What a call took when calls per block were last chosen, by whether caches were cold."""
        self.warmed_us = 0.0
        """What the last call took that warmed it up."""
        self.most_calls = 1
        """The most calls that it has made in one request: its memory has grown for them."""
        self._prepared_us: list[float] = []

    def take(self, state: Mapping[str, Tensor], seed: int) -> None:
        """Take parameters and buffers, drawn with the seed, and pack them, outside the timed calls."""
        if keeps_weights(self.name):
            self.kept = seed
        if state:
            self.worker.set_state(state)
            self._prepared_us.append(self.worker.prepare())

    def record(self) -> Variant:
        """Return the evidence of what ran."""
        loaded = self.worker.loaded
        return Variant(
            name=self.name,
            content=loaded.content,
            symbol=loaded.symbol,
            worker=self.worker.pid,
            load_us=loaded.setup_us,
            prepare_us=median(self._prepared_us or [0.0]),
            first_call_us=self.first_call_us,
        )


class Baselines:
    """Baseline workers, kept warm across candidates; the least recently used is evicted first."""

    def __init__(self, problem: Problem, pool: Pool, names: tuple[str, ...]) -> None:
        self._problem, self._pool = problem, pool
        self._warm: dict[tuple[str, str], VariantWorker] = {}
        self.names = tuple(sorted(names, key=keeps_weights))
        """All requested baselines: first the one that every screening uses, last those that keep their weights."""
        self.notes: dict[tuple[str, str], str] = {}
        """Why a baseline is missing, by its name and the workload's."""

    def missing(self, workload: Workload, only: Collection[str] | None = None) -> list[str]:
        """Name those that are not running on the workload and are not known to fail."""
        return [
            name
            for name in self.names
            if (only is None or name in only)
            and (name, workload.name) not in self.notes
            and not self._is_warm((name, workload.name))
        ]

    def started(
        self, workload: Workload, end: float, only: Collection[str] | None = None
    ) -> list[VariantWorker]:
        """Start the missing ones, as far as time permits, and return them; none has been called yet."""
        found = [self._start(name, workload, end) for name in self.missing(workload, only)]
        return [variant for variant in found if variant is not None]

    def make_room(self, workloads: Sequence[Workload]) -> None:
        """Stop the least recently used, except those of these workloads."""
        used = {w.name for w in workloads}
        idle = [key for key in self._warm if key[1] not in used]
        for name, workload in idle[: max(0, len(self._warm) - _MOST_WARM)]:
            self._warm.pop((name, workload)).worker.kill()

    def of(self, workload: Workload, only: Collection[str] | None = None) -> list[VariantWorker]:
        """Return those running on the workload."""
        keys = [(name, workload.name) for name in self.names if only is None or name in only]
        for key in filter(self._is_warm, keys):
            self._warm[key] = self._warm.pop(key)
        return [self._warm[key] for key in keys if self._is_warm(key)]

    def drop(self, workload: Workload, name: str) -> None:
        """Stop one worker, so that the next use gets a fresh process."""
        held = self._warm.pop((name, workload.name), None)
        if held is not None:
            held.worker.kill()

    def give_up(self, workload: Workload, name: str, why: str) -> None:
        """Record that a baseline does not work on a workload."""
        self.drop(workload, name)
        self.notes[name, workload.name] = why

    def close(self) -> None:
        """Stop every worker."""
        for held in self._warm.values():
            held.worker.kill()
        self._warm.clear()

    def _is_warm(self, key: tuple[str, str]) -> bool:
        return key in self._warm and self._warm[key].worker.alive

    def _start(self, name: str, workload: Workload, end: float) -> VariantWorker | None:
        if why := superfluous(name, workload):
            self.notes[name, workload.name] = why
            return None
        left_s = min(_LOAD_S, end - time.monotonic())
        if left_s <= 0:
            return None
        candidate = self._problem.baseline(name, workload)
        build = get_language(candidate.language).build(candidate)
        payload = Payload.of(
            self._problem.task, workload, candidate, build,
            init=self._problem.init_arguments, device=self._pool.device,
        )  # fmt: skip
        try:
            variant = VariantWorker(
                name, self._pool.worker(replace(payload, trusted=True), deadline_s=left_s)
            )
        except WorkerFailure as failure:
            if time.monotonic() < end:
                self.notes[name, workload.name] = f"{failure.kind.value}: {failure.message}"
            return None
        self._warm[name, workload.name] = variant
        return variant


@contextmanager
def candidate_variants(
    problem: Problem, pool: Pool, candidate: Candidate, build: Build
) -> Iterator["CandidateVariants"]:
    """The candidate's workers for one measurement; fresh ones each time."""
    variants = CandidateVariants(problem, pool, candidate, build)
    try:
        yield variants
    finally:
        variants.close()


class CandidateVariants:
    """The candidate's workers: one per set of constructor arguments."""

    def __init__(self, problem: Problem, pool: Pool, candidate: Candidate, build: Build) -> None:
        self._problem, self._pool, self._candidate, self._build = problem, pool, candidate, build
        self._held: dict[str, VariantWorker] = {}

    def of(self, workload: Workload, deadline_s: float) -> VariantWorker:
        """Return the candidate's variant; raises `WorkerFailure` if it does not load."""
        payload = Payload.of(
            self._problem.task, workload, self._candidate, self._build,
            init=self._problem.init_arguments, device=self._pool.device,
        )  # fmt: skip
        key = repr((payload.init, [(s.name, s.shape, s.dtype) for s in workload.state]))
        if key not in self._held:
            worker = self._pool.worker(payload, deadline_s=deadline_s)
            self._held[key] = VariantWorker(CANDIDATE, worker)
            if payload.candidate.style == "module":
                fit_state(self._problem, workload, worker)
        return self._held[key]

    def close(self) -> None:
        """Stop every worker."""
        for held in self._held.values():
            held.worker.kill()
