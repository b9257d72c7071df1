"""Differences of two models on the same items, with their interval."""

import math
from collections.abc import Sequence

from scipy.stats import binomtest
from scipy.stats import t as t_distribution

from ...errors import InputError
from ...records import Record


class Paired(Record):
    """How a figure differs between two models on the same items."""

    native: float
    """Mean over items of the native model."""
    changed: float
    """Mean over items of the changed model."""
    difference: float
    """Mean of the differences, changed less native."""
    low: float
    """Lower limit of the difference, at 95 %."""
    high: float
    """Upper limit of the difference, at 95 %."""
    items: int
    """How many items."""
    disagree: int
    """Items on which the two differ."""
    p_value: float
    """Chance of a difference as large if there were none: an exact test of signs over the items that differ (McNemar's,
    where items are right or wrong)."""


def paired(native: Sequence[float], changed: Sequence[float]) -> Paired:
    """Compare figures of the same items, by Student's t on their differences.

    Args:
        native: A figure of each item by the native model, such as right (1) or wrong (0).
        changed: The same by the changed model.

    Raises:
        InputError: fewer than two items, or not as many of both.

    Example:
        >>> found = paired([1, 1, 0, 1, 0, 1, 1, 1], [1, 1, 0, 1, 0, 1, 1, 0])
        >>> found.difference, found.disagree, found.low < 0 < found.high
        (-0.125, 1, True)
    """
    if len(native) != len(changed) or len(native) < 2:
        raise InputError(
            f"{len(native)} and {len(changed)} figures were paired; expected as many of both, at least 2"
        )
    differences = [c - n for n, c in zip(native, changed, strict=True)]
    count = len(differences)
    mean = math.fsum(differences) / count
    spread = math.sqrt(math.fsum((d - mean) ** 2 for d in differences) / (count - 1) / count)
    reach = float(t_distribution.ppf(0.975, count - 1)) * spread
    up, down = sum(d > 0 for d in differences), sum(d < 0 for d in differences)
    return Paired(
        native=math.fsum(native) / count, changed=math.fsum(changed) / count, difference=mean,
        low=mean - reach, high=mean + reach, items=count, disagree=up + down,
        p_value=float(binomtest(up, up + down).pvalue) if up + down else 1.0,
    )  # fmt: skip
