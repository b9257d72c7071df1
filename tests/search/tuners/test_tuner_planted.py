"""Tuners on spaces whose truth is planted, and on spaces recorded from our own kernels."""

import random
import statistics

import pytest

from kernelwright.records import Parameter, Space
from kernelwright.search.replay.simulation import RecordedSpace, replay
from kernelwright.search.tuners import Observation, make_tuner
from kernelwright.search.tuners.gp import _representative
from kernelwright.testing import recorded_space, recorded_space_names

CLEVER = ("annealing", "differential", "genetic", "gp", "local", "tpe")
POWERS = (1, 2, 4, 8, 16, 32, 64, 128)


def space_of(**values):
    return Space(parameters=tuple(Parameter(name=n, values=tuple(v)) for n, v in values.items()))


def separable(c):
    return 10.0 + (c["a"] - 11) ** 2 + 3 * (c["b"] - 4) ** 2


def interacting(c):
    threads = c["x"] * c["y"]
    tile = abs((c["x"] * c["tile"]).bit_length() - 7)
    return 5.0 * (1 + abs(threads.bit_length() - 9) / 3) * (1 + tile / 4) * (1.0 if c["stage"] else 1.4)


def plateau(c):
    if c["x"] * c["y"] > 1024:
        return None
    return 8.0 if c["x"] >= 16 and c["stage"] and 8 <= c["y"] <= 16 else 12.0 + c["tile"] / 16


BOWL = RecordedSpace.planted("bowl", space_of(a=range(16), b=range(16)), separable)
WIDE = space_of(x=POWERS, y=POWERS, tile=(1, 2, 4, 8), stage=(False, True))
DEEP = RecordedSpace.planted(
    "deep", space_of(a=range(16), b=range(16), c=range(8)), lambda c: separable(c) + 4 * (c["c"] - 5) ** 2
)
PRODUCT = RecordedSpace.planted("product", WIDE, interacting)
PLATEAU = RecordedSpace.planted("plateau", WIDE, plateau)


def found(recorded, name, evaluations, seeds=5, hints=()):
    """The median over seeds of the optimum over the best found."""
    fractions = []
    for seed in range(seeds):
        tuner = make_tuner(name, recorded.space, seed)
        tuner.warm_start(list(hints))
        fractions.append(recorded.best_us / replay(recorded, tuner, evaluations)[-1])
    return statistics.median(fractions)


@pytest.mark.parametrize("name", CLEVER)
def test_beats_random_where_there_is_structure(name):
    assert found(DEEP, name, 80) > found(DEEP, "random", 80)


def test_the_default_finds_the_separable_optimum():
    assert found(BOWL, "gp", 30) == 1.0


def test_the_default_finds_an_optimum_that_parameters_share():
    assert found(PRODUCT, "gp", 40) == 1.0


def test_the_default_finds_its_way_among_failures_and_plateaus():
    assert any(t is None for t in PLATEAU.times_us.values())
    assert found(PLATEAU, "gp", 40) == 1.0


def test_the_default_finds_one_good_region():
    """One configuration in sixty is good, in a corner of the space."""
    space = space_of(a=range(16), b=range(16), c=(0, 1, 2))

    def time_us(c):
        return 4.0 if c["a"] >= 13 and c["b"] <= 3 and c["c"] == 2 else 20.0 + abs(c["a"] - 12) + c["b"]

    assert found(RecordedSpace.planted("region", space, time_us), "gp", 60) == 1.0


def test_the_default_leaves_a_broad_plateau_for_a_narrow_ridge():
    """Most good ones share a cache; the best do without, where four parameters must be right at once."""
    space = space_of(
        x=(16, 32, 48, 64, 96, 128, 192, 256), y=POWERS[:5], width=range(1, 5), height=range(1, 5),
        ahead=(False, True), shared=(False, True),
    )  # fmt: skip

    def time_us(c):
        if c["x"] & (c["x"] - 1) or 3 in (c["width"], c["height"]):
            return 600.0
        if c["shared"]:
            small = 1.8 if c["x"] * c["y"] < 128 else 1.0
            return 12.0 * small * (1 + 0.004 * (c["width"] + c["height"]) + 0.01 * (not c["ahead"]))
        halvings = (c["y"] * c["width"] * 4 // c["height"]).bit_length() - 1 + (not c["ahead"])
        return 10.0 * 1.2**halvings * (1.25 if halvings else 1.0) * (1.4 if c["x"] == 16 else 1.0)

    assert found(RecordedSpace.planted("basins", space, time_us), "gp", 80) == 1.0


def test_noise_does_not_lead_the_default_astray():
    noise = random.Random(0)
    noisy = RecordedSpace.planted("noisy", BOWL.space, lambda c: separable(c) * noise.uniform(0.97, 1.03))
    assert found(noisy, "gp", 40) > 0.9


@pytest.mark.parametrize("name", CLEVER)
def test_a_good_hint_helps(name):
    """Told of another size, where everything takes three times as long, it starts near the optimum."""
    hints = [Observation(c, 3 * separable(c) + 5) for c in list(BOWL.space.configurations())[::3]]
    assert found(BOWL, name, 6, hints=hints) >= found(BOWL, name, 6)
    assert found(BOWL, name, 6, hints=hints) > 0.75


def test_a_misleading_hint_does_little_harm():
    hints = [Observation(c, 1e4 / separable(c)) for c in list(BOWL.space.configurations())[::3]]
    assert found(BOWL, "gp", 45, hints=hints) > 0.9


def test_the_default_serves_a_tiny_budget():
    """A template of a library: 48 configurations, the default told first, seven more evaluations."""
    space = space_of(unroll=(1, 2, 4, 8), below=(4096, 16384, 65536), ahead=(0, 4), online=(False, True))

    def time_us(c):
        return (
            10.0 * (1 + 0.3 * abs(c["unroll"].bit_length() - 3)) * (1.3 if c["online"] else 1.0) + c["ahead"]
        )

    recorded = RecordedSpace.planted("template", space, time_us)
    fractions = []
    for seed in range(9):
        tuner = make_tuner("gp", space, seed)
        first = {"unroll": 1, "below": 16384, "ahead": 4, "online": True}
        tuner.tell(first, time_us(first))
        fractions.append(recorded.best_us / min(replay(recorded, tuner, 8)[-1], time_us(first)))
    assert statistics.median(fractions) > 0.7


def test_a_huge_space_is_sampled():
    space = space_of(**{f"p{i}": range(8) for i in range(10)})
    tuner = make_tuner("random", space, 0)
    asked = [tuner.ask() for _ in range(3)]
    assert all(space.allows(c) for c in asked)


@pytest.mark.parametrize("name", recorded_space_names())
def test_the_default_on_our_own_kernels(name):
    recorded = recorded_space(name)
    assert len(recorded.times_us) > 100
    assert found(recorded, "gp", 30) > 0.9


def test_of_a_warm_start_with_thousands_the_best_and_a_draw_of_the_others_are_modelled():
    known = {row: None if row % 7 == 0 else 5000.0 - row for row in range(5000)}
    kept = _representative(known)
    assert len(kept) == 400 and kept.items() <= known.items()
    assert {row for row in range(4800, 5000) if row % 7} <= set(kept)
    assert any(t is None for t in kept.values()) and min(kept) < 1000
    assert _representative(dict(list(known.items())[:400])) == dict(list(known.items())[:400])
