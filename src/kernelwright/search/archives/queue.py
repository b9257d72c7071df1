"""A priority queue over a net: nothing in it is closer to another than ε."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median

from ...records import Evaluation
from ._scored import Scored

Distance = Callable[[Evaluation, Evaluation], float]
"""From 0 (the same) to 1 (nothing in common)."""

_WORDS = re.compile(r"\w+|[^\w\s]")
_SHINGLE = 3


@dataclass(eq=False)
class Ball:
    """One centre of the net with all that was seen within ε of it."""

    centre: Scored
    """The best of the ball: what is edited."""
    scores: list[float] = field(default_factory=list)
    """Every score seen in the ball; failures are left out."""
    edits: int = 0
    """How often the centre was chosen."""

    @property
    def score(self) -> float:
        """The median of the best half: one lucky measurement does not carry it, one unlucky does not sink it."""
        best = sorted(self.scores, reverse=True)
        return median(best[: (len(best) + 1) // 2]) if best else 0.0


class NetQueue:
    """Balls of radius ε around candidates that differ, in order of priority.

    What falls into a ball shares its statistics, so that noise averages out over near-copies and the queue
    does not fill up with them.

    Source: POLCA, "Stochastic generative optimization with LLM", priority queue and ε-net.
    """

    def __init__(self, epsilon: float, distance: Distance) -> None:
        self._epsilon = epsilon
        self._distance = distance
        self._balls: list[Ball] = []

    def __len__(self) -> int:
        return len(self._balls)

    def add(self, found: Scored) -> Ball | None:
        """Put a candidate into the nearest ball within ε, or begin a ball; a failure does neither."""
        if found.score is None:
            return None
        ball = self._nearest(found)
        if ball is None:
            ball = Ball(found)
            self._balls.append(ball)
        ball.scores.append(found.score)
        if found.score > ball.centre.merit:
            ball.centre = found
        return ball

    def by_priority(self, weight: float) -> list[Ball]:
        """Return the balls, the one to edit first in front; each edit costs `weight` of a score's share."""
        return sorted(self._balls, key=lambda ball: -ball.score / (1 + weight * ball.edits))

    def _nearest(self, found: Scored) -> Ball | None:
        distances = [self._distance(ball.centre.evaluation, found.evaluation) for ball in self._balls]
        nearest = min(range(len(distances)), key=distances.__getitem__, default=None)
        if nearest is None or distances[nearest] > self._epsilon:
            return None
        return self._balls[nearest]


def source_distance(one: Evaluation, other: Evaluation) -> float:
    """Return one less the Jaccard index of the runs of three words in two candidates' sources.

    Example:
        >>> from kernelwright.testing import PlantedJudge, PlantedLanguage, planted_candidate
        >>> judge, build = PlantedJudge(), PlantedLanguage().build
        >>> same = [judge.screen(c, build(c)) for c in [planted_candidate(5.0, parameters={"a": 1})] * 2]
        >>> source_distance(*same)
        0.0
    """
    first, second = _shingles(one), _shingles(other)
    together = len(first | second)
    return 1 - len(first & second) / together if together else 0.0


def _shingles(evaluation: Evaluation) -> set[tuple[str, ...]]:
    words = _WORDS.findall("\n".join(s.text for s in evaluation.candidate.sources))
    return {tuple(words[i : i + _SHINGLE]) for i in range(max(1, len(words) - _SHINGLE + 1))}
