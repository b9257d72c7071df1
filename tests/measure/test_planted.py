"""Planted truths on simulated machines: equal, faster and slower pairs."""

import pytest

from kernelwright.records import Contract

from .planted import MACHINES, run

RUNS = 100


def share_improved(machine, speedup, contract, runs=RUNS):
    found = [run(MACHINES[machine], speedup, seed, contract).status for seed in range(runs)]
    return sum(status == "improved" for status in found) / runs


@pytest.mark.parametrize("machine", MACHINES)
def test_equal_pairs_are_improved_in_at_most_one_percent(machine):
    assert share_improved(machine, 1.0, Contract()) <= 0.01


@pytest.mark.parametrize(
    "machine", [m if i < 2 else pytest.param(m, marks=pytest.mark.long) for i, m in enumerate(MACHINES)]
)
def test_pairs_at_the_least_effect_are_improved_no_more_often_than_the_level_allows(machine):
    assert share_improved(machine, 1.02, Contract(), runs=60) <= 0.025 + 0.015


@pytest.mark.parametrize("machine", MACHINES)
def test_slower_pairs_are_never_improved(machine):
    assert share_improved(machine, 0.95, Contract(), runs=40) == 0.0


@pytest.mark.parametrize("machine", MACHINES)
def test_five_percent_is_accepted_almost_always(machine):
    assert share_improved(machine, 1.05, Contract(), runs=60) >= 0.95


@pytest.mark.long
def test_without_a_least_effect_equal_pairs_stay_within_the_level():
    assert share_improved("realistic", 1.0, Contract(least_effect=0.0), runs=120) <= 0.025
