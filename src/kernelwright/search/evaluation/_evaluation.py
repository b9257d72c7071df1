"""Candidate → Evaluation: from the store if known, else from the judge and then stored."""

import time
from collections.abc import Callable, Mapping, Sequence

from ...languages import Language
from ...records import (
    Build,
    BuildStatus,
    Candidate,
    Counters,
    Decision,
    DecisionStatus,
    Evaluation,
    Run,
    Split,
    VerdictStatus,
)
from ...store import EvaluationKey, Store
from ..run._budget import Meter
from ..tuners._per_workload import TOGETHER
from ._assignment import overall, speedups
from ._protocol import Judge, Toolchain

Observe = Callable[[Candidate, Build], tuple[Counters, ...]]
"""Collects a candidate's performance counters; never raises for a fault of a tool or candidate."""


class Evaluator:
    """Evaluate candidates for one run; each is evaluated only once, ever, per device and toolchain.

    If counters were requested, a candidate that is the best so far after its screening is profiled too.
    """

    def __init__(
        self,
        run: Run,
        store: Store,
        judge: Judge,
        languages: Mapping[str, Language | Toolchain],
        meter: Meter,
        observe: Observe | None = None,
    ) -> None:
        self._run = run
        self._store = store
        self._judge = judge
        self._toolchains = {name: language.toolchain() for name, language in languages.items()}
        self._meter = meter
        self._observe = observe
        self.evaluations = {e.candidate.key: e for e in store.evaluations(run.id)}
        """By key: how far each candidate of the run went, in the order first seen."""
        self.workloads = tuple(w.name for w in store.task(run.task).split(Split.SEARCH))
        """Names of the search workloads."""

    def known(self, candidate: Candidate) -> Evaluation | None:
        """Return the evaluation from this run or an earlier one; the latter is linked to this run."""
        if candidate.key in self.evaluations:
            return self.evaluations[candidate.key]
        evaluation = self._store.lookup(self._key(candidate))
        if evaluation is not None:
            self._keep(evaluation.model_copy(update={"candidate": candidate}))
        return self.evaluations.get(candidate.key)

    def screen(self, candidate: Candidate, build: Build) -> Evaluation:
        """Verify and time a candidate on the search workloads, if it was built."""
        if build.status is not BuildStatus.OK:
            return self._keep(unbuilt(candidate, build))
        return self._keep(
            self._observed(self._judge.screen(candidate, build, deadline_s=self._meter.left_s()))
        )

    def precompute(self) -> None:
        """Let the judge compute the first candidate's expected values while it is being built."""
        self._judge.precompute()

    def vet(self, candidate: Candidate, build: Build) -> Evaluation:
        """Verify a screened candidate in full, untimed; its evaluation changes only if a check fails."""
        known = self.evaluations[candidate.key]
        if known.stage == "full" or build.status is not BuildStatus.OK:
            return known
        vetted = self._judge.vet(candidate, build, deadline_s=self._meter.left_s())
        if vetted.decision.status is DecisionStatus.REJECTED:
            return self._keep(vetted)
        self._meter.charge(vetted, again=True)
        return known

    def accept(self, candidate: Candidate, build: Build, workloads: Sequence[str] = ()) -> Evaluation:
        """Put a screened candidate through full acceptance, on all search workloads or some.

        For the correction it counts as selected from every timed candidate, once for each workload it might serve.
        If time ran out, it is returned with stage `screen` and not stored: its earlier evaluation stands.
        """
        known = self.evaluations.get(candidate.key)
        if known is not None and (known.stage == "full" or known.decision.status is DecisionStatus.REJECTED):
            return known
        if build.status is not BuildStatus.OK:
            return self._keep(unbuilt(candidate, build))
        timed = sum(e.decision.speedup is not None for e in self.evaluations.values())
        tried = max(1, timed) * (len(self.workloads) if workloads else 1)
        accepted = self._judge.accept(
            candidate, build, workloads=workloads, tried=tried, deadline_s=self._meter.left_s()
        )
        if accepted.stage == "screen" and known is not None:
            self._meter.charge(accepted, again=True)
            return accepted
        # However far it got, this was its last stage: it replaces the screening on disk.
        counters = known.counters if known is not None else ()
        return self._keep(accepted.model_copy(update={"stage": "full", "tried": tried, "counters": counters}))

    def widen(self, accepted: Evaluation) -> Evaluation:
        """Look at sizes around those of an accepted candidate, unless that was done; it may be refused there."""
        if "sizes" in accepted.stages_s or accepted.decision.status is not DecisionStatus.IMPROVED:
            return accepted
        widened = self._judge.widen(accepted, deadline_s=self._meter.left_s())
        if widened is accepted:
            return accepted
        self._record(widened)
        own = {stage: widened.stages_s[stage] for stage in widened.stages_s.keys() - accepted.stages_s.keys()}
        spent = {"device_s": widened.device_s - accepted.device_s, "stages_s": own}
        self._meter.charge(widened.model_copy(update=spent), again=True)
        return widened

    def _observed(self, evaluation: Evaluation) -> Evaluation:
        """Add profiler counters if it is the best so far."""
        if self._observe is None or not self._leads(evaluation):
            return evaluation
        begun = time.monotonic()
        counters = self._observe(evaluation.candidate, evaluation.build)
        stages = evaluation.stages_s | {"counters": time.monotonic() - begun}
        return evaluation.model_copy(update={"counters": counters, "stages_s": stages})

    def _leads(self, evaluation: Evaluation) -> bool:
        merits = (_merit(e, self.workloads) for e in self.evaluations.values())
        return _merit(evaluation, self.workloads) > max(merits, default=0.0)

    def _keep(self, evaluation: Evaluation) -> Evaluation:
        again = evaluation.candidate.key in self.evaluations
        self._record(evaluation)
        self._meter.charge(evaluation, again=again)
        return evaluation

    def _record(self, evaluation: Evaluation) -> None:
        key = self._key(evaluation.candidate)
        self._store.save_evaluation(self._run.id, key, evaluation, elapsed_s=self._meter.elapsed_s)
        self.evaluations[evaluation.candidate.key] = evaluation

    def _key(self, candidate: Candidate) -> EvaluationKey:
        return EvaluationKey(
            candidate=candidate.key,
            task=self._run.task,
            device=self._run.device,
            toolchain=self._toolchains[candidate.language],
            harness=self._judge.harness,
        )


