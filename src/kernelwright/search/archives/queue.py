"""A priority queue over an ε-net: no two centres are closer than ε."""

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
    """One centre of the net and everything seen within ε of it."""

    centre: Scored
    """The best of the ball; this is what gets edited."""
    scores: list[float] = field(default_factory=list)
    """Every score seen in the ball; failures are left out."""
    edits: int = 0
    """How often the centre has been chosen."""

    @property
    def score(self) -> float:
        """The median of the best half, so that one lucky or unlucky measurement does not decide it."""
        best = sorted(self.scores, reverse=True)
        return median(best[: (len(best) + 1) // 2]) if best else 0.0


class NetQueue:
    """Balls of radius ε around distinct candidates, in order of priority.

    Candidates in one ball share statistics, so noise averages out over near-copies and they do not fill the
    queue.

    Source: POLCA, "Stochastic generative optimization with LLM", priority queue and ε-net.
    """

    def __init__(self, epsilon: float, distance: Distance) -> None:
        self._epsilon = epsilon
        self._distance = distance
        self._balls: list[Ball] = []

    def __len__(self) -> int:
        return len(self._balls)

    def add(self, found: Scored) -> Ball | None:
        """Put a candidate into the nearest ball within ε, or start a new ball; failures are ignored."""
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
        """Return the balls by priority, highest first; each edit lowers a score by the share `weight`."""
        return sorted(self._balls, key=lambda ball: -ball.score / (1 + weight * ball.edits))

    def _nearest(self, found: Scored) -> Ball | None:
        distances = [self._distance(ball.centre.evaluation, found.evaluation) for ball in self._balls]
        nearest = min(range(len(distances)), key=distances.__getitem__, default=None)
        if nearest is None or distances[nearest] > self._epsilon:
            return None
        return self._balls[nearest]


def source_distance(one: Evaluation, other: Evaluation) -> float:
    """Return one minus the Jaccard index of the word trigrams of two candidates' sources.

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
