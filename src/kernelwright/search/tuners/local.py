"""Hill climbing with restarts: the untried neighbours of the best, then a random configuration."""

import numpy as np

from ...records import Space
from ._finite import FiniteTuner


class LocalSearch(FiniteTuner):
    """Climb from the best configuration so far by changing one parameter at a time.

    Neighbours one step along a parameter's ordered values come before those further off, each group
    in random order. When the best has no untried neighbour the climb restarts from a random
    configuration and continues from the best since then.

    Example:
        >>> from kernelwright.records import Parameter, Space
        >>> space = Space(parameters=(Parameter(name="tile", values=(8, 16, 32, 64)),))
        >>> tuner = LocalSearch(space, seed=0)
        >>> tuner.tell({"tile": 32}, 5.0)
        >>> tuner.ask()["tile"] in (16, 64)
        True
    """

    def __init__(self, space: Space, seed: int) -> None:
        super().__init__(space, seed)
        self._centre_us: float | None = None
        self._queue: list[int] = []

    def _next(self) -> int:
        while self._queue:
            row = self._queue.pop()
            if self.open[row]:
                return row
        self._centre_us = None
        return self._anywhere()

    def _learn(self, row: int, time_us: float | None) -> None:
        if time_us is not None and (self._centre_us is None or time_us < self._centre_us):
            self._centre_us = time_us
            self._queue = self._ordered_neighbours(row)[::-1]

    def _ordered_neighbours(self, row: int) -> list[int]:
        levels = self.grid.levels
        neighbours = self.random.permutation(list(self.grid.neighbours(row))).astype(np.int64)
        distances = np.abs(levels[neighbours] - levels[row]).sum(axis=1)
        return [int(n) for n in neighbours[np.argsort(distances > 1, kind="stable")]]
