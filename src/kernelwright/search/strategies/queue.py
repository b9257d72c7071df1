"""A priority queue with an ε-net: diverse, and robust to noise.

Source: POLCA, "Stochastic generative optimization with LLM" (priority queue, ε-net, summariser).
"""

from ...propose import Move, Reply
from ..archives import NetQueue, Scored, source_distance
from ..archives.queue import Distance
from ._numbered import NumberedStrategy
from ._protocol import Means

_WORDS = {"summarise": "summary", "critique": "critique"}
"""Operators that summarise, in order of preference, and the note that holds the summary."""
_SHOWN = 4
"""How many of the best, and of the worst, a summary shows."""


class PriorityNet(NumberedStrategy):
    """Edit the candidate with the highest priority; candidates within ε of each other share statistics.

    A priority is the ball's robust score, reduced for every edit the ball already had, so one lucky measurement
    does not dominate for long. Every `summary` moves, an editor summarises the best and the worst, or critiques them
    if no editor can summarise; the summary is passed as the goal of the following moves.
    """

    def __init__(
        self, means: Means, *, epsilon: float = 0.2, discount: float = 0.03, drafts: int = 4, summary: int = 8,
        distance: Distance = source_distance,
    ) -> None:  # fmt: skip
        """Start with an empty queue.

        Args:
            means: What may be requested.
            epsilon: Radius of a ball, in the units of the distance.
            discount: Share by which one edit of a ball lowers its priority.
            drafts: Balls to start before any edit, and most drafts for it.
            summary: Moves between summaries.
            distance: Distance of two candidates; by their sources if not given.
        """
        super().__init__(means)
        self.queue = NetQueue(epsilon, distance)
        self._discount, self._drafts, self._summary = discount, drafts, summary
        self._advice = ""

    def _next(self) -> Move | None:
        if not len(self.queue) or self.asked < self._drafts - len(self.queue):
            return self.move("draft", goal=self._advice)
        order = self.queue.by_priority(self._discount)
        words = next((o for o in _WORDS if o in self.means.operators), None)
        if words is not None and self.asked % self._summary == self._summary - 1:
            best = [ball.centre for ball in order[:_SHOWN]]
            worst = [ball.centre for ball in order[_SHOWN:][-_SHOWN:]]
            return self.move(words, *best, inspirations=tuple(worst))
        ball = order[0]
        ball.edits += 1
        shown = tuple(b.centre for b in order[1:3])
        return self.move("improve", ball.centre, inspirations=shown, goal=self._advice)

    def _listen(self, move: Move, reply: Reply) -> None:
        del move
        for said in map(reply.notes.get, _WORDS.values()):
            if isinstance(said, str) and said.strip():
                self._advice = said.strip()

    def _learn(self, found: Scored) -> None:
        self.queue.add(found)
