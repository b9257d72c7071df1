"""Whole numbers that are made of constants alone are the same in every call, however a kernel rounds."""

import math

import pytest
import torch

from kernelwright.tasks import Recorded, Rounding
from kernelwright.tasks.numerics._oracle import in_float64

EPS = 2.0**-23
POSITIONS = torch.arange(64).double()


def buckets(positions):
    """Put distances into buckets of equal ratios: three of them fall on a border, 16, 32 and 64."""
    far = 8 + (torch.log(positions.float() / 8) / math.log(16) * 8).to(torch.long)
    return torch.where(positions < 8, positions.long(), far.clamp(max=15))


def rounded(call, seed, mode=Rounding):
    return in_float64(call, mode(EPS, seed))


@pytest.mark.parametrize("seed", range(4))
def test_buckets_of_positions_stay(seed):
    exact = in_float64(lambda: buckets(torch.arange(64)))
    assert torch.equal(rounded(lambda: buckets(torch.arange(64)), seed), exact)


def test_what_is_made_of_an_input_jumps():
    exact = in_float64(lambda: buckets(POSITIONS))
    assert any(not torch.equal(rounded(lambda: buckets(POSITIONS), seed), exact) for seed in range(8))


def test_constants_that_are_no_whole_numbers_are_rounded_as_ever():
    def angles():
        return torch.cos(torch.arange(64).float() * 0.1)

    off = (rounded(angles, 0) - in_float64(angles)).abs().max()
    assert EPS / 20 < off < 100 * EPS


@pytest.mark.parametrize("mode", [Rounding, Recorded])
def test_in_place_steps_and_views_are_followed(mode):
    def floors():
        x = torch.ones(4)
        x.mul_(0.3)
        x[1:].add_(torch.arange(3) * 0.7)
        return (x * 10).floor(), x > 1.0, x

    exact, found = in_float64(floors), rounded(floors, 1, mode)
    assert torch.equal(found[0], exact[0]) and torch.equal(found[1], exact[1])
    assert not torch.equal(found[2], exact[2])


def test_a_constant_that_an_input_is_written_into_is_none_any_more():
    x = torch.full((64,), 1.0 / 3, dtype=torch.float64)

    def written():
        held = torch.zeros(64)
        row = held.view(8, 8)
        held.copy_(x / 7)
        return (row * 1e9).floor()

    assert not torch.equal(rounded(written, 0), in_float64(written))


def test_choices_among_constants_are_recorded_as_they_are():
    with Recorded(EPS, seed=0) as mode:
        in_float64(lambda: None)
        constant = torch.arange(3, dtype=torch.float64) / 3
        _ = constant > 0.5
        _ = (torch.tensor([0.1, 0.2]).double() / 3) > 0.05
    assert torch.equal(mode.values[0][0], torch.arange(3, dtype=torch.float64) / 3)
    assert not torch.equal(mode.values[1][0], torch.tensor([0.1, 0.2]).double() / 3)
