"""One run: proposals → builds → screening, then the acceptance of the best, within the budget."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import exp, log

from pydantic import JsonValue

from ...measure import FIRST_LOOK
from ...records import CheckStatus, DecisionStatus, Evaluation, RunStatus
from ...verify import ADMISSION
from ..evaluation._assignment import Finalist, Finals, is_accepted, overall, serving, speedups
from ..evaluation._evaluation import Evaluator, costs_us, failure_kind
from ..proposals._builder import Builder
from ..proposals._remote_builder import RemoteBuilder
from ..proposals._scheduler import Scheduler, Trial
from ..run._budget import Meter
from ._limit import AT_LIMIT, at_limit

Say = Callable[..., None]
"""`emit(event, **data)`: report an event."""

_MOST_FINALISTS = 6
_CLEARLY = 1.05
"""Speedup over the best so far that exceeds the error of a screening."""
_VETTINGS = 12
"""Time must be left for this many screening verifications before a candidate is verified in full: that takes about as
long as three of them, and should use at most a quarter of the time."""
INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run."""

    best: Evaluation | None
    """The accepted candidate, else the best found. None if nothing was evaluated."""
    evaluations: tuple[Evaluation, ...]
    """Every candidate, as far as it got."""
    stopped_by: str
    """The budget that was used up, `nothing left to try`, or `interrupted`."""
    failures: dict[str, int]
    """Failures by kind."""
    workloads: tuple[str, ...] = ()
    """Names of the search workloads."""
    limit: str = ""
    """That the device allows no more, where the search ended with that."""
    interrupt: KeyboardInterrupt | None = None
    """What interrupted it, to be raised again once the results are stored."""

    @classmethod
    def of(
        cls, evaluations: tuple[Evaluation, ...], stopped_by: str, workloads: tuple[str, ...]
    ) -> "Outcome":
        """Summarise the evaluations so far."""
        kinds = Counter(kind for e in evaluations if (kind := failure_kind(e)) is not None)
        best = best_of(evaluations, workloads)
        return cls(best, evaluations, stopped_by, dict(sorted(kinds.items())), workloads)

    @property
    def served(self) -> dict[str, Evaluation]:
        """The evaluation that serves each search workload instead of the native op."""
        return serving(self.evaluations, self.workloads)

    @property
    def status(self) -> RunStatus:
        """The run's status afterwards."""
        return RunStatus.INTERRUPTED if self.stopped_by == INTERRUPTED else RunStatus.FINISHED

    @property
    def accepted(self) -> bool:
        """Whether a candidate replaces the native op on some workload."""
        return bool(self.served)


