"""The bookkeeping that every strategy shares: numbers, dice, and which moves are under way."""

import random
from abc import ABC, abstractmethod

from ...propose import Move, Reply
from ...records import Candidate
from ..archives import Scored
from ._protocol import Means


class NumberedStrategy(ABC):
    """Number the moves, give each dice of its own, and know which are not settled.

    The dice of a move depend on the seed and its number alone, so an ask that returns none leaves no trace.
    """

    def __init__(self, means: Means) -> None:
        self.means = means
        self.asked = 0
        """How many moves were asked for."""
        self.dice = random.Random()
        """Of the move that is being chosen."""
        self._unheard: set[int] = set()
        self._untold: dict[int, set[str]] = {}

    @property
    def in_flight(self) -> int:
        """How many moves are not settled: not heard of, or with candidates still to be told."""
        return len(self._unheard) + len(self._untold)

    def ask(self) -> Move | None:
        """Return the next move, or none where there is none before more is told."""
        self.dice = random.Random(f"{self.means.seed}/{self.asked}")
        move = self._next()
        if move is not None:
            self._unheard.add(move.number)
            self.asked += 1
        return move

    def heard(self, move: Move, reply: Reply) -> None:
        """Take note of a reply; one without proposals settles its move."""
        self._unheard.discard(move.number)
        labels = {p.key if isinstance(p, Candidate) else p.name for p in reply.proposals}
        if labels:
            self._untold[move.number] = labels
        self._listen(move, reply)
        if not labels:
            self._settle(move)

    def tell(self, found: Scored) -> None:
        """Take note of a candidate; the last that its move brought settles the move."""
        move = found.move
        labels = self._untold.get(move.number) if move is not None else None
        if labels is not None:
            labels -= {found.key, found.evaluation.candidate.template or ""}
        self._learn(found)
        if move is not None and labels is not None and not labels:
            del self._untold[move.number]
            self._settle(move)

    def move(
        self,
        operator: str,
        *parents: Scored,
        inspirations: tuple[Scored, ...] = (),
        goal: str = "",
        model: str = "",
    ) -> Move:
        """Make the next move; an operator that no editor knows is replaced."""
        return Move(
            number=self.asked,
            operator=self.means.operator(operator),
            parents=tuple(p.evaluation for p in parents),
            inspirations=tuple(i.evaluation for i in inspirations),
            goal=goal,
            model=model,
        )

    @abstractmethod
    def _next(self) -> Move | None:
        """Choose the next move; where there is none, change nothing."""

    @abstractmethod
    def _learn(self, found: Scored) -> None:
        """Learn from a candidate."""

    def _settle(self, move: Move) -> None:
        """Draw conclusions from a move once all it brought was told; called once for each."""
        del move

    def _listen(self, move: Move, reply: Reply) -> None:
        """Learn from a reply itself; nothing where a strategy looks at candidates only."""
        del move, reply
