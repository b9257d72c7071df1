"""Feature search and reinforcement: first correct, then fast, by the techniques that paid off.

Source: CUDA-LLM, "LLMs can write efficient CUDA kernels" (feature search and reinforcement).
"""

import math

from ...propose import Move, Reply
from ...records import BuildStatus, CheckStatus
from ..archives import Scored
from ._notes import words_of
from ._numbered import NumberedStrategy
from ._protocol import Means

FEATURES = (
    "wider vector loads and stores",
    "tiles staged in the fastest memory that holds them",
    "another split of the work over threads or blocks",
    "fewer passes over memory by fusing steps",
    "more independent operations in flight: unrolling, several accumulators",
    "cheaper arithmetic that is just as exact",
    "matrix or dot-product instructions",
    "no branch and no division in the inner loop",
)
"""Initial techniques; an editor may name others in its note `features`."""


class FeatureSearch(NumberedStrategy):
    """Draft and repair until a candidate is correct; then improve the best by one technique at a time.

    Among failures, the one that got furthest is repaired: one that builds before one that does not. Techniques are
    drawn by weight, which grows with the logarithm of every gain, shrinks with every failure, and never
    falls below `floor`.
    """

    def __init__(
        self, means: Means, *, attempts: int = 3, rate: float = 2.0, floor: float = 0.05, setback: float = 0.2
    ) -> None:
        """Start with equal weights for all techniques.

        Args:
            means: What may be requested.
            attempts: Repairs of one failure before a fresh draft.
            rate: Learning rate of the weights.
            floor: Least weight; the initial weight is 1.
            setback: Loss of log speedup that a failure counts as.
        """
        super().__init__(means)
        self.weights = dict.fromkeys(FEATURES, 1.0)
        self._attempts, self._rate, self._floor, self._setback = attempts, rate, floor, setback
        self._best: Scored | None = None
        self._nearest: Scored | None = None
        self._repairs = 0
        self._tried: dict[int, tuple[str, float]] = {}
        """By move: the technique, and the score before it."""

    def _next(self) -> Move | None:
        if self._best is None:
            if self._nearest is None or self._repairs >= self._attempts:
                self._nearest, self._repairs = None, 0
                return self.move("draft")
            self._repairs += 1
            return self.move("repair", self._nearest)
        feature = self.dice.choices(list(self.weights), list(self.weights.values()))[0]
        self._tried[self.asked] = feature, self._best.merit
        return self.move("improve", self._best, goal=f"Use {feature}.")

    def _listen(self, move: Move, reply: Reply) -> None:
        del move
        usual = sum(self.weights.values()) / len(self.weights)
        for feature in words_of(reply.notes, "features"):
            self.weights.setdefault(feature, usual)

    def _learn(self, found: Scored) -> None:
        if not found.works:
            if self._nearest is None or _progress(found) > _progress(self._nearest):
                self._nearest, self._repairs = found, 0
        elif self._best is None or found.merit > self._best.merit:
            self._best = found
        if found.move is not None and found.move.number in self._tried:
            feature, before = self._tried[found.move.number]
            gain = math.log(found.score / before) if found.score else -self._setback
            self.weights[feature] = max(self._floor, self.weights[feature] * math.exp(self._rate * gain))


def _progress(found: Scored) -> float:
    """Return how far a failure got: 0 if it did not build, else 1 plus the share of checks that it passed."""
    if found.evaluation.build.status is not BuildStatus.OK:
        return 0.0
    findings = found.evaluation.verdict.findings if found.evaluation.verdict else ()
    return 1 + sum(f.status is CheckStatus.PASS for f in findings) / max(1, len(findings))
