"""Times so far → predicted time and uncertainty of every configuration, by an exact Gaussian process."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.linalg import LinAlgError, cho_solve, cholesky, solve_triangular
from scipy.linalg.lapack import dpotri
from scipy.special import expit

from ._grid import Floats, Ints

Singles = npt.NDArray[np.float32]

_LENGTH, _LENGTH_SPREAD = 1.0, 0.7
"""Prior of an axis's length scale (log-normal): axes are 0..1 long."""
_WEIGHT, _WEIGHT_SPREAD = 0.0, 1.5
"""Prior of an axis's weight (logit-normal)."""
_SCALE, _SCALE_SPREAD = 1.0, 1.0
_NOISE, _NOISE_SPREAD = 0.03, 1.0
"""Priors of the standard deviations of signal and noise (log-normal); the targets have a deviation of about 1."""
_FIRST_STEPS, _STEPS = 50, 10
_ROOT5 = 5**0.5


class Surrogate:
    """Regression over the rows of a grid with the product over axes of `1 - w + w * Matern52(|x - x'| / l)`.

    The product expands into effects of single axes, of pairs and so on: the weight `w` of an axis is how
    much it matters, alone and with others. Length scales, weights, scale and noise maximise the marginal
    likelihood times priors; each fit starts from the last.
    Source: Rasmussen and Williams, Gaussian Processes for Machine Learning, sections 4.2, 5.4 and 5.5.

    Args:
        coordinates: (rows, axes), each axis in 0..1.

    Example:
        >>> line = np.linspace(0, 1, 9)[:, None]
        >>> surrogate = Surrogate(line)
        >>> surrogate.fit(np.array([0, 4, 8]), np.array([-1.0, 0.0, 1.0]))
        >>> mean, deviation = surrogate.predict()
        >>> bool(mean[1] < mean[7]), bool(deviation[2] > deviation[4])
        (True, True)
    """

    def __init__(self, coordinates: Floats) -> None:
        axes = coordinates.shape[1]
        self._levels = [np.unique(coordinates[:, axis], return_inverse=True) for axis in range(axes)]
        self._groups = _groups(self._levels, len(coordinates))
        self._prior = np.concatenate(
            [np.full(axes, np.log(_LENGTH)), np.full(axes, _WEIGHT), [np.log(_SCALE), np.log(_NOISE)]]
        )
        self._spread = np.concatenate(
            [np.full(axes, _LENGTH_SPREAD), np.full(axes, _WEIGHT_SPREAD), [_SCALE_SPREAD, _NOISE_SPREAD]]
        )
        self._bounds = [(np.log(0.05), np.log(20))] * axes + [(-6.0, 6.0)] * axes
        self._bounds += [(np.log(0.1), np.log(10)), (np.log(1e-3), 0.0)]
        self._parameters = self._prior
        self._steps = _FIRST_STEPS
        self._rows: Ints = np.empty(0, dtype=np.int64)
        self._targets: Floats = np.empty(0)
        self._forget()

    def fit(self, rows: Ints, targets: Floats, *, tune: bool = True) -> None:
        """Fit to targets with about mean 0 and deviation 1; with `tune`, optimise the hyperparameters too.

        Without it, rows that continue those of the last fit are appended to what is solved already.
        """
        if tune or not np.array_equal(rows[: len(self._solved)], self._rows[: len(self._solved)]):
            self._forget()
        self._rows, self._targets = rows, targets
        if tune:
            from scipy.optimize import minimize  # half a second, not to be waited for by the first kernel

            self._parameters = minimize(
                self._loss, self._parameters, (_Pairs.of(self._levels, rows),), jac=True, method="L-BFGS-B",
                bounds=self._bounds, options={"maxiter": self._steps},
            ).x  # fmt: skip
            self._steps = _STEPS

    def predict(self) -> tuple[Floats, Floats]:
        """Return mean and standard deviation of every row of the grid."""
        if len(self._solved) < len(self._rows):
            self._append(self._rows[len(self._solved) :])
        whitened = solve_triangular(self._lower, self._targets, lower=True).astype(np.float32)
        mean = (whitened @ self._solved).astype(np.float64)
        left = np.exp(2 * self._parameters[-2]) - self._explained
        return mean, np.sqrt(np.maximum(left, 1e-9)).astype(np.float64)

    def _forget(self) -> None:
        """Start without solved rows: `_lower` is the Cholesky factor of those solved, `_solved` its solution of their
        covariances with the grid, (solved, rows), and `_explained` how much of each row's variance they explain."""
        rows = len(self._groups[0].joint)
        self._lower: Floats = np.empty((0, 0))
        self._solved: Singles = np.empty((0, rows), dtype=np.float32)
        self._explained: Singles = np.zeros(rows, dtype=np.float32)

    def _append(self, new: Ints) -> None:
        """Extend the Cholesky factor, and what it solves, by rows."""
        known, total = len(self._lower), len(self._lower) + len(new)
        within = self._among(new, new)
        within[np.diag_indices(len(new))] += np.exp(2 * self._parameters[-1]) + 1e-6
        below = solve_triangular(self._lower, self._among(self._rows[:known], new), lower=True).T
        corner = cholesky(within - below @ below.T, lower=True)
        lower = np.zeros((total, total))
        lower[:known, :known], lower[known:, :known], lower[known:, known:] = self._lower, below, corner
        rest = self._kernel(new).T - below.astype(np.float32) @ self._solved
        solved = solve_triangular(corner.astype(np.float32), rest, lower=True, check_finite=False)
        self._lower, self._solved = lower, np.concatenate([self._solved, solved])
        self._explained = self._explained + np.einsum("ij,ij->j", solved, solved)

    def _among(self, rows: Ints, columns: Ints) -> Floats:
        """Return the covariances of a few rows in double precision: equal rows differ by the noise alone."""
        total = np.full((len(rows), len(columns)), np.exp(2 * self._parameters[-2]))
        for axis, (values, level) in enumerate(self._levels):
            apart = np.abs(values[:, None] - values[level[columns]])
            total *= self._factor(axis, apart, self._parameters)[0][level[rows]]
        return total

    def _kernel(self, columns: Ints) -> Singles:
        """Return the covariances of the grid with some rows, (rows, columns); factors are looked up by value."""
        total = np.full((1, len(columns)), np.exp(2 * self._parameters[-2]), dtype=np.float32)
        for group in self._groups:
            factor = np.ones((len(group.first), len(columns)), dtype=np.float32)
            for axis in group.axes:
                values, level = self._levels[axis]
                apart = np.abs(values[:, None] - values[level[columns]])
                by_value = self._factor(axis, apart, self._parameters)[0].astype(np.float32)
                factor *= by_value[level[group.first]]
            total = total * factor[group.joint]
        return total

    def _factor(self, axis: int, apart: Floats, parameters: Floats) -> tuple[Floats, Floats, Floats]:
        """Return an axis's factor at distances and derivatives with respect to log length and the weight's logit."""
        weight = expit(parameters[len(self._levels) + axis])
        matern, by_length = _matern(apart / np.exp(parameters[axis]))
        return 1 - weight + weight * matern, weight * by_length, (matern - 1) * weight * (1 - weight)

    def _loss(self, parameters: Floats, pairs: "_Pairs") -> tuple[float, Floats]:
        """Return the negative log posterior of the hyperparameters and its gradient."""
        targets, below = self._targets, pairs.below
        variance, noise = np.exp(2 * parameters[-2]), np.exp(2 * parameters[-1])
        factors = [self._factor(axis, apart, parameters) for axis, apart in enumerate(pairs.apart)]
        covariances = np.full(len(below[0]), variance)
        for (factor, *_), cells in zip(factors, pairs.cells, strict=True):
            covariances *= factor.ravel()[cells]
        kernel = np.diag(np.full(len(targets), variance + noise + 1e-6))
        kernel[below] = covariances
        try:
            lower = cholesky(kernel, lower=True, check_finite=False)
        except LinAlgError:
            return 1e10, np.zeros_like(parameters)
        solved = cho_solve((lower, True), targets, check_finite=False)
        inverse, _ = dpotri(lower, lower=1)
        diagonal = inverse.diagonal() - solved * solved
        shares = (inverse[below] - solved[below[0]] * solved[below[1]]) * covariances
        held = [
            np.bincount(cells, shares, factor.size).reshape(factor.shape) / factor
            for (factor, *_), cells in zip(factors, pairs.cells, strict=True)
        ]
        by_length = [(h * length).sum() for h, (_, length, _) in zip(held, factors, strict=True)]
        by_weight = [(h * weight).sum() for h, (_, _, weight) in zip(held, factors, strict=True)]
        by_scale = variance * diagonal.sum() + 2 * shares.sum()
        gradient = np.array([*by_length, *by_weight, by_scale, noise * diagonal.sum()])
        off = (parameters - self._prior) / self._spread
        likelihood = 0.5 * targets @ solved + np.log(lower.diagonal()).sum()
        return float(likelihood + 0.5 * off @ off), gradient + off / self._spread


