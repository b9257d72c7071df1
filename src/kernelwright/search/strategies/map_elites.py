"""Keep the best of every way of doing it, and ask for the ways that are missing.

Source: Mouret, Clune, "Illuminating search spaces by mapping elites", 2015; KernelFoundry (behaviour dimensions).
"""

from ...propose import Move
from ..archives import Grid, Scored, behaviour_of
from ._numbered import NumberedStrategy
from ._protocol import Means


class MapElites(NumberedStrategy):
    """Draw an elite evenly over the cells and improve it, or ask it over into an empty cell beside it.

    Slow but different candidates are kept, because a way of doing it that is slow today may hold the optimum.
    """

    def __init__(self, means: Means, *, exploring: float = 0.5, drafts: int = 2) -> None:
        """Begin with an empty grid.

        Args:
            means: What may be asked for.
            exploring: Probability that a move is to fill an empty cell.
            drafts: Drafts in the beginning, at least, so that more than one cell is filled.
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
