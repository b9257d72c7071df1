"""Gaussian process with expected improvement over every allowed configuration: the default tuner."""

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import erfcx, ndtr
from threadpoolctl import ThreadpoolController

from ...records import Space
from ._finite import FiniteTuner
from ._grid import Bools, Floats, Ints
from ._protocol import Observation
from ._surrogate import Surrogate

_MOST_OPENING = 20
"""Initial configurations spread over the space before the model is used; fewer in a small space."""
_SPREAD_AMONG = 200
"""Each initial configuration is the one, of this many drawn, farthest from all earlier ones."""
_SLOW_SLOPE = 0.1
"""Slope of log times above the median: the model should separate good from better, not bad from worse."""
_LEAST_SPREAD = 0.1
"""Log times that differ by less than this count as equal: on a plateau the tuner explores elsewhere."""
_TUNE_EVERY = 4
"""Asks between two fits of the model's hyperparameters."""
_ELITE = 5
"""Every other ask is for a neighbour of one of this many best: the model misses isolated peaks."""
_STAGNANT, _GAIN = 10, 0.02
"""After this many evaluations without a gain of this share the search is stagnant."""
_DECISIVE, _LEAST_WITHOUT = 0.05, 4
"""A value of the best is decisive if the best of so many or more without it is slower by more than this share."""
_MOST_KNOWN = 400
"""Most observations of a warm start to model: time grows with their cube."""
_HINT_TRUST, _HINT_WEIGHT = 0.7, 5.0
"""Prior slope of a hint, and the number of results that outweigh it."""


class GaussianProcess(FiniteTuner):
    """Model the log time, ask where the expected improvement is greatest.

    The space is finite, so every allowed open configuration is scored and none is proposed twice. Asks
    alternate between all of them and the neighbours of the best few. While the search is stagnant every other ask
    is for the best without one of the values to which the best owes most, each such value in turn. A failure
    counts as average, not as slow, because the best is often next to failures. After a warm start the model
    describes the difference from a multiple of what the hint's own model predicts; the multiple is estimated
    online and falls to zero if the hint misleads.
    Source: Jones, Schonlau and Welch, Efficient Global Optimization, 1998; Glover, Tabu Search, part I, 1989.

    Example:
        >>> from kernelwright.records import Parameter
        >>> space = Space(parameters=(Parameter(name="tile", values=tuple(range(1, 65))),))
        >>> tuner = GaussianProcess(space, seed=0)
        >>> for _ in range(15):
        ...     c = tuner.ask()
        ...     tuner.tell(c, 10.0 + abs(c["tile"] - 40))
        >>> abs(min(tuner.times_us.values()) - 10.0) <= 1
        True
    """

    def __init__(self, space: Space, seed: int) -> None:
        super().__init__(space, seed)
        self._surrogate = Surrogate(self.grid.coordinates)
        self._hint: Floats | None = None
        self._modelled = 0
        self._near = False
        self._forbidden = 0
        self._threads = ThreadpoolController()
        self._opening = min(_MOST_OPENING, max(2, round(len(self.grid) ** 0.5 / 2)))

    def warm_start(self, observations: Sequence[Observation]) -> None:
        """Start from the best of the observations and take their model as a prior mean."""
        super().warm_start(observations)
        known = _representative(
            {row: o.time_us for o in observations if (row := self.grid.row_of(o.configuration)) is not None}
        )
        if len({t for t in known.values() if t is not None}) > 1:
            model = Surrogate(self.grid.coordinates)
            model.fit(np.array(list(known)), _targets(list(known.values()), np.ones(len(known), dtype=bool)))
            self._hint = model.predict()[0]

    def _next(self) -> int:
        with self._threads.limit(limits=1):  # small matrices: threads cost more than they save
            return self._model_next()

    def _model_next(self) -> int:
        asked = int((~self.open).sum())
        if asked < self._opening or len(self._worked()) < 2:
            return self._spread()
        told = np.array(list(self.times_us), dtype=np.int64)
        allowed = self._without_decisive() if self._modelled % 2 and self._stagnant(asked) else None
        if allowed is None:
            return self._most_promising(told, np.ones(len(told), dtype=bool), self._candidates())
        return self._most_promising(told, allowed[told], np.flatnonzero(allowed & self.open))

    def _most_promising(self, told: Ints, among: Bools, rows: Ints) -> int:
        """Return the row with the greatest expected improvement over the best of some that were told."""
        targets = _targets([self.times_us[row] for row in told.tolist()], among)
        mean = self._trend(told, targets)
        self._surrogate.fit(told, targets - mean[told], tune=self._modelled % _TUNE_EVERY == 0)
        self._modelled += 1
        residual, deviation = self._surrogate.predict(rows)
        worked = np.array([self.times_us[row] is not None for row in told.tolist()])
        best = float(targets[among & worked].min())
        return int(rows[_log_expected_improvement(mean[rows] + residual, deviation, best).argmax()])

    def _stagnant(self, asked: int) -> bool:
        """Return whether the last evaluations brought little."""
        best_us, last = math.inf, self._opening
        for number, time_us in enumerate(self.times_us.values()):
            if time_us is not None and time_us < best_us * (1 - _GAIN):
                best_us, last = time_us, max(number, self._opening)
        return bool(asked - last >= _STAGNANT)

    def _without_decisive(self) -> Bools | None:
        """Return which rows lack a decisive value of the best, the next such value in turn; none if there is none."""
        worked, levels = self._worked(), self.grid.levels
        least_us, best = worked[0]
        found: list[tuple[float, Bools]] = []
        for parameter, value in enumerate(levels[best]):
            allowed = levels[:, parameter] != value
            times_us = [time_us for time_us, row in worked if allowed[row]]
            decisive = len(times_us) >= _LEAST_WITHOUT and times_us[0] > least_us * (1 + _DECISIVE)
            if decisive and (allowed & self.open).any():
                found.append((times_us[0], allowed))
        if not found:
            return None
        found.sort(key=lambda one: -one[0])
        self._forbidden += 1
        return found[(self._forbidden - 1) % len(found)][1]

    def _spread(self) -> int:
        """Draw a few hundred open rows and return the one farthest from all rows asked for."""
        rows, taken = self._open_rows(), np.flatnonzero(~self.open)
        drawn = self.random.choice(rows, min(_SPREAD_AMONG, len(rows)), replace=False)
        if not len(taken):
            return int(drawn[0])
        places = self.grid.coordinates
        apart = np.abs(places[drawn][:, None] - places[taken][None]).sum(axis=2).min(axis=1)
        return int(drawn[apart.argmax()])

    def _candidates(self) -> Ints:
        self._near = not self._near
        if self._near:
            elite = [row for _, row in self._worked()[:_ELITE]]
            near = {n for row in elite for n in self.grid.neighbours(row) if self.open[n]}
            if near:
                return np.array(sorted(near), dtype=np.int64)
        return self._open_rows()

    def _trend(self, told: Ints, targets: Floats) -> Floats:
        """Return the hint times its estimated slope, for every row; zero without a hint."""
        if self._hint is None:
            return np.zeros(len(self.grid))
        there = self._hint[told]
        weight = _HINT_WEIGHT * float(self._hint.var())
        slope = (there @ targets + weight * _HINT_TRUST) / (there @ there + weight)
        return float(np.clip(slope, 0.0, 1.0)) * self._hint


