"""MAP-Elites: keep the best candidate of every behaviour, and request the missing behaviours.

Source: Mouret, Clune, "Illuminating search spaces by mapping elites", 2015; KernelFoundry (behaviour dimensions).
"""

from ...propose import Move
from ..archives import Grid, Scored, behaviour_of
from ._numbered import NumberedStrategy
from ._protocol import Means


class MapElites(NumberedStrategy):
    """Draw an elite uniformly over the cells and improve it, or request a move into an empty neighbouring cell.

    Slow but different candidates are kept, because a behaviour that is slow so far may contain the optimum.
    """

    def __init__(self, means: Means, *, exploring: float = 0.5, drafts: int = 2) -> None:
        """Start with an empty grid.

        Args:
            means: What may be requested.
            exploring: Probability that a move targets an empty cell.
            drafts: Least number of initial drafts, so that more than one cell is filled.
        """
        super().__init__(means)
        self.grid = Grid()
        self._exploring, self._drafts = exploring, drafts

    def _next(self) -> Move | None:
        if not len(self.grid) or self.asked < self._drafts - len(self.grid):
            return self.move("draft")
        elite = self.dice.choice(self.grid.elites)
        empty = self.grid.empty_neighbour(elite)
        if empty and self.dice.random() < self._exploring:
            cell = self.dice.choice(empty)
            return self.move("improve", elite, goal=cell.goal(behaviour_of(elite.evaluation)))
        best = self.grid.best
        shown = (best,) if best is not None and best is not elite else ()
        return self.move("improve", elite, inspirations=shown)

    def _learn(self, found: Scored) -> None:
        self.grid.add(found)
