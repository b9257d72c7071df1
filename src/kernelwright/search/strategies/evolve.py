"""Evolutionary search on islands with migration of the best.

Source: AlphaEvolve, 2025; OpenEvolve (islands, ring migration, inspirations); ShinkaEvolve (power-law parents).
"""

from collections import deque
from itertools import pairwise

from ...propose import Move
from ..archives import Population, Scored
from ._numbered import NumberedStrategy
from ._protocol import Means


class Evolve(NumberedStrategy):
    """Breed on each island in turn: a parent chosen by rank, inspirations, and sometimes a second parent.

    An island sees only candidates born on it or migrated to it, so islands explore separately for a while. After
    every `interval` births an island's best also migrates to the next one in the ring.
    """

    def __init__(
        self, means: Means, *, islands: int = 3, size: int = 12, interval: int = 6,
        merging: float = 0.2, pressure: float = 1.0, inspirations: int = 2, repairs: int = 0,
    ) -> None:  # fmt: skip
        """Start with empty islands.

        Args:
            means: What may be requested.
            islands: How many.
            size: Candidates on each.
            interval: Births on an island between migrations.
            merging: Probability of a second parent.
            pressure: How much rank counts in the choice of a parent: 0 not at all.
            inspirations: Candidates shown in addition to the parents.
            repairs: Repairs of a failure before it is dropped.
        """
        super().__init__(means)
        self.islands = tuple(Population(size) for _ in range(islands))
        self._births = [0] * islands
        self._starts = 0
        self._interval, self._merging = interval, merging
        self._pressure, self._inspirations = pressure, inspirations
        self._repairs = repairs
        self._broken: deque[tuple[Scored, int]] = deque()
        """Failures with the number of repairs tried so far."""
        self._repaired: dict[int, int] = {}
        """By a repair's move number: how many repairs of the same failure, including it."""

    def _next(self) -> Move | None:
        if self._broken:
            failed, before = self._broken.popleft()
            self._repaired[self.asked] = before + 1
            return self.move("repair", failed)
        island = self.islands[self.asked % len(self.islands)]
        if not len(island):
            return self.move("draft")
        parent = island.pick(self.dice, pressure=self._pressure)
        shown = island.others(self.dice, parent, self._inspirations)
        if shown and self.dice.random() < self._merging:
            return self.move("merge", parent, shown[0], inspirations=shown[1:])
        return self.move("improve", parent, inspirations=shown)

    def _learn(self, found: Scored) -> None:
        if found.move is None:
            home = self._starts % len(self.islands)
            self._starts += 1
        else:
            home = found.move.number % len(self.islands)
            before = self._repaired.get(found.move.number, 0)
            if not found.works and before < self._repairs and found.evaluation.candidate.template is None:
                self._broken.append((found, before))
        self.islands[home].add(found)
        self._births[home] += 1
        if self._births[home] % self._interval == 0:
            self._migrate(home)

    def _migrate(self, home: int) -> None:
        ring = [*self.islands, self.islands[0]]
        source, target = list(pairwise(ring))[home]
        if source.best is not None and target is not source:
            target.add(source.best)