def _merit(evaluation: Evaluation, workloads: Sequence[str]) -> float:
    rejected = evaluation.decision.status in {DecisionStatus.REJECTED, DecisionStatus.UNKNOWN}
    return overall(evaluation, workloads) if evaluation.decision.speedup and not rejected else 0.0


def costs_us(
    evaluation: Evaluation, reference_us: float, workloads: Sequence[str] = ()
) -> dict[str, float | None]:
    """Return the costs a tuner receives, for all search workloads together and for each. None if it did not work.

    For a paired measurement the cost is based on the ratio, in which machine drift cancels; `reference_us` converts
    it into a time on the machine as first measured. Of what nothing here can time it is the modelled time.
    """
    if evaluation.is_executed:
        return {TOGETHER: 1 / evaluation.executed_order}
    decision = evaluation.decision
    right = evaluation.verdict is not None and evaluation.verdict.status is VerdictStatus.ACCEPTED
    if not right or decision.status in {DecisionStatus.REJECTED, DecisionStatus.UNKNOWN}:
        return {TOGETHER: None}
    if decision.speedup is None or not reference_us:
        return {TOGETHER: decision.time_us or None}
    found = {TOGETHER: overall(evaluation, workloads), **speedups(evaluation, workloads)}
    return {focus: reference_us / speedup for focus, speedup in found.items()}


def failure_kind(evaluation: Evaluation) -> str | None:
    """Return the kind of failure to count it under, or None if the candidate works, as far as anything here can say.

    Example:
        >>> from kernelwright.records import Build, Candidate, Decision
        >>> failure_kind(Evaluation(
        ...     candidate=Candidate(sources=(), language="cpp", entry="k.cpp:k"), build=Build(status="failed"),
        ...     decision=Decision(candidate="", status="rejected", reason="")))
        'build-failed'
    """
    if evaluation.build.status is not BuildStatus.OK:
        return f"build-{evaluation.build.status}"
    if evaluation.is_executed:
        return None
    if evaluation.verdict is not None and evaluation.verdict.status is not VerdictStatus.ACCEPTED:
        return evaluation.verdict.failure or str(evaluation.verdict.status)
    if evaluation.decision.status in {DecisionStatus.REJECTED, DecisionStatus.UNKNOWN}:
        return (
            evaluation.decision.alarms[0] if evaluation.decision.alarms else str(evaluation.decision.status)
        )
    return None


def unbuilt(candidate: Candidate, build: Build) -> Evaluation:
    """Return the evaluation of a candidate that was not built, so that there is nothing to verify."""
    failed = build.status is BuildStatus.FAILED
    first = build.diagnostics.strip().splitlines()[0] if build.diagnostics.strip() else "no diagnostics"
    return Evaluation(
        candidate=candidate,
        build=build,
        decision=Decision(
            candidate=candidate.key,
            status=DecisionStatus.REJECTED if failed else DecisionStatus.UNKNOWN,
            reason=f"the build is {build.status}: {first}",
        ),
        stage="build",
        time_s=build.time_s,
        stages_s={"build": build.time_s},
    )
