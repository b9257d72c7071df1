"""The results of a run as its user sees them: result, judgement and standings."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import geometric_mean

from ...bound import headroom, sol_score
from ...records import (
    BuildStatus,
    CheckStatus,
    DecisionStatus,
    Evaluation,
    Finding,
    Interval,
    ModelledTime,
    Record,
    Run,
    Scalar,
    Split,
    StartUp,
    VerdictStatus,
    WorkloadDecision,
)  # fmt: skip
from ...tasks import caveat
from ..evaluation._assignment import served_speedup
from ..evaluation._size_ranges import told_sizes
from ..run._budget import Meter
from ._session import Outcome, fraction_of_bound
from ._summary import shorten

ON_HIDDEN = "on a hidden workload"
"""The only detail reported about a failure on a workload that the candidate must not know."""
_HIDDEN = frozenset({Split.HIDDEN.value, Split.CONFIRM.value})


class Result(Record):
    """The outcome of `optimize`: the decision, its confidence interval, and where the kernel is."""

    run: str
    """The run's id, for `show`, `report`, `export` and `resume`."""
    task: str
    """The task's name."""
    decision: DecisionStatus
    """`improved` if a candidate may replace the native op; else the best candidate's decision."""
    speedup: Interval | None
    """Over the faster baseline, geometric mean over the search workloads, native ones counted as 1. None if nothing
    was timed."""
    baseline: str | None
    """The faster baseline."""
    bound_us: float | None
    """The least time the device needs, geometric mean over the workloads that the kernel serves."""
    time_us: float | None
    """The kernel's or the best candidate's time, over the same workloads."""
    fraction_of_bound: float | None
    """`bound_us / time_us`."""
    kernel: str | None
    """Folder of the packaged kernel. None if nothing better was found."""
    evaluations: int
    """Candidates evaluated in this run."""
    cached: int
    """Candidates whose evaluation was known from an earlier run."""
    failures: dict[str, int]
    """Failures by kind."""
    usd: float = 0.0
    """Money spent on models, including what may have been billed."""
    start_up: StartUp | None = None
    """The best kernel's time to its first answer in a fresh process, and the baseline's."""
    reason: str = ""
    """Why nothing better was found, and who was asked if nothing was proposed; empty if something was found."""
    caveat: str = ""
    """What its owner must know of the baseline and of the gain; empty where there is nothing."""
    executed: str = ""
    """Key of the first candidate by a modelled time, if nothing was accepted and the best was executed, not timed."""
    modelled: tuple[ModelledTime, ...] = ()
    """Its modelled time on each search workload: an order among candidates, not a claim."""

    def line(self) -> str:
        """Return the result as one line of JSON."""
        return json.dumps({"event": "result", **self.model_dump(mode="json")})


class Standing(Record):
    """Times on one search workload: what serves it, the baseline and the bound."""

    workload: str
    """Its name."""
    kernel: str
    """Key of the candidate that serves it; empty if the native op stays."""
    time_us: float
    """The kernel's time, or the native op's."""
    baseline_us: float
    """The faster baseline's time."""
    bound_us: float
    """The least time the device needs; 0 if there is no bound."""
    warm_speedup: float | None = None
    """Median ratio with warm caches. None if the decision itself is based on warm caches."""
    speedup: float | None = None
    """Median ratio of paired blocks, which the decision is based on; None if the native op stays."""

    @property
    def ratio(self) -> float:
        """How many times faster than the baseline: by paired blocks where there are any, else by the times."""
        return self.speedup or self.baseline_us / self.time_us

    @property
    def sol_score(self) -> float:
        """1 at the bound, 0.5 at the baseline."""
        return sol_score(self.time_us, self.baseline_us, self.bound_us)

    @property
    def headroom(self) -> float:
        """How many times faster the device could be, at most."""
        return headroom(self.time_us, self.bound_us)


