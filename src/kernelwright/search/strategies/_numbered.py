"""Base class of strategies: move numbers, random generators, and which moves are under way."""

import random
from abc import ABC, abstractmethod

from ...propose import Move, Reply
from ...records import Candidate
from ..archives import Scored
from ._protocol import Means


class NumberedStrategy(ABC):
    """Numbers the moves, gives each its own random generator, and tracks which are not settled.

    A move's random generator depends only on the seed and its number, so an ask that returns None has no effect.
    """

    def __init__(self, means: Means) -> None:
        self.means = means
        self.asked = 0
        """How many moves were requested."""
        self.dice = random.Random()
        """Random generator of the move being chosen."""
        self._unheard: set[int] = set()
        self._untold: dict[int, set[str]] = {}

    @property
    def in_flight(self) -> int:
        """How many moves are not settled: without a reply, or with candidates still to be reported."""
        return len(self._unheard) + len(self._untold)

    def ask(self) -> Move | None:
        """Return the next move, or None if there is none until more is reported."""
        self.dice = random.Random(f"{self.means.seed}/{self.asked}")
        move = self._next()
        if move is not None:
            self._unheard.add(move.number)
            self.asked += 1
        return move

    def heard(self, move: Move, reply: Reply) -> None:
        """Record a reply; one without proposals settles its move."""
        self._unheard.discard(move.number)
        labels = {p.key if isinstance(p, Candidate) else p.name for p in reply.proposals}
        if labels:
            self._untold[move.number] = labels
        self._listen(move, reply)
        if not labels:
            self._settle(move)

    def tell(self, found: Scored) -> None:
        """Record a candidate; the last of a move's candidates settles the move."""
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
        """Make the next move; an operator that no editor supports is replaced."""
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
        """Choose the next move; if there is none, change nothing."""

    @abstractmethod
    def _learn(self, found: Scored) -> None:
        """Learn from a candidate."""

    def _settle(self, move: Move) -> None:
        """Learn from a move once all its candidates are reported; called once per move."""
        del move

    def _listen(self, move: Move, reply: Reply) -> None:
        """Learn from a reply itself; does nothing by default."""
        del move, reply
