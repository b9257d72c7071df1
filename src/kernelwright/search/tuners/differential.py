"""Differential evolution: move a member by the difference of two others, along the ordered values."""

import numpy as np

from ...records import Space
from ._finite import FiniteTuner

_POPULATION = 16
_SCALE = 0.7
_CROSSOVER = 0.7
_TRIES = 20


class DifferentialEvolution(FiniteTuner):
    """Evolve a population of configurations as vectors of value indices, best/1/bin.

    A trial vector is the best member plus the scaled difference of two others, crossed with the member
    that it may replace, rounded to the nearest values. A vector that is not allowed or was tried is drawn
    again; after twenty failures the nearest untried configuration is used.
    Source: Storn and Price, Differential Evolution, 1997.

    Example:
        >>> from kernelwright.records import Parameter, Space
        >>> tuner = DifferentialEvolution(Space(parameters=(Parameter(name="tile", values=(8, 16)),)), seed=0)
        >>> sorted(tuner.ask()["tile"] for _ in range(2)), tuner.ask()
        ([8, 16], None)
    """

    def __init__(self, space: Space, seed: int) -> None:
        super().__init__(space, seed)
        self._members: list[tuple[float, int]] = []
        self._target = 0
        self._trials: dict[int, int] = {}
        """By trial under way: the population index it competes for."""

    def _next(self) -> int:
        if len(self.times_us) < _POPULATION or len(self._members) < 4:
            return self._anywhere()
        self._target = (self._target + 1) % len(self._members)
        row = next((r for _ in range(_TRIES) if (r := self._trial()) is not None and self.open[r]), None)
        row = self._nearest_open(self._members[self._target][1]) if row is None else row
        self._trials[row] = self._target
        return row

    def _learn(self, row: int, time_us: float | None) -> None:
        place = self._trials.pop(row, None)
        if time_us is None:
            return
        if place is None:
            self._members = sorted([*self._members, (time_us, row)])[:_POPULATION]
        elif time_us < self._members[place][0]:
            self._members[place] = (time_us, row)

    def _trial(self) -> int | None:
        levels, sizes = self.grid.levels, self.grid.sizes
        rows = [row for _, row in self._members]
        first, second = self.random.choice(rows, size=2, replace=False)
        moved = levels[min(self._members)[1]] + _SCALE * (levels[first] - levels[second])
        jitter = self.random.uniform(-0.5, 0.5, len(sizes))
        crossed = self.random.random(len(sizes)) < _CROSSOVER
        vector = np.where(crossed, np.rint(moved + jitter), levels[rows[self._target]])
        return self.grid.row_at(np.clip(vector, 0, sizes - 1).astype(np.int64))
