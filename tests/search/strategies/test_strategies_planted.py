"""Strategies on landscapes whose optimum is planted: each beats random edits at the same budget."""

from functools import cache

import pytest

from kernelwright.search.strategies import Means, make_strategy
from kernelwright.testing import PlantedLandscape

LONGER = {
    "beam": {"patience": 12},
    "best_of": {"n": 400},
    "greedy": {"patience": 15, "climbs": 20},
}
"""Settings with which a strategy does not end before the budget does."""


@cache
def solved(name, *, deceptive=False, evaluations=100, width=1):
    """Return with how many of ten seeds a strategy finds the optimum."""
    count = 0
    for place in (0, 1):
        landscape = PlantedLandscape(place, deceptive=deceptive)
        count += landscape.solved(
            lambda seed: make_strategy(name, Means(seed=seed), LONGER.get(name)),
            evaluations=evaluations, seeds=5, width=width,
        )  # fmt: skip
    return count


@pytest.mark.parametrize(
    "name",
    ["evolve", "map_elites", "uct", "world_model"]
    + [
        pytest.param(n, marks=pytest.mark.long)
        for n in ("bandit", "beam", "features", "graph", "greedy", "queue")
    ],
)
def test_finds_the_optimum_more_often_than_random_edits(name):
    assert solved(name) > solved("random")


def test_ways_that_are_slow_at_first_are_found_by_keeping_every_way():
    """Where the best way is slow nearly everywhere, climbing misses it and an elite of every way does not."""
    assert solved("map_elites", deceptive=True, evaluations=150) > solved(
        "evolve", deceptive=True, evaluations=150
    )


@pytest.mark.long
def test_several_moves_under_way_still_find_it():
    assert solved("evolve", width=4) > solved("random", width=4)
