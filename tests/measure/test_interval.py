"""Exact limits of a paired ratio."""

import random

import pytest
from scipy import stats

from kernelwright.measure import limits


def test_limits_of_six_values_are_the_extremes_at_two_and_a_half_percent():
    values = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
    found = limits(values, level_low=0.025, level_high=0.025)
    assert found.low == pytest.approx(0.1)
    assert found.high == pytest.approx(0.6)


def test_agrees_with_scipy():
    rng = random.Random(1)
    values = [rng.gauss(0.3, 1.0) for _ in range(15)]
    low = limits(values, level_low=0.025, level_high=0.025).low
    inside = stats.wilcoxon([v - low - 1e-9 for v in values], alternative="greater", method="exact").pvalue
    outside = stats.wilcoxon([v - low + 1e-9 for v in values], alternative="greater", method="exact").pvalue
    assert outside <= 0.025 < inside


@pytest.mark.parametrize("n", [8, 26, 80])
def test_covers_as_often_as_promised(n):
    rng = random.Random(n)
    missed = 0
    for _ in range(1000):
        values = [rng.gauss(0, 1) * (10 if rng.random() < 0.1 else 1) for _ in range(n)]
        missed += limits(values, level_low=0.05, level_high=0.05).low > 0
    assert 10 <= missed <= 70
