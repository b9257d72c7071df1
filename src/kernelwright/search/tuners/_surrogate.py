"""Times so far → predicted time and uncertainty of every configuration, by an exact Gaussian process."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.linalg import cholesky, solve_triangular
from scipy.linalg.blas import strsm
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs
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
_FEW = 1 / 4
"""Less than this share of a grid's rows is solved by itself."""
_CHUNK = 2048
"""Rows of the grid that are solved at once: so few stay in a core's cache."""


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
        self._solved: Singles = np.empty((0, len(coordinates)), dtype=np.float32)
        self._explained: Singles = np.zeros(len(coordinates), dtype=np.float32)
        self._forget()

    def fit(self, rows: Ints, targets: Floats, *, tune: bool = True) -> None:
        """Fit to targets with about mean 0 and deviation 1; with `tune`, optimise the hyperparameters too.

        Without it, rows that continue those of the last fit are appended to what is solved already.
        """
        known = len(self._lower)
        if tune or not np.array_equal(rows[:known], self._rows[:known]):
            self._forget()
        self._rows, self._targets = rows, targets
        if tune:
            from scipy.optimize import minimize  # half a second, not to be waited for by the first kernel

            self._parameters = minimize(
                self._loss, self._parameters, (_Pairs.of(self._levels, rows),), jac=True, method="L-BFGS-B",
                bounds=self._bounds, options={"maxiter": self._steps},
            ).x  # fmt: skip
            self._steps = _STEPS

    def predict(self, rows: Ints | None = None) -> tuple[Floats, Floats]:
        """Return mean and standard deviation of some rows of the grid, by default of every row.

        What is solved for every row is kept and extended; few rows are solved by themselves, and the others wait.
        """
        self._factorise()
        whitened = solve_triangular(self._lower, self._targets, lower=True).astype(np.float32)
        if rows is not None and len(rows) < _FEW * len(self._explained):
            solved = self._solve(rows, self._tables(self._rows))
            mean, explained = solved @ whitened, _squares(solved)
        else:
            self._extend()
            mean, explained = whitened @ self._solved[: self._known], self._explained
            if rows is not None:
                mean, explained = mean[rows], explained[rows]
        left = np.exp(2 * self._parameters[-2]) - explained
        return mean.astype(np.float64), np.sqrt(np.maximum(left, 1e-9)).astype(np.float64)

    def _forget(self) -> None:
        """Start without solved rows.

        `_lower` is the Cholesky factor of the observations so far. `_solved`, (at least `_known`, rows of the grid),
        is its solution of their covariances with the grid, for the first `_known` of them, and `_explained` how much
        of each row's variance these explain.
        """
        self._lower: Floats = np.empty((0, 0))
        self._factors: list[Floats] | None = None
        self._known = 0
        self._explained[:] = 0

    def _factorise(self) -> None:
        """Extend the Cholesky factor by the observations that it lacks."""
        known, total = len(self._lower), len(self._rows)
        if known == total:
            return
        new = self._rows[known:]
        within = self._among(new, new)
        within[np.diag_indices(len(new))] += np.exp(2 * self._parameters[-1]) + 1e-6
        below = solve_triangular(self._lower, self._among(self._rows[:known], new), lower=True).T
        lower = np.zeros((total, total))
        lower[:known, :known], lower[known:, :known] = self._lower, below
        lower[known:, known:] = cholesky(within - below @ below.T, lower=True)
        self._lower = lower

    def _extend(self) -> None:
        """Solve every row of the grid for the observations that it lacks."""
        known, total, rows = self._known, len(self._lower), len(self._explained)
        if total > len(self._solved):
            grown = np.empty((max(2 * len(self._solved), total, 32), rows), dtype=np.float32)
            grown[:known] = self._solved[:known]
            self._solved = grown
        if total > known:
            tables = self._tables(self._rows[known:])
            for first in range(0, rows, _CHUNK):
                chunk = slice(first, first + _CHUNK)
                solved = self._solve(chunk, tables, self._solved[:known, chunk])
                self._solved[known:total, chunk] = solved.T
                self._explained[chunk] += _squares(solved)
        self._known = total

    def _solve(self, rows: Ints | slice, tables: Sequence[Singles], known: Singles | None = None) -> Singles:
        """Return what some rows of the grid lack of the solution, (rows, observations), if they have `known` of it.

        Their covariances are the product of the groups' `tables` at their combinations.
        """
        first, second = (
            table.take(group.joint[rows], axis=0) for table, group in zip(tables, self._groups, strict=True)
        )
        first *= second
        count = 0 if known is None else len(known)
        if known is not None and count:
            first -= (self._lower[count:, :count].astype(np.float32) @ known).T
        corner = np.asfortranarray(self._lower[count:, count:], dtype=np.float32)
        solved: Singles = strsm(1.0, corner, first.T, lower=1, overwrite_b=1).T
        return solved

    def _among(self, rows: Ints, columns: Ints) -> Floats:
        """Return the covariances of a few rows in double precision: equal rows differ by the noise alone."""
        total = np.full((len(rows), len(columns)), np.exp(2 * self._parameters[-2]))
        for factor, (_, level) in zip(self._by_value, self._levels, strict=True):
            total *= factor[level[rows][:, None], level[columns]]
        return total

    def _tables(self, columns: Ints) -> list[Singles]:
        """Return for each group the covariances of its combinations of values with some rows' values."""
        tables = []
        for number, group in enumerate(self._groups):
            scale = np.exp(2 * self._parameters[-2]) if number == 0 else 1.0
            table = np.full((len(group.first), len(columns)), scale, dtype=np.float32)
            for axis in group.axes:
                level = self._levels[axis][1]
                table *= self._by_value[axis].astype(np.float32)[level[group.first][:, None], level[columns]]
            tables.append(table)
        return tables

    @property
    def _by_value(self) -> list[Floats]:
        """Each axis's factor between any two of its values; worked out once for the same hyperparameters."""
        if self._factors is None:
            lengths, weights = self._parameters[: len(self._levels)], self._parameters[len(self._levels) : -2]
            self._factors = [
                _factor(np.abs(values[:, None] - values), length, weight)[0]
                for (values, _), length, weight in zip(self._levels, lengths, weights, strict=True)
            ]
        return self._factors

    def _loss(self, parameters: Floats, pairs: "_Pairs") -> tuple[float, Floats]:
        """Return the negative log posterior of the hyperparameters and its gradient."""
        targets, below, axes = self._targets, pairs.below, len(self._levels)
        variance, noise = np.exp(2 * parameters[-2]), np.exp(2 * parameters[-1])
        lengths, weights = parameters[:axes][pairs.axis], parameters[axes : 2 * axes][pairs.axis]
        factor, by_length, by_weight = _factor(pairs.apart, lengths, weights)
        covariances = np.full(len(below), variance)
        for slot, cells in zip(pairs.slots, pairs.cells, strict=True):
            covariances *= factor[slot].take(cells)
        kernel = np.zeros((len(targets), len(targets)), order="F")
        kernel[np.diag_indices(len(targets))] = variance + noise + 1e-6
        kernel.T.reshape(-1)[below] = covariances
        lower, failed = dpotrf(kernel, lower=1, clean=0, overwrite_a=1)
        if failed:
            return 1e10, np.zeros_like(parameters)
        solved, _ = dpotrs(lower, targets, lower=1)
        likelihood = 0.5 * targets @ solved + np.log(lower.diagonal()).sum()
        inverse, _ = dpotri(lower, lower=1, overwrite_c=1)
        diagonal = inverse.diagonal() - solved * solved
        shares = (inverse - solved[:, None] * solved).T.reshape(-1).take(below) * covariances
        sums = [
            np.bincount(cells, shares, slot.stop - slot.start)
            for slot, cells in zip(pairs.slots, pairs.cells, strict=True)
        ]
        held, starts = np.concatenate(sums) / factor, [slot.start for slot in pairs.slots]
        by_axis = (np.add.reduceat(held * slope, starts) for slope in (by_length, by_weight))
        gradient = np.array(
            [*itertools.chain(*by_axis), variance * diagonal.sum() + 2 * shares.sum(), noise * diagonal.sum()]
        )
        off = (parameters - self._prior) / self._spread
        return float(likelihood + 0.5 * off @ off), gradient + off / self._spread


