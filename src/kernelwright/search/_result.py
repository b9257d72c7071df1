"""What a run gives back to its user."""

import json

from ..records import (
    BuildStatus,
    CheckStatus,
    DecisionStatus,
    Evaluation,
    Finding,
    Interval,
    Record,
    Run,
    VerdictStatus,
)  # fmt: skip
from ._budget import Meter
from ._session import Outcome, fraction_of_bound


class Result(Record):
    """The outcome of `optimize`: what was decided, how sure, and where the kernel is."""

    run: str
    """The run's id, for `show`, `report`, `export` and `resume`."""
    task: str
    """The task's name."""
    decision: DecisionStatus
    """`improved` where something may replace the native op; else the best candidate's decision."""
    speedup: Interval | None
    """Against the faster baseline, geometric mean over workloads; none where nothing was timed."""
    baseline: str | None
    """The faster baseline."""
    bound_us: float | None
    """The least time that the device needs."""
    time_us: float | None
    """The best candidate's time."""
    fraction_of_bound: float | None
    """`bound_us / time_us`."""
    kernel: str | None
    """Folder of the packaged kernel; none where nothing better was found."""
    evaluations: int
    """Candidates evaluated in this run."""
    cached: int
    """Candidates whose evaluation was known from an earlier run."""
    failures: dict[str, int]
    """Failures by kind."""

    def line(self) -> str:
        """Return the result as one line of JSON."""
        return json.dumps({"event": "result", **self.model_dump(mode="json")})


class Judgement(Record):
    """The outcome of `judge`: what is known of one candidate."""

    task: str
    """The task's name."""
    candidate: str
    """The candidate's key."""
    verdict: VerdictStatus
    """Whether it is right and honest."""
    findings: tuple[Finding, ...]
    """What each check found."""
    decision: DecisionStatus
    """Whether it is faster."""
    speedup: Interval | None
    """Against the faster baseline; none where it was not timed."""

    def line(self) -> str:
        """Return the judgement as one line of JSON."""
        return json.dumps({"event": "result", **self.model_dump(mode="json")})


def judgement_of(task_name: str, evaluation: Evaluation) -> Judgement:
    """Sum one evaluation up; what did not build is rejected, what could not be built is unknown."""
    verdict = evaluation.verdict
    if verdict is not None:
        findings, standing = verdict.findings, verdict.status
    else:
        failed = evaluation.build.status is BuildStatus.FAILED
        status = CheckStatus.FAIL if failed else CheckStatus.UNKNOWN
        findings = (Finding(check="build", status=status, message=evaluation.decision.reason),)
        standing = VerdictStatus.REJECTED if failed else VerdictStatus.UNKNOWN
    return Judgement(
        task=task_name,
        candidate=evaluation.candidate.key,
        verdict=standing,
        findings=findings,
        decision=evaluation.decision.status,
        speedup=evaluation.decision.speedup,
    )


def result_of(run: Run, outcome: Outcome, meter: Meter, kernel: str | None = None) -> Result:
    """Sum a run up. Nothing counts as improved that the full acceptance did not accept."""
    best = outcome.best
    decision = best.decision if best is not None else None
    status = decision.status if decision is not None else DecisionStatus.UNKNOWN
    if status is DecisionStatus.IMPROVED and not outcome.accepted:
        status = DecisionStatus.INCONCLUSIVE
    return Result(
        run=run.id,
        task=run.task_name,
        decision=status,
        speedup=decision.speedup if decision else None,
        baseline=decision.baseline or None if decision else None,
        bound_us=decision.bound_us or None if decision else None,
        time_us=decision.time_us or None if decision else None,
        fraction_of_bound=fraction_of_bound(best) if best else None,
        kernel=kernel,
        evaluations=meter.evaluations,
        cached=meter.cached,
        failures=outcome.failures,
    )