class Judgement(Record):
    """The outcome of `judge`: the findings, timing and decision of one candidate."""

    task: str
    """The task's name."""
    candidate: str
    """The candidate's key."""
    verdict: VerdictStatus
    """Whether it is correct and does not cheat."""
    findings: tuple[Finding, ...]
    """The result of each check; for hidden workloads only which check failed."""
    decision: DecisionStatus
    """Whether it is faster."""
    speedup: Interval | None
    """Over the faster baseline. None if it was not timed."""
    run: str
    """The run it belongs to, for `show`, `export`, and to judge more in it."""
    stage: str
    """How far it went: `build`, `verify`, `screen`, `full`; only `full` can be accepted."""
    reason: str
    """Why, in one sentence."""
    baseline: str | None
    """The faster baseline."""
    time_us: float | None
    """The candidate's time, geometric mean over the search workloads."""
    bound_us: float | None
    """The least time the device needs."""
    workloads: tuple[WorkloadDecision, ...]
    """The speedup by workload."""
    start_up: StartUp | None
    """What it takes to its first answer in a fresh process, against the baseline; none where it was not timed."""
    lost: str
    """Where the gain was lost when it was confirmed: how fast, and under another what; empty where it was not."""
    caveats: tuple[str, ...]
    """What its owner must know of a gain that was confirmed."""
    sizes: tuple[str, ...]
    """Ranges of sizes that it may serve in addition to those it was accepted on, and which were looked at in vain."""
    declined: tuple[str, ...]
    """Search workloads that it does not serve: it was not timed on them, and the native op would run there."""
    diagnostics: str
    """The compiler's messages if it did not build."""
    evidence: dict[str, Scalar]
    """Static facts of the build: registers, spills, vector width ..."""
    advice: tuple[str, ...]
    """Possible problems that the evidence shows."""
    modelled: tuple[ModelledTime, ...] = ()
    """Where its kernels are executed and not timed: a modelled time on each search workload; an order, not a claim."""

    def line(self, *, verbose: bool = False) -> str:
        """Return the judgement as one line of JSON: what an agent needs, or with `verbose` everything."""
        whole = self.model_dump(mode="json")
        return json.dumps({"event": "result", **(whole if verbose else shorten(whole))})


def judgement_of(run: Run, evaluation: Evaluation, workloads: Sequence[str]) -> Judgement:
    """Summarise one evaluation; a failed build is rejected, one that could not be attempted is unknown.

    `workloads` are the names of the search workloads.
    """
    verdict = evaluation.verdict
    if verdict is not None:
        findings, standing = verdict.findings, verdict.status
    else:
        failed = evaluation.build.status is BuildStatus.FAILED
        status = CheckStatus.FAIL if failed else CheckStatus.UNKNOWN
        findings = (Finding(check="build", status=status, message=evaluation.decision.reason),)
        standing = VerdictStatus.REJECTED if failed else VerdictStatus.UNKNOWN
    decision, build = evaluation.decision, evaluation.build
    return Judgement(
        run=run.id,
        task=run.task_name,
        candidate=evaluation.candidate.key,
        stage=evaluation.stage,
        verdict=standing,
        findings=tuple(map(_redacted, findings)),
        decision=decision.status,
        reason=_reason(decision.reason),
        speedup=decision.speedup,
        baseline=decision.baseline or None,
        time_us=decision.time_us or None,
        bound_us=decision.bound_us or None,
        workloads=_by_class(evaluation),
        lost=decision.lost,
        caveats=decision.caveats,
        sizes=tuple(line for opened in evaluation.sizes for line in told_sizes(opened)),
        start_up=decision.start_up,
        declined=tuple(name for name in workloads if verdict and name in verdict.unsupported),
        diagnostics="" if build.status is BuildStatus.OK else build.diagnostics,
        evidence=build.evidence,
        advice=build.findings,
        modelled=evaluation.modelled,
    )


def _by_class(evaluation: Evaluation) -> tuple[WorkloadDecision, ...]:
    """Call confirm workloads by what differs in them, not by the names that give their sizes and values away."""
    classes = evaluation.timing.classes if evaluation.timing else {}
    return tuple(
        w.model_copy(update={"workload": f"another {classes[w.workload]}"}) if w.workload in classes else w
        for w in evaluation.decision.workloads
    )


def _redacted(finding: Finding) -> Finding:
    """Leave out of a finding what could teach a candidate's author the hidden workloads."""
    if finding.status is CheckStatus.PASS:
        return finding.model_copy(update={"figures": {}})
    if finding.workload not in _HIDDEN:
        return finding
    return finding.model_copy(update={"message": ON_HIDDEN, "workload": "hidden", "figures": {}})


def _reason(reason: str) -> str:
    """Cut a reason off before it describes what was wrong on a hidden workload."""
    head, found, _ = reason.partition(ON_HIDDEN)
    return head + found


