"""Exact confidence limits of a paired ratio, from as few as six blocks.

The estimate is the pseudo-median (Hodges and Lehmann 1963) of paired log ratios, its limits are those of the
signed-rank test (Wilcoxon 1945), exact for any noise that treats the two variants of a block alike, which the
random order ensures. No resampling, so the same blocks give the same limits to the last digit, at any level.
Source: Hollander, Wolfe and Chicken, Nonparametric Statistical Methods, sections 3.1 to 3.3.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_EXACT = 256
"""Blocks up to which the null distribution is enumerated; above, its normal approximation is used."""


@dataclass(frozen=True)
class Limits:
    """Pseudo-median and one-sided limits, in log ratio."""

    median: float
    low: float
    """Lower limit at its level; minus infinity if there are too few values for that level."""
    high: float
    """Upper limit at its level; infinity if there are too few values for that level."""
    least: float
    """The smallest value seen."""
    most: float
    """The largest value seen."""


def limits(log_ratios: Sequence[float], *, level_low: float, level_high: float) -> Limits:
    """Estimate the centre of paired log ratios with confidence limits.

    Args:
        log_ratios: One value per block, independent, at least one.
        level_low: Probability allowed that the centre is below `low`.
        level_high: Probability allowed that the centre is above `high`.

    Example:
        >>> found = limits([0.10, 0.12, 0.09, 0.11, 0.13, 0.10], level_low=0.025, level_high=0.025)
        >>> round(found.median, 3), found.low > 0.08
        (0.11, True)
        >>> limits([0.1, 0.1], level_low=0.025, level_high=0.025).low
        -inf
    """
    values = np.asarray(log_ratios, dtype=np.float64)
    walsh = _walsh_averages(values)
    n = len(values)
    below, above = _rank(n, level_low), _rank(n, level_high)
    return Limits(
        median=float(np.median(walsh)),
        low=float(walsh[below - 1]) if below else -math.inf,
        high=float(walsh[len(walsh) - above]) if above else math.inf,
        least=float(values.min()),
        most=float(values.max()),
    )


def _walsh_averages(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sorted averages of all pairs, including each value with itself (Walsh averages)."""
    i, j = np.triu_indices(len(values))
    return np.sort((values[i] + values[j]) / 2)


@functools.cache
def _rank(n: int, level: float) -> int:
    """Return the largest rank whose Walsh average is a limit at the level; 0 if there is none.

    Example:
        >>> _rank(6, 0.05), _rank(5, 0.025)
        (3, 0)
    """
    if n > _EXACT:
        from statistics import NormalDist

        spread = math.sqrt(n * (n + 1) * (2 * n + 1) / 24)
        return max(0, math.floor(n * (n + 1) / 4 + NormalDist().inv_cdf(level) * spread))
    return int(np.searchsorted(_cumulative(n), level, side="right"))


@functools.cache
def _cumulative(n: int) -> NDArray[np.float64]:
    """Return P(T <= t) of the signed-rank statistic for t = 0, 1, ... under the null."""
    probability = np.zeros(n * (n + 1) // 2 + 1)
    probability[0] = 1.0
    for rank in range(1, n + 1):
        shifted = np.zeros_like(probability)
        shifted[rank:] = probability[:-rank]
        probability = (probability + shifted) / 2
    return np.cumsum(probability)
