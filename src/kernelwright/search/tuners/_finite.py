"""Base class of tuners: which configurations were asked for and reported, and warm starts."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence

import numpy as np

from ...records import Configuration, Space
from ._grid import Grid, Ints
from ._protocol import Observation

_MOST_STARTS = 3
"""How many of the best configurations of an earlier run are tried before anything else."""


class FiniteTuner(ABC):
    """Asks for the rows of a grid, each once; a tuner chooses the next row and learns its cost.

    A warm start is discounted to a few starting configurations: if misleading, they cost only as many evaluations.
    A tuner that can weigh observations uses more of them.
    """

    def __init__(self, space: Space, seed: int) -> None:
        self.grid = Grid(space, seed)
        self.random = np.random.default_rng(seed)
        self.open = np.ones(len(self.grid), dtype=bool)
        """Rows not asked for or reported yet."""
        self.times_us: dict[int, float | None] = {}
        """Reported times by row. None if it failed."""
        self._starts: deque[int] = deque()

    def ask(self) -> Configuration | None:
        """Return the next configuration to try, or None when the space is used up."""
        if not self.open.any():
            return None
        while self._starts and not self.open[self._starts[0]]:
            self._starts.popleft()
        row = self._starts.popleft() if self._starts else self._next()
        self.open[row] = False
        return self.grid.configuration(row)

    def tell(self, configuration: Configuration, time_us: float | None) -> None:
        """Report a configuration's cost; None means that it failed. A configuration outside the space is ignored."""
        row = self.grid.row_of(configuration)
        if row is not None:
            self.open[row] = False
            self.times_us[row] = time_us
            self._learn(row, time_us)

    def warm_start(self, observations: Sequence[Observation]) -> None:
        """Start from the best observations made elsewhere; configurations outside the space are ignored."""
        worked = sorted(
            (o.time_us, row)
            for o in observations
            if o.time_us is not None and (row := self.grid.row_of(o.configuration)) is not None
        )
        self._starts.extend(row for _, row in worked[:_MOST_STARTS])

    @abstractmethod
    def _next(self) -> int:
        """Choose an open row; there is at least one."""

    def _learn(self, row: int, time_us: float | None) -> None:
        """Learn from a result; does nothing by default, as tuners may read `times_us`."""
        del row, time_us

    def _open_rows(self) -> Ints:
        return np.flatnonzero(self.open)

    def _anywhere(self) -> int:
        """Draw an open row at random."""
        return int(self.random.choice(self._open_rows()))

    def _nearest_open(self, row: int) -> int:
        """Return the open row that differs from a row in the fewest parameters, ties broken at random."""
        rows = self._open_rows()
        differing = (self.grid.levels[rows] != self.grid.levels[row]).sum(axis=1)
        return int(self.random.choice(rows[differing == differing.min()]))

    def _worked(self) -> list[tuple[float, int]]:
        """Return the working rows as (microseconds, row), best first."""
        return sorted((t, row) for row, t in self.times_us.items() if t is not None)