@dataclass(frozen=True)
class _Pairs:
    """The pairs of observations, each once: a covariance depends on the distances between their values alone."""

    below: Ints
    """The pairs, as places in the lower triangle without its diagonal, column by column."""
    apart: Floats
    """The distances between the values that occur, of one axis after another."""
    axis: Ints
    """The axis of each distance."""
    slots: list[slice]
    """For each axis where its distances are."""
    cells: list[Ints]
    """For each axis which of its distances each pair has."""

    @classmethod
    def of(cls, levels: Sequence[tuple[Floats, Ints]], rows: Ints) -> "_Pairs":
        first, second = np.tril_indices(len(rows), -1)
        apart, cells, slots, start = [], [], [], 0
        for values, level in levels:
            occurring, place = np.unique(level[rows], return_inverse=True)
            apart.append(np.abs(values[occurring][:, None] - values[occurring]).ravel())
            cells.append(place[first] * len(occurring) + place[second])
            slots.append(slice(start, start := start + len(apart[-1])))
        axis = np.repeat(np.arange(len(levels)), [len(a) for a in apart])
        return cls(second * len(rows) + first, np.concatenate(apart), axis, slots, cells)


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


def _squares(solved: Singles) -> Singles:
    """Return the sum of each row's squares."""
    total: Singles = np.einsum("ij,ij->i", solved, solved)
    return total


def _factor(apart: Floats, length: Floats | float, weight: Floats | float) -> tuple[Floats, Floats, Floats]:
    """Return an axis's factor at distances, and its derivatives with respect to log length and the weight's logit."""
    weight = expit(weight)
    matern, by_length = _matern(apart / np.exp(length))
    return 1 - weight + weight * matern, weight * by_length, (matern - 1) * weight * (1 - weight)


def _matern(scaled: Floats) -> tuple[Floats, Floats]:
    """Return the Matern 5/2 correlation at scaled distances and its derivative with respect to the log length scale."""
    r = _ROOT5 * scaled
    decay = np.exp(-r)
    return (1 + r + r * r / 3) * decay, r * r / 3 * (1 + r) * decay