@dataclass(frozen=True)
class _Pairs:
    """The pairs of observations, each once: a covariance depends on the distances between their values alone."""

    below: tuple[Ints, Ints]
    """The pairs, as indices of the lower triangle without its diagonal."""
    apart: list[Floats]
    """For each axis the distances between the values that occur."""
    cells: list[Ints]
    """For each axis the index of every pair's distance."""

    @classmethod
    def of(cls, levels: Sequence[tuple[Floats, Ints]], rows: Ints) -> "_Pairs":
        below = np.tril_indices(len(rows), -1)
        apart, cells = [], []
        for values, level in levels:
            occurring, place = np.unique(level[rows], return_inverse=True)
            apart.append(np.abs(values[occurring][:, None] - values[occurring]))
            cells.append(place[below[0]] * len(occurring) + place[below[1]])
        return cls(below, apart, cells)


@dataclass(frozen=True)
class _Group:
    """Axes whose factors are multiplied once for each combination of values, not for each row."""

    axes: list[int]
    joint: Ints
    """The combination of each row."""
    first: Ints
    """A row of each combination."""


def _groups(levels: Sequence[tuple[Floats, Ints]], rows: int) -> list[_Group]:
    """Divide the axes into two groups with few combinations each, largest axes first."""
    groups = [_Group([], np.zeros(rows, dtype=np.int64), np.zeros(1, dtype=np.int64)) for _ in range(2)]
    for axis in sorted(range(len(levels)), key=lambda axis: -len(levels[axis][0])):
        place = min(range(2), key=lambda i: len(groups[i].first))
        values, level = levels[axis]
        _, first, joint = np.unique(
            groups[place].joint * len(values) + level, return_index=True, return_inverse=True
        )
        groups[place] = _Group([*groups[place].axes, axis], joint, first)
    return groups


def _matern(scaled: Floats) -> tuple[Floats, Floats]:
    """Return the Matern 5/2 correlation at scaled distances and its derivative with respect to the log length scale."""
    r = _ROOT5 * scaled
    decay = np.exp(-r)
    return (1 + r + r * r / 3) * decay, r * r / 3 * (1 + r) * decay
