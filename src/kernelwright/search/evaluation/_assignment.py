"""Which accepted candidate serves which workload, and which candidate to try to accept next.

A workload is served by the accepted candidate that is fastest on it, or by the native op if none is faster.
So one package can hold several kernels, each guarded by the range of sizes it was accepted on.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, log

from ...records import DecisionStatus, Evaluation, Interval, VerdictStatus

_BETTER = 1.05
"""A second kernel must promise this many times the speedup of the kernel that already serves a workload."""


@dataclass(frozen=True)
class Finalist:
    """A candidate with the search workloads on which it promises a gain."""

    evaluation: Evaluation
    """What is known so far, usually its screening."""
    workloads: tuple[str, ...]
    """The workloads on which to accept it."""


@dataclass
class Finals:
    """The order of acceptance: next comes the candidate that promises the largest gain over what is already served.

    Like is compared with like: the screening of one candidate with the screening of another.
    """

    workloads: tuple[str, ...]
    waiting: dict[str, Evaluation] = field(default_factory=dict)
    served: dict[str, float] = field(default_factory=dict)
    """By workload: the speedup that its serving candidate showed in screening."""

    @classmethod
    def of(cls, evaluations: Iterable[Evaluation], workloads: Sequence[str]) -> "Finals":
        """Collect the candidates that may prove faster."""
        return cls(tuple(workloads), {e.candidate.key: e for e in evaluations if _is_hopeful(e)})

    def next(self) -> Finalist | None:
        """Return the most promising candidate, or None if none promises a gain."""
        finalists = [Finalist(e, self._gains(e)) for e in self.waiting.values()]
        chosen = max(finalists, key=self._worth, default=None)
        if chosen is None or not chosen.workloads:
            return None
        del self.waiting[chosen.evaluation.candidate.key]
        return chosen

    def nearest(self) -> Finalist | None:
        """Return the best of those not decided yet: where none promises a gain, that settles that there is none."""
        undecided = [e for e in self.waiting.values() if e.decision.status is DecisionStatus.INCONCLUSIVE]
        best = max(undecided, key=lambda e: overall(e, self.workloads), default=None)
        return Finalist(best, self.workloads) if best else None

    def settle(self, finalist: Finalist, final: Evaluation) -> None:
        """Record the result of an acceptance."""
        promised = speedups(finalist.evaluation, self.workloads)
        for name, speedup in speedups(final, self.workloads).items() if is_accepted(final) else ():
            if speedup > 1 and name in promised:
                self.served[name] = max(promised[name], self.served.get(name, 1.0))

    def _gains(self, evaluation: Evaluation) -> tuple[str, ...]:
        found = speedups(evaluation, self.workloads)
        return tuple(
            n for n, s in found.items() if s > self.served.get(n, 1.0) * (_BETTER if n in self.served else 1)
        )

    def _worth(self, finalist: Finalist) -> float:
        promised = speedups(finalist.evaluation, self.workloads)
        return sum(log(promised[n] / self.served.get(n, 1.0)) for n in finalist.workloads)


def is_accepted(evaluation: Evaluation) -> bool:
    """Whether a candidate went through full acceptance and was found faster."""
    return evaluation.stage == "full" and evaluation.decision.status is DecisionStatus.IMPROVED


def speedups(evaluation: Evaluation, workloads: Sequence[str]) -> dict[str, float]:
    """Return the speedup on each search workload on which the candidate was timed."""
    decision = evaluation.decision
    found = {w.workload: w.speedup.median for w in decision.workloads if w.workload in workloads}
    return found or ({name: decision.speedup.median for name in workloads} if decision.speedup else {})


def overall(evaluation: Evaluation, workloads: Sequence[str]) -> float:
    """Return the speedup over all search workloads; an untimed one stays native and counts as 1.

    Example:
        >>> from kernelwright.testing import PlantedJudge, PlantedLanguage, planted_candidate
        >>> candidate = planted_candidate({"small": 25.0})
        >>> found = PlantedJudge().screen(candidate, PlantedLanguage().build(candidate))
        >>> round(overall(found, ("small",)), 6), round(overall(found, ("small", "large")), 6)
        (4.0, 2.0)
    """
    found = speedups(evaluation, workloads)
    if len(found) == len(workloads) and evaluation.decision.speedup is not None:
        return evaluation.decision.speedup.median
    return exp(sum(map(log, found.values())) / len(workloads)) if found else 0.0


def serving(evaluations: Iterable[Evaluation], workloads: Sequence[str]) -> dict[str, Evaluation]:
    """Return the candidate that serves each search workload; native ones are left out."""
    chosen: dict[str, tuple[float, Evaluation]] = {}
    for evaluation in evaluations:
        for name, speedup in speedups(evaluation, workloads).items() if is_accepted(evaluation) else ():
            if speedup > max(1.0, chosen[name][0] if name in chosen else 1.0):
                chosen[name] = speedup, evaluation
    return {name: chosen[name][1] for name in workloads if name in chosen}


def served_speedup(served: Mapping[str, Evaluation], workloads: Sequence[str]) -> Interval:
    """Return the speedup of a package over all search workloads, native ones counted as 1.

    Limits of several kernels are combined as if all were at their limits at once, which is conservative.
    """
    first = served[next(iter(served))]
    if all(served.get(name) is first for name in workloads) and first.decision.speedup is not None:
        return first.decision.speedup
    intervals = [_interval_on(served[name], name) for name in served]
    lows, highs = [i.low for i in intervals], [i.high for i in intervals]
    return Interval(
        median=_mean([i.median for i in intervals], len(workloads)),
        low=None if None in lows else _mean([low for low in lows if low is not None], len(workloads)),
        high=None if None in highs else _mean([high for high in highs if high is not None], len(workloads)),
    )


def _interval_on(evaluation: Evaluation, name: str) -> Interval:
    decision = evaluation.decision
    found = next((w.speedup for w in decision.workloads if w.workload == name), decision.speedup)
    return found or Interval(median=1.0)


def _mean(ratios: Sequence[float], count: int) -> float:
    """Return the geometric mean of the ratios, padded with ones up to the count."""
    return exp(sum(map(log, ratios)) / count) if all(r > 0 for r in ratios) else 0.0


def _is_hopeful(evaluation: Evaluation) -> bool:
    return (
        evaluation.verdict is not None
        and evaluation.verdict.status is VerdictStatus.ACCEPTED
        and evaluation.decision.speedup is not None
        and evaluation.decision.status not in {DecisionStatus.REJECTED, DecisionStatus.UNKNOWN}
        and (evaluation.decision.status is not DecisionStatus.EQUAL or len(evaluation.decision.workloads) > 1)
        and (evaluation.stage != "full" or is_accepted(evaluation))
    )