class Session:
    """Explore within the budget, then accept the best; every step is on disk before the next begins."""

    def __init__(
        self,
        scheduler: Scheduler,
        builder: Builder | RemoteBuilder,
        evaluator: Evaluator,
        meter: Meter,
        emit: Say,
    ) -> None:
        self._scheduler = scheduler
        self._builder = builder
        self._evaluator = evaluator
        self._meter = meter
        self._say = emit
        self._reference_us = 0.0
        self._stopped_by = ""
        self._told = 0
        self._limit_reached = ""
        known = evaluator.evaluations.values()
        self._best = best_of(tuple(known), evaluator.workloads)
        self._meter.promising = any(_promises(e, evaluator.workloads) for e in known)
        self._failing = {e.candidate.key: kind for e in known if (kind := failure_kind(e)) is not None}

    def run(self) -> Outcome:
        """Run to the end of the budget or of the proposals; an interrupt ends it early and keeps all results."""
        try:
            try:
                self._explore()
            finally:
                self._scheduler.stop()
            done = {"evaluations": self._meter.evaluations, "stages_s": dict(self._meter.stages_s)}
            self._say("explored", stopped_by=self._stopped_by, **done)
            self._conclude()
        except KeyboardInterrupt as interrupt:
            self._stopped_by = INTERRUPTED
            return replace(self.outcome(), interrupt=interrupt)
        return self.outcome()

    def outcome(self) -> Outcome:
        """Return the outcome so far."""
        evaluations = tuple(self._evaluator.evaluations.values())
        outcome = Outcome.of(evaluations, self._stopped_by, self._evaluator.workloads)
        return replace(outcome, limit=self._limit_reached)

    def _explore(self) -> None:
        self._meter.explore()
        while not self._at_limit():
            while self._builder.hungry and not self._over():
                trial = self._scheduler.ask(idle=not len(self._builder))
                if trial is None:
                    break
                self._builder.give(trial, known=self._evaluator.known(trial.candidate) is not None)
            if not len(self._builder) or self._meter.over(reserve=True, built=True):
                break
            if self._builder.building and not self._told:
                self._evaluator.precompute()
            self._evaluate()
        if self._limit_reached:
            self._say("limit", message=self._limit_reached)
        ended = AT_LIMIT if self._limit_reached else self._meter.over(reserve=True)
        self._stopped_by = ended or "nothing left to try"

    def _at_limit(self) -> bool:
        """Return whether the device allows no more; kernels on whose times that stands are verified in full first.

        A search that is to make so many evaluations makes them all, as it may be compared with others that do.
        """
        if self._meter.budget.evaluations is not None:
            return False
        known, verified = self._evaluator.evaluations, set[str]()
        while found := at_limit((e.decision for e in known.values()), self._evaluator.workloads):
            unproven = [known[key].candidate for key in found.kernels if key not in verified]
            if not unproven:
                self._limit_reached = found.message
                return True
            for candidate in unproven:
                verified.add(candidate.key)
                self._evaluator.vet(candidate, self._builder.build(candidate))
        return False

    def _over(self) -> bool:
        """Return whether the budget ends with the trials already being built."""
        most = self._meter.budget.evaluations
        planned = self._meter.evaluations + self._builder.building
        return bool(self._meter.over(reserve=True)) or (most is not None and planned >= most)

    def _evaluate(self) -> None:
        trial, build = self._builder.take()
        evaluation = self._evaluator.evaluations.get(trial.candidate.key)
        if evaluation is None:
            evaluation = self._evaluator.screen(
                trial.candidate, build or self._builder.build(trial.candidate)
            )
        self._reference_us = self._reference_us or _baseline_us(evaluation)
        self._meter.promising |= _promises(evaluation, self._evaluator.workloads)
        evaluation = self._vetted(trial, evaluation)
        workloads = self._evaluator.workloads
        self._scheduler.tell(trial, evaluation, costs_us(evaluation, self._reference_us, workloads))
        self._told += 1
        self._note(evaluation)
        self._say("evaluation", **self._progress(trial, evaluation))

    def _note(self, evaluation: Evaluation) -> None:
        """Update the best and the failures incrementally."""
        key, kind = evaluation.candidate.key, failure_kind(evaluation)
        self._failing.pop(key, None)
        if kind is not None:
            self._failing[key] = kind
        if self._best is None or self._best.candidate.key == key:
            self._best = self.outcome().best
        else:
            self._best = best_of((self._best, evaluation), self._evaluator.workloads)

    def _vetted(self, trial: Trial, evaluation: Evaluation) -> Evaluation:
        """Verify a template's first good candidate in full, before more is spent on the template.

        A candidate hardly better than the best so far is left to the acceptance: verifying each of many similar
        templates would use the time that the best of them needs there. So are all if verifying takes long.
        """
        arm, speedup, meter = trial.arm, evaluation.decision.speedup, self._meter
        if arm is None or arm.vetted or speedup is None or speedup.median <= self._worth_vetting():
            return evaluation
        if meter.left_to_explore_s() < _VETTINGS * meter.longest_verify_s:
            return evaluation
        vetted = self._evaluator.vet(trial.candidate, self._builder.build(trial.candidate))
        arm.vetted = vetted.decision.status is not DecisionStatus.REJECTED
        return vetted

    def _worth_vetting(self) -> float:
        """Return the speedup above which a candidate is verified in full during exploration."""
        best = self._best.decision.speedup if self._best else None
        return max(1.0, _CLEARLY * best.median) if best else 1.0

    def _conclude(self) -> None:
        """Accept the best for all search workloads together, then candidates that are better on some of them.

        If none promises a gain, the best is still measured in full, so that the run ends with a decision.
        """
        finals = Finals.of(self._evaluator.evaluations.values(), self._evaluator.workloads)
        least_s = 0.0
        for rank in range(1, _MOST_FINALISTS + len(finals.workloads)):
            finalist = finals.next() or (finals.nearest() if rank == 1 else None)
            if finalist is None:
                break
            if self._meter.over() or self._meter.left_s() < least_s:
                self._say("budget", message=f"no budget left to accept {1 + len(finals.waiting)} finalists")
                return
            final = self._accept(finalist, rank, of=rank + len(finals.waiting))
            least_s = max(least_s, _least_s(final))
            if final.stage != "full":
                message = f"time was up before {final.candidate.key} was confirmed"
                self._say("budget", message=message)
                return
            if fault := _fault_of_the_task(final):
                self._say(
                    "budget",
                    message=f"{fault}: none of its kernels can be accepted; see `kernelwright admit`",
                )
                return
            finals.settle(finalist, final)
        self._conclude_executed()

    def _conclude_executed(self) -> None:
        """Verify in full what is executed, not timed, in the order of the model, until one stands."""
        best = self.outcome().best
        if best is None or not best.is_executed:
            return
        executed = [e for e in self._evaluator.evaluations.values() if e.is_executed]
        for evaluation in sorted(executed, key=lambda e: -e.executed_order)[:_MOST_FINALISTS]:
            if self._meter.over():
                self._say("budget", message=f"no budget left to verify {evaluation.candidate.key} in full")
                return
            final = self._evaluator.accept(evaluation.candidate, self._builder.build(evaluation.candidate))
            told = final.modelled[0].interval if final.is_executed else final.decision.reason
            self._say("executed", candidate=final.candidate.key, message=f"{final.candidate.key}: {told}")
            if final.is_executed:
                return

    def _accept(self, finalist: Finalist, rank: int, of: int) -> Evaluation:
        candidate, workloads = finalist.evaluation.candidate, finalist.workloads
        place = {"candidate": candidate.key, "rank": rank, "of": of, "workloads": list(workloads)}
        self._say("accept", **place, speedup=speedup_of(finalist.evaluation))
        final = self._evaluator.accept(candidate, self._builder.build(candidate), workloads)
        if final.stage == "full":
            final = self._evaluator.widen(final)
        decision = final.decision
        outcome = {"decision": decision.status, "reason": decision.reason, "speedup": speedup_of(final)}
        if final.stage == "full":
            event = "accepted" if is_accepted(final) else "not-accepted"
            self._say(event, candidate=candidate.key, **outcome)
        return final

    def _progress(self, trial: Trial, evaluation: Evaluation) -> dict[str, JsonValue]:
        decision, best = evaluation.decision, self._best
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
            "modelled": [m.interval for m in evaluation.modelled],
            "best": speedup_of(best) if best else None,
            "fraction_of_bound": fraction_of_bound(best) if best else None,
            "failures": dict(sorted(Counter(self._failing.values()).items())),
            "eta_s": self._meter.eta_s(),
        }