def standings(outcome: Outcome) -> tuple[Standing, ...]:
    """Return the standing of each search workload that was timed."""
    served, found = outcome.served, []
    for name in outcome.workloads:
        seen = [served[name]] if name in served else outcome.evaluations
        timed = [w for e in seen for w in e.decision.workloads if w.workload == name]
        for row in sorted(timed, key=lambda w: w.time_us)[:1]:
            kernel = served[name].candidate.key if name in served else ""
            found.append(
                Standing(
                    workload=name,
                    kernel=kernel,
                    time_us=row.time_us if kernel else row.baseline_us,
                    baseline_us=row.baseline_us,
                    bound_us=row.bound_us,
                    warm_speedup=row.warm_speedup if kernel else None,
                    speedup=row.speedup.median if kernel else None,
                )
            )
    return tuple(found)


def result_of(
    run: Run,
    outcome: Outcome,
    meter: Meter,
    kernel: str | None = None,
    said: Sequence[str] = (),
    cut: Sequence[str] = (),
) -> Result:
    """Summarise a run. Only what full acceptance accepted counts as improved.

    `said` holds the messages of proposers without proposals, and what was cut off when time was up; `cut` only the
    latter.
    """
    best, served = outcome.best, outcome.served
    decision = best.decision if best is not None else None
    status = decision.status if decision is not None else DecisionStatus.UNKNOWN
    if status is DecisionStatus.IMPROVED and not served:
        status = DecisionStatus.INCONCLUSIVE
    result = Result(
        run=run.id,
        task=run.task_name,
        decision=status,
        reason=_why(outcome, said, cut),
        speedup=decision.speedup if decision else None,
        baseline=decision.baseline or None if decision else None,
        bound_us=decision.bound_us or None if decision else None,
        time_us=decision.time_us or None if decision else None,
        start_up=decision.start_up if decision else None,
        fraction_of_bound=fraction_of_bound(best) if best else None,
        executed=best.candidate.key if best and best.is_executed else "",
        modelled=best.modelled if best and best.is_executed else (),
        kernel=kernel,
        evaluations=meter.evaluations,
        cached=meter.cached,
        failures=outcome.failures,
    )
    result = _of_package(result, served, outcome.workloads) if served else result
    known = [c for e in served.values() for c in e.decision.caveats]
    weights = best is None or best.timing is None or best.timing.weights
    words = dict.fromkeys(filter(None, (caveat(result.baseline or "") if weights else "", *known)))
    return result.model_copy(update={"caveat": "; ".join(words)})


def _why(outcome: Outcome, said: Sequence[str], cut: Sequence[str]) -> str:
    """Explain why a run found nothing better; empty if it did."""
    if outcome.served:
        return ""
    if outcome.best is not None and outcome.best.is_executed:
        return "; ".join((_of_executed(outcome.best, outcome.evaluations), *dict.fromkeys(cut)))
    if outcome.best is not None:
        unfinished = cut if outcome.best.stage != "full" else ()
        limit = [outcome.limit] if outcome.limit else []
        return "; ".join((_reason(outcome.best.decision.reason), *dict.fromkeys(unfinished), *limit))
    words = "; ".join(dict.fromkeys(said)) or f"stopped by {outcome.stopped_by}"
    return f"nothing was evaluated: {words}"


def _of_executed(best: Evaluation, evaluations: Sequence[Evaluation]) -> str:
    """Say what is known of the best candidate where none was timed."""
    right = sum(e.is_executed for e in evaluations)
    how = "verified in full" if best.stage == "full" else "verified on the search workloads alone"
    return (
        f"nothing here times {best.candidate.language}: its kernels were executed on the CPU; of {right} right "
        f"candidates {best.candidate.key}, {how}, is the first by a modelled time, which no device took"
    )


def _of_package(result: Result, served: Mapping[str, Evaluation], workloads: Sequence[str]) -> Result:
    """Return the result with the combined speedup and times of a package's kernels."""
    rows = [w for name, e in served.items() for w in e.decision.workloads if w.workload == name]
    times = _times(rows) if rows else {}
    return result.model_copy(update={"speedup": served_speedup(served, workloads), **times})


def _times(rows: Sequence[WorkloadDecision]) -> dict[str, object]:
    time_us = geometric_mean(w.time_us for w in rows)
    bound_us = geometric_mean(w.bound_us for w in rows) if all(w.bound_us for w in rows) else None
    return {
        "baseline": Counter(w.baseline for w in rows).most_common(1)[0][0],
        "time_us": time_us,
        "bound_us": bound_us,
        "fraction_of_bound": bound_us / time_us if bound_us else None,
    }
