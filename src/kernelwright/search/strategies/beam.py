"""Beam search: expand the best few of each level.

Source: KernelAgent, `searching/strategy/beam_search.py`; Lowerre, "The Harpy speech recognition system", 1976.
"""

from ...propose import Move
from ..archives import Population, Scored
from ._numbered import NumberedStrategy
from ._protocol import Means


class Beam(NumberedStrategy):
    """Expand each of the `width` best into `branches` children; the best of both are the next beam.

    A level ends when every child is reported. Parents stay in the beam as long as nothing is better, so the best
    is never lost. The search ends after `patience` levels that left the beam unchanged.
    """

    def __init__(self, means: Means, *, width: int = 4, branches: int = 2, patience: int = 3) -> None:
        """Start with an empty beam.

        Args:
            means: What may be requested.
            width: How many are expanded.
            branches: Children of each.
            patience: Levels without a change of the beam before the end.
        """
        super().__init__(means)
        self._branches, self._patience = branches, patience
        self._width = width
        self._best = Population(width)
        self._beam: tuple[Scored, ...] = ()
        self._to_expand: list[Scored | None] = []
        self._unchanged = 0

    def _next(self) -> Move | None:
        if not self._to_expand and self.in_flight:
            return None
        if not self._to_expand and not self._open_level():
            return None
        parent = self._to_expand.pop(0)
        return self.move("draft") if parent is None else self.move("improve", parent)

    def _open_level(self) -> bool:
        """Fix the beam and the nodes to expand; return false if the search has ended."""
        same = self.asked > 0 and self._best.members == self._beam
        if same and self._unchanged + 1 >= self._patience:
            return False
        self._unchanged = self._unchanged + 1 if same else 0
        self._beam = self._best.members
        level: list[Scored | None] = [parent for parent in self._beam for _ in range(self._branches)]
        self._to_expand = level or [None] * (self._width * self._branches)
        return True

    def _learn(self, found: Scored) -> None:
        self._best.add(found)
