"""Intervals of paired differences and tests of samplers, on planted truths."""

import math

import numpy as np
import pytest
import torch
from tests.models.drift.changes import SAMPLERS, SHARE, TEMPERATURE

from kernelwright.errors import InputError
from kernelwright.models.drift import compare_samplers, paired, top_p

NATIVE = top_p(SHARE, TEMPERATURE)
LOGITS = 2 * torch.randn(6, 40, generator=torch.Generator().manual_seed(3))


def test_the_interval_holds_the_truth_as_often_as_it_says():
    random = np.random.default_rng(0)
    held = 0
    for _ in range(1_000):
        item = random.normal(0, 5, 12)
        found = paired(item, item + random.normal(0.3, 1, 12))
        held += found.low <= 0.3 <= found.high
    assert 0.93 < held / 1_000 < 0.97


def test_pairing_sees_what_the_spread_of_items_hides():
    random = np.random.default_rng(0)
    item = random.normal(0, 100, 30)
    found = paired(item, item + random.normal(0.5, 0.2, 30))
    assert found.low > 0
    assert found.p_value < 0.01


def test_answers_right_and_wrong_are_compared_where_they_differ():
    native, changed = [1] * 60 + [0] * 20, [1] * 48 + [0] * 12 + [0] * 18 + [1] * 2
    found = paired(native, changed)
    assert (found.native, found.changed, found.disagree) == (0.75, 0.625, 14)
    assert found.p_value == pytest.approx(2 * sum(math.comb(14, k) for k in range(3)) / 2**14)


@pytest.mark.parametrize(("native", "changed"), [([], []), ([1], [1]), ([1, 2], [1])])
def test_too_few_items_are_refused(native, changed):
    with pytest.raises(InputError, match="at least 2"):
        paired(native, changed)


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_changed_sampler_is_told_from_another_way_to_draw(name):
    sampler, drifts = SAMPLERS[name]
    found = compare_samplers(NATIVE, sampler, LOGITS)
    assert (found.p_value < 0.001) == drifts


def test_equal_samplers_seldom_differ():
    """Planted: 120 comparisons of a sampler with itself; at 5 % some six differ."""
    values = [compare_samplers(NATIVE, NATIVE, LOGITS[:1], draws=2_000, seed=s).p_value for s in range(120)]
    assert sum(v < 0.05 for v in values) <= 14
    assert sum(v < 0.5 for v in values) >= 35


def test_what_is_no_sampler_is_refused():
    with pytest.raises(InputError, match="expected tokens"):
        compare_samplers(NATIVE, lambda logits, generator: logits, LOGITS)
    with pytest.raises(InputError, match="share"):
        top_p(0.0)
