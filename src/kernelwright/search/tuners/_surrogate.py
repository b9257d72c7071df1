"""Times so far → predicted time and uncertainty of every configuration, by an exact Gaussian process."""

import numpy as np
import numpy.typing as npt
from scipy.linalg import LinAlgError, cho_solve, cholesky, solve_triangular
from scipy.optimize import minimize
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
        >>> mean, deviation = surrogate.predict(np.arange(9))
        >>> bool(mean[1] < mean[7]), bool(deviation[2] > deviation[4])
        (True, True)
    """

    def __init__(self, coordinates: Floats) -> None:
        axes = coordinates.shape[1]
        self._levels = [np.unique(coordinates[:, axis], return_inverse=True) for axis in range(axes)]
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

    def fit(self, rows: Ints, targets: Floats, *, tune: bool = True) -> None:
        """Fit to targets with about mean 0 and deviation 1; with `tune`, optimise the hyperparameters too."""
        self._rows, self._targets = rows, targets
        if tune:
            self._parameters = minimize(
                self._loss, self._parameters, (self._pairs(rows),), jac=True, method="L-BFGS-B",
                bounds=self._bounds, options={"maxiter": self._steps},
            ).x  # fmt: skip
            self._steps = _STEPS

    def predict(self, rows: Ints) -> tuple[Floats, Floats]:
        """Return mean and standard deviation at the rows."""
        variance = float(np.exp(2 * self._parameters[-2]))
        lower = cholesky(self._noisy(self._kernel(self._rows, self._rows)), lower=True)
        weights = cho_solve((lower, True), self._targets)
        cross = self._kernel(self._rows, rows)
        mean = cross @ weights.astype(np.float32)
        solved = solve_triangular(lower.astype(np.float32), cross.T, lower=True, check_finite=False)
        left = variance - np.einsum("ij,ij->j", solved, solved)
        return mean.astype(np.float64), np.sqrt(np.maximum(left, 1e-9)).astype(np.float64)

    def _kernel(self, columns: Ints, rows: Ints) -> Singles:
        """Return the covariances, (rows, columns); axes have few values, so factors are looked up."""
        total = np.full((len(rows), len(columns)), np.exp(2 * self._parameters[-2]), dtype=np.float32)
        for axis, (values, level) in enumerate(self._levels):
            apart = np.abs(values[:, None] - values[level[columns]])
            total *= self._factor(axis, apart, self._parameters)[0].astype(np.float32)[level[rows]]
        return total

    def _factor(self, axis: int, apart: Floats, parameters: Floats) -> tuple[Floats, Floats, Floats]:
        """Return an axis's factor at distances and derivatives with respect to log length and the weight's logit."""
        weight = expit(parameters[len(self._levels) + axis])
        matern, by_length = _matern(apart / np.exp(parameters[axis]))
        return 1 - weight + weight * matern, weight * by_length, (matern - 1) * weight * (1 - weight)

    def _pairs(self, rows: Ints) -> list[tuple[Floats, Ints]]:
        """Return for each axis the distinct distances between values, and the index of each row pair's distance."""
        pairs = []
        for values, level in self._levels:
            occurring, place = np.unique(level[rows], return_inverse=True)
            apart = np.abs(values[occurring][:, None] - values[occurring])
            pairs.append((apart, place[:, None] * len(occurring) + place))
        return pairs

    def _noisy(self, kernel: Singles) -> Floats:
        noisy: Floats = kernel.astype(np.float64)
        noisy[np.diag_indices(len(noisy))] += np.exp(2 * self._parameters[-1]) + 1e-6
        return noisy

    def _loss(self, parameters: Floats, pairs: list[tuple[Floats, Ints]]) -> tuple[float, Floats]:
        """Return the negative log posterior of the hyperparameters and its gradient."""
        targets = self._targets
        variance, noise = np.exp(2 * parameters[-2]), np.exp(2 * parameters[-1])
        factors = [self._factor(axis, apart, parameters) for axis, (apart, _) in enumerate(pairs)]
        kernel = np.full((len(targets), len(targets)), variance)
        for (factor, *_), (_, cells) in zip(factors, pairs, strict=True):
            kernel *= factor.ravel()[cells]
        identity = np.eye(len(targets))
        try:
            lower = cholesky(kernel + (noise + 1e-6) * identity, lower=True, check_finite=False)
        except LinAlgError:
            return 1e10, np.zeros_like(parameters)
        solved = cho_solve((lower, True), targets, check_finite=False)
        inner = cho_solve((lower, True), identity, check_finite=False) - np.outer(solved, solved)
        shares = (inner * kernel).ravel()
        held = [
            np.bincount(cells.ravel(), shares, factor.size).reshape(factor.shape) / factor
            for (factor, *_), (_, cells) in zip(factors, pairs, strict=True)
        ]
        by_length = [0.5 * (h * length).sum() for h, (_, length, _) in zip(held, factors, strict=True)]
        by_weight = [0.5 * (h * weight).sum() for h, (_, _, weight) in zip(held, factors, strict=True)]
        gradient = np.array([*by_length, *by_weight, shares.sum(), noise * np.trace(inner)])
        off = (parameters - self._prior) / self._spread
        likelihood = 0.5 * targets @ solved + np.log(np.diag(lower)).sum()
        return float(likelihood + 0.5 * off @ off), gradient + off / self._spread


def _matern(scaled: Floats) -> tuple[Floats, Floats]:
    """Return the Matern 5/2 correlation at scaled distances and its derivative with respect to the log length scale."""
    r = _ROOT5 * scaled
    decay = np.exp(-r)
    return (1 + r + r * r / 3) * decay, r * r / 3 * (1 + r) * decay