def _representative(known: dict[int, float | None]) -> dict[int, float | None]:
    """Return the observations to model: the best, and a sample of the others if there are too many."""
    if len(known) <= _MOST_KNOWN:
        return known
    best = sorted(known, key=lambda row: math.inf if (t := known[row]) is None else t)
    others = np.random.default_rng(0).permutation(best[_MOST_KNOWN // 2 :])[: _MOST_KNOWN // 2].tolist()
    return {row: known[row] for row in (*best[: _MOST_KNOWN // 2], *others)}


def _targets(times_us: Sequence[float | None], among: Bools) -> Floats:
    """Turn times into regression targets: log times, mean 0, deviation 1 at most.

    What is slower than the median of those among which the best is sought is compressed.
    """
    worked = np.array([t is not None for t in times_us])
    logs = np.log([t for t in times_us if t is not None])
    median = np.median(logs[among[worked]])
    targets = np.full(len(times_us), median)
    targets[worked] = np.where(logs > median, median + _SLOW_SLOPE * (logs - median), logs)
    scaled: Floats = (targets - targets.mean()) / max(float(targets.std()), _LEAST_SPREAD)
    return scaled


def _log_expected_improvement(mean: Floats, deviation: Floats, best: float) -> Floats:
    """Return the logarithm of the expected improvement over `best`, accurate also in the tails.

    Source: Ament et al., Unexpected Improvements to Expected Improvement for Bayesian Optimization, 2023.
    """
    z = (best - mean) / deviation
    close = z > -1.0
    near, far = z[close], z[~close]
    improvement: Floats = np.log(deviation)
    density = np.exp(-0.5 * near * near) / np.sqrt(2 * np.pi)
    improvement[close] += np.log(near * ndtr(near) + density)
    # In the tail z * cdf(z) + pdf(z) cancels; written with the scaled complementary error function it does not.
    ratio = np.log(np.maximum(1 + far * np.sqrt(np.pi / 2) * erfcx(-far / np.sqrt(2)), 1e-16))
    improvement[~close] += -0.5 * far * far - 0.5 * np.log(2 * np.pi) + ratio
    return improvement
