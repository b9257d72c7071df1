"""Simulated annealing: a walk that accepts worse neighbours ever more rarely."""

import math

from ...records import Space
from ._finite import FiniteTuner

_HOT, _COLD = 0.3, 0.01
"""Initial and final temperature in units of log time: a neighbour 30 % slower soon stops being accepted."""
_COOLING = 0.95
"""Factor on the temperature at each step."""
_PATIENCE = 15
"""Steps without an accepted move before the walk restarts from the best, reheated."""


class Annealing(FiniteTuner):
    """Walk from neighbour to neighbour; a slower one is accepted with probability `exp(-slowdown / T)`.

    The slowdown is the difference of log times, so the schedule fits any kernel. A failure is never
    accepted. Source: Kirkpatrick, Gelatt and Vecchi, Optimization by Simulated Annealing, 1983.

    Example:
        >>> from kernelwright.records import Parameter, Space
        >>> tuner = Annealing(Space(parameters=(Parameter(name="tile", values=(8, 16, 32)),)), seed=0)
        >>> tuner.tell({"tile": 8}, 3.0)
        >>> tuner.ask()["tile"] in (16, 32)
        True
    """

    def __init__(self, space: Space, seed: int) -> None:
        super().__init__(space, seed)
        self._here: tuple[float, int] | None = None
        self._temperature = _HOT
        self._refused = 0

    def _next(self) -> int:
        if self._here is None:
            return self._anywhere()
        neighbours = [row for row in self.grid.neighbours(self._here[1]) if self.open[row]]
        if neighbours:
            return int(self.random.choice(neighbours))
        return self._nearest_open(self._here[1])

    def _learn(self, row: int, time_us: float | None) -> None:
        self._temperature = max(self._temperature * _COOLING, _COLD)
        if time_us is not None and (self._here is None or self._accepts(math.log(time_us) - self._here[0])):
            self._here, self._refused = (math.log(time_us), row), 0
            return
        self._refused += 1
        worked = self._worked()
        if self._refused >= _PATIENCE and worked:
            self._here = (math.log(worked[0][0]), worked[0][1])
            self._temperature, self._refused = _HOT, 0

    def _accepts(self, slowdown: float) -> bool:
        return slowdown <= 0 or bool(self.random.random() < math.exp(-slowdown / self._temperature))
