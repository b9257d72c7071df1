"""A priority queue with an ε-net: diverse, and hard to fool by noise.

Source: POLCA, "Stochastic generative optimization with LLM" (priority queue, ε-net, summariser).
"""

from ...propose import Move, Reply
from ..archives import NetQueue, Scored, source_distance
from ..archives.queue import Distance
from ._numbered import NumberedStrategy
from ._protocol import Means

_WORDS = {"summarise": "summary", "critique": "critique"}
"""Operators that sum up, the first of them first, and the note that holds what was said."""
_SHOWN = 4
"""Of the best in a summary, and of the worst."""


class PriorityNet(NumberedStrategy):
    """Edit the candidate of the highest priority; what is within ε of another shares its statistics.

    A priority is the ball's robust score, less for every edit the ball already had, so a measurement that was
    lucky once soon gives way. Every `summary` moves the best and the worst are summed up where an editor knows how,
    or else criticised, and what is said goes along as the goal of the moves after it.
    """

    def __init__(
        self, means: Means, *, epsilon: float = 0.2, discount: float = 0.03, drafts: int = 4, summary: int = 8,
        distance: Distance = source_distance,
    ) -> None:  # fmt: skip
        """Begin with an empty queue.

        Args:
            means: What may be asked for.
            epsilon: Radius of a ball, in the units of the distance.
            discount: What one edit of a ball takes off its priority, as a share.
            drafts: Balls to begin before any edit, as far as as many drafts bring them.
            summary: Moves between summaries.
            distance: Of two candidates; by their sources where none is given.
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
