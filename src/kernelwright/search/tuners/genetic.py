"""Genetic algorithm: uniform crossover of two good parents, with a few values mutated."""

import numpy as np

from ._finite import FiniteTuner

_POPULATION = 16
_TOURNAMENT = 4
_MUTATION = 1.0
"""Expected number of mutated values in a child."""
_TRIES = 20


class Genetic(FiniteTuner):
    """Keep the best configurations; cross two winners of a tournament and mutate the child.

    Steady state: each result counts at once. A child that is not allowed or was tried is bred again; after
    twenty failures the untried configuration nearest to a parent is used.
    Source: Syswerda, A Study of Reproduction in Generational and Steady-State Genetic Algorithms, 1991.

    Example:
        >>> from kernelwright.records import Parameter, Space
        >>> tuner = Genetic(Space(parameters=(Parameter(name="tile", values=(8, 16)),)), seed=0)
        >>> sorted(tuner.ask()["tile"] for _ in range(2)), tuner.ask()
        ([8, 16], None)
    """

    def _next(self) -> int:
        population = [row for _, row in self._worked()[:_POPULATION]]
        if len(self.times_us) < _POPULATION or len(population) < 2:
            return self._anywhere()
        for _ in range(_TRIES):
            child = self._child(self._parent(population), self._parent(population))
            if child is not None and self.open[child]:
                return child
        return self._nearest_open(self._parent(population))

    def _parent(self, population: list[int]) -> int:
        """Return the winner of a tournament; the population is sorted, best first."""
        return population[int(self.random.integers(len(population), size=_TOURNAMENT).min())]

    def _child(self, mother: int, father: int) -> int | None:
        sizes, count = self.grid.sizes, self.grid.levels.shape[1]
        from_mother = self.random.random(count) < 0.5
        levels = np.where(from_mother, self.grid.levels[mother], self.grid.levels[father])
        mutated = self.random.random(count) < _MUTATION / max(1, int((sizes > 1).sum()))
        return self.grid.row_at(np.where(mutated, self.random.integers(sizes), levels))
