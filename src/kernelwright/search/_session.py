"""One run: proposals → builds → screening, then the acceptance of the best, within the budget."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import exp, log

from pydantic import JsonValue

from ..records import DecisionStatus, Evaluation, RunStatus, VerdictStatus
from ._budget import Meter
from ._builder import Builder
from ._evaluation import Evaluator, cost_us, failure_kind
from ._scheduler import Scheduler, Trial

Say = Callable[..., None]
"""`say(event, **data)`: report an event."""

_MOST_FINALISTS = 6
INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class Outcome:
    """What a run came to."""

    best: Evaluation | None
    """The accepted candidate, else the best that was found; none where nothing was evaluated."""
    evaluations: tuple[Evaluation, ...]
    """Every candidate, as far as it went."""
    stopped_by: str
    """The budget that was used up, `nothing left to try`, or `interrupted`."""
    failures: dict[str, int]
    """Failures by kind."""

    @property
    def status(self) -> RunStatus:
        """How the run stands after it."""
        return RunStatus.INTERRUPTED if self.stopped_by == INTERRUPTED else RunStatus.FINISHED

    @property
    def accepted(self) -> bool:
        """Whether the best replaces the native op."""
        return self.best is not None and is_accepted(self.best)


class Session:
    """Explore within the budget, then accept the best; every step is on disk before the next begins."""

    def __init__(
        self, scheduler: Scheduler, builder: Builder, evaluator: Evaluator, meter: Meter, say: Say
    ) -> None:
        self._scheduler = scheduler
        self._builder = builder
        self._evaluator = evaluator
        self._meter = meter
        self._say = say
        self._reference_us = 0.0
        self._stopped_by = ""
        self._told = 0

    def run(self) -> Outcome:
        """Run to the end of the budget or of the proposals; an interrupt ends it early, keeping all."""
        try:
            self._explore()
            self._say("explored", stopped_by=self._stopped_by, evaluations=self._meter.evaluations)
            self._conclude()
        except KeyboardInterrupt:
            self._stopped_by = INTERRUPTED
        return self.outcome()

    def outcome(self) -> Outcome:
        """Return what there is so far."""
        evaluations = tuple(self._evaluator.evaluations.values())
        kinds = Counter(kind for e in evaluations if (kind := failure_kind(e)) is not None)
        return Outcome(best_of(evaluations), evaluations, self._stopped_by, dict(sorted(kinds.items())))

    def _explore(self) -> None:
        exhausted = False
        while True:
            while self._builder.hungry and not exhausted and not self._over():
                trial = self._scheduler.ask()
                exhausted = trial is None
                if trial is not None:
                    self._builder.give(trial, known=self._evaluator.known(trial.candidate) is not None)
            if not len(self._builder) or self._meter.over(reserve=True):
                break
            self._evaluate()
        self._stopped_by = self._meter.over(reserve=True) or "nothing left to try"

    def _over(self) -> bool:
        """Tell whether the budget ends with what is being built already."""
        most = self._meter.budget.evaluations
        planned = self._meter.evaluations + self._builder.building
        return bool(self._meter.over(reserve=True)) or (most is not None and planned >= most)

    def _evaluate(self) -> None:
        trial, build = self._builder.take()
        evaluation = self._evaluator.known(trial.candidate)
        if evaluation is None:
            evaluation = self._evaluator.screen(
                trial.candidate, build or self._builder.build(trial.candidate)
            )
        self._reference_us = self._reference_us or _baseline_us(evaluation)
        evaluation = self._vetted(trial, evaluation)
        self._scheduler.tell(trial, evaluation, cost_us(evaluation, self._reference_us))
        self._told += 1
        self._say("evaluation", **self._progress(trial, evaluation))

    def _vetted(self, trial: Trial, evaluation: Evaluation) -> Evaluation:
        """Verify a template's first good candidate in full, before more is spent on the template."""
        arm, speedup = trial.arm, evaluation.decision.speedup
        if arm is None or arm.vetted or speedup is None or speedup.median <= 1:
            return evaluation
        vetted = self._evaluator.vet(trial.candidate, self._builder.build(trial.candidate))
        arm.vetted = vetted.decision.status is not DecisionStatus.REJECTED
        return vetted

    def _conclude(self) -> None:
        finalists = _finalists(self._evaluator.evaluations.values())[:_MOST_FINALISTS]
        longest_s = 0.0
        for rank, evaluation in enumerate(finalists, start=1):
            if self._meter.over() or self._meter.left_s() < longest_s:
                left = len(finalists) - rank + 1
                self._say("budget", message=f"no budget left to accept {left} of {len(finalists)} finalists")
                return
            candidate = evaluation.candidate
            place = {"candidate": candidate.key, "rank": rank, "of": len(finalists)}
            self._say("accept", **place, speedup=speedup_of(evaluation))
            final = self._evaluator.accept(candidate, self._builder.build(candidate))
            longest_s = max(longest_s, final.time_s)
            decision = final.decision
            if final.stage != "full":
                self._say("budget", message=f"time was up before {candidate.key} was confirmed")
                return
            outcome = {"decision": decision.status, "reason": decision.reason, "speedup": speedup_of(final)}
            if is_accepted(final):
                self._say("accepted", candidate=candidate.key, **outcome)
                return
            self._say("not-accepted", candidate=candidate.key, **outcome)

    def _progress(self, trial: Trial, evaluation: Evaluation) -> dict[str, JsonValue]:
        decision, outcome = evaluation.decision, self.outcome()
        return {
            "number": self._told,
            "evaluations": self._meter.evaluations,
            "cached": evaluation.cached,
            "candidate": evaluation.candidate.key,
            "language": evaluation.candidate.language,
            "proposer": evaluation.candidate.proposer,
            "template": trial.arm.template.name if trial.arm else evaluation.candidate.template,
            "parameters": dict(trial.configuration) or dict(evaluation.candidate.parameters),
            "decision": decision.status,
            "reason": decision.reason,
            "speedup": speedup_of(evaluation),
            "time_us": decision.time_us or None,
            "best": speedup_of(outcome.best) if outcome.best else None,
            "fraction_of_bound": fraction_of_bound(outcome.best) if outcome.best else None,
            "failures": dict(outcome.failures),
            "eta_s": self._meter.eta_s(),
        }


