"""What a strategy learns about one candidate: its evaluation, score and noise."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ...propose import Move
from ...records import DecisionStatus, Evaluation, VerdictStatus
from ..evaluation._assignment import overall

_FAILED = frozenset({DecisionStatus.REJECTED, DecisionStatus.UNKNOWN})


@dataclass(frozen=True)
class Scored:
    """A candidate with its score and the move that made it."""

    evaluation: Evaluation
    """Its build, verdict, timing and decision, as far as it went."""
    score: float | None
    """Speedup over the fastest baseline, higher is better; of what was executed and cannot be timed here, one over its
    modelled microseconds, an order and no speedup. None if it did not build, verify or run."""
    move: Move | None = None
    """The move that made it. None for the candidates that a proposer started with."""
    spread: float = 0.0
    """Half the width of the score's confidence interval: how noisy it is."""

    @classmethod
    def of(cls, evaluation: Evaluation, move: Move | None = None, workloads: Sequence[str] = ()) -> "Scored":
        """Score an evaluation: its speedup over all search workloads if it was verified and timed, or its order."""
        if evaluation.is_executed:
            return cls(evaluation, evaluation.executed_order, move)
        decision, verdict = evaluation.decision, evaluation.verdict
        speedup = decision.speedup
        right = verdict is not None and verdict.status is VerdictStatus.ACCEPTED
        if speedup is None or not right or decision.status in _FAILED:
            return cls(evaluation, None, move)
        known = speedup.low is not None and speedup.high is not None
        spread = (speedup.at_most - speedup.at_least) / 2 if known else 0.0
        return cls(evaluation, overall(evaluation, workloads), move, spread)

    @cached_property
    def key(self) -> str:
        """The candidate's key."""
        return self.evaluation.candidate.key

    @property
    def works(self) -> bool:
        """Whether it has a score."""
        return self.score is not None

    @property
    def told(self) -> str:
        """The score in words, or why there is none."""
        if self.evaluation.is_executed:
            return "; ".join(made.interval for made in self.evaluation.modelled)
        return f"{self.score:.2f} times native" if self.score is not None else self.evaluation.decision.reason

    @property
    def merit(self) -> float:
        """The score as a sort key: a failure sorts below every score."""
        return float("-inf") if self.score is None else self.score

    @cached_property
    def family(self) -> str:
        """The family it belongs to: itself, or the template that one move returned and a tuner explores."""
        template = self.evaluation.candidate.template
        if template is None:
            return self.key
        return f"{template} of {'the start' if self.move is None else self.move.number}"