def _least_s(final: Evaluation) -> float:
    """Return the seconds in which another may be decided: as many as this one took, timed to the first looks alone."""
    blocks = final.timing.blocks if final.timing else ()
    spared_s = 0.0
    for phase in ("measure", "confirm"):
        timed = Counter(block.workload for block in blocks if block.phase == phase)
        rounds = max(timed.values(), default=0)
        spared_s += final.stages_s.get(phase, 0.0) * max(0.0, 1 - FIRST_LOOK / max(1, rounds))
    return final.time_s - spared_s


def _fault_of_the_task(final: Evaluation) -> str:
    """Return why no candidate can be accepted, where wrong answers would pass the checks; empty where none would."""
    findings = final.verdict.findings if final.verdict else ()
    return next((f.message for f in findings if f.check == ADMISSION and f.status is CheckStatus.UNKNOWN), "")


def _promises(evaluation: Evaluation, workloads: tuple[str, ...]) -> bool:
    """Return whether a candidate may prove faster somewhere, so that it is worth an acceptance."""
    works = evaluation.decision.status not in {DecisionStatus.REJECTED, DecisionStatus.UNKNOWN}
    return works and any(speedup > 1 for speedup in speedups(evaluation, workloads).values())


def best_of(evaluations: tuple[Evaluation, ...], workloads: tuple[str, ...] = ()) -> Evaluation | None:
    """Return the best accepted candidate if there is one, else the best known, by a modelled time if need be."""
    return max(evaluations, key=lambda e: _merit(e, workloads), default=None)


def speedup_of(evaluation: Evaluation) -> dict[str, JsonValue] | None:
    """Return the speedup and its limits as JSON, or None if nothing was timed."""
    speedup = evaluation.decision.speedup
    return None if speedup is None else {"median": speedup.median, "low": speedup.low, "high": speedup.high}


def fraction_of_bound(evaluation: Evaluation) -> float | None:
    """Return the bound divided by the time; 1 is the least possible time."""
    decision = evaluation.decision
    return decision.bound_us / decision.time_us if decision.time_us and decision.bound_us else None


def _merit(evaluation: Evaluation, workloads: tuple[str, ...]) -> tuple[bool, bool, bool, bool, float, float]:
    """Rank an evaluation: what was accepted, what may prove faster, what was decided in full, then the rest."""
    status, speedup = evaluation.decision.status, evaluation.decision.speedup
    works = status not in {DecisionStatus.REJECTED, DecisionStatus.UNKNOWN}
    gain = overall(evaluation, workloads) if speedup else 0.0
    full = evaluation.stage == "full"
    return is_accepted(evaluation), works, gain > 1 and not full, full, gain, evaluation.executed_order


def _baseline_us(evaluation: Evaluation) -> float:
    times = [w.baseline_us for w in evaluation.decision.workloads if w.baseline_us > 0]
    return exp(sum(map(log, times)) / len(times)) if times else 0.0