def is_accepted(evaluation: Evaluation) -> bool:
    """Whether a candidate went through the whole of the acceptance and came out faster."""
    return evaluation.stage == "full" and evaluation.decision.status is DecisionStatus.IMPROVED


def best_of(evaluations: tuple[Evaluation, ...]) -> Evaluation | None:
    """Return the accepted candidate if there is one, else the best as far as is known."""
    return max(evaluations, key=_merit, default=None)


def speedup_of(evaluation: Evaluation) -> dict[str, JsonValue] | None:
    """Return the speedup and its limits as JSON, or none where nothing was timed."""
    speedup = evaluation.decision.speedup
    return None if speedup is None else {"median": speedup.median, "low": speedup.low, "high": speedup.high}


def fraction_of_bound(evaluation: Evaluation) -> float | None:
    """Return the bound over the time: 1 is the least time physics allows."""
    decision = evaluation.decision
    return decision.bound_us / decision.time_us if decision.time_us and decision.bound_us else None


def _merit(evaluation: Evaluation) -> tuple[bool, bool, float]:
    status, speedup = evaluation.decision.status, evaluation.decision.speedup
    works = status not in {DecisionStatus.REJECTED, DecisionStatus.UNKNOWN}
    return is_accepted(evaluation), works, speedup.median if speedup else 0.0


def _finalists(evaluations: Iterable[Evaluation]) -> list[Evaluation]:
    """Return what may prove faster, best first."""
    hopeful = [
        e
        for e in evaluations
        if e.verdict is not None
        and e.verdict.status is VerdictStatus.ACCEPTED
        and e.decision.status in {DecisionStatus.IMPROVED, DecisionStatus.INCONCLUSIVE}
        and e.decision.speedup is not None
        and e.decision.speedup.median > 1
        and (e.stage != "full" or is_accepted(e))
    ]
    return sorted(hopeful, key=_merit, reverse=True)


def _baseline_us(evaluation: Evaluation) -> float:
    times = [w.baseline_us for w in evaluation.decision.workloads if w.baseline_us > 0]
    return exp(sum(map(log, times)) / len(times)) if times else 0.0
