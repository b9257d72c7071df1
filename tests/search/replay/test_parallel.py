"""Searches on many devices, simulated: what is asked, told, lost and waited for."""

import pytest

from kernelwright.search.replay.parallel import Devices, parallel_search
from kernelwright.search.replay.serial import serial_search
from kernelwright.search.strategies import Means, make_strategy, strategy_names
from kernelwright.testing import PlantedLandscape


def searched(devices, *, name="evolve", seconds=50.0, seed=3, **more):
    landscape = PlantedLandscape(seed=seed)
    return parallel_search(
        make_strategy(name, Means(seed=0)),
        landscape.edit,
        landscape.evaluate,
        devices,
        seconds=seconds,
        **more,
    )


@pytest.mark.parametrize("name", strategy_names())
def test_on_one_device_it_is_the_serial_search(name):
    landscape = PlantedLandscape(seed=3)
    found = searched(Devices(1, (1.0,)), name=name, seconds=40.0)
    alone = serial_search(
        make_strategy(name, Means(seed=0)), landscape.edit, landscape.evaluate, evaluations=len(found.found)
    )
    assert [score for _, score in found.found] == [one.score or 0.0 for one in alone.found]
    assert found.utilisation == 1.0 and [s for s, _ in found.found] == [
        1.0 + n for n in range(len(found.found))
    ]


def test_a_round_waits_for_its_straggler_and_what_comes_singly_does_not():
    times = (1.0,) * 9 + (10.0,)
    rounds, single = (searched(Devices(8, times, synchronous=s), name="random") for s in (True, False))
    assert single.utilisation > 0.9 > 0.5 > rounds.utilisation
    assert len(single.found) > 1.5 * len(rounds.found)


def test_results_of_a_round_are_told_together():
    found = searched(Devices(4, (1.0, 2.0), synchronous=True), name="random", seconds=20.0)
    seconds = [s for s, _ in found.found]
    assert all(seconds.count(s) == 4 for s in seconds)


@pytest.mark.parametrize("synchronous", [True, False])
def test_what_is_lost_is_begun_again_and_counts_once(synchronous):
    sound = searched(Devices(4, (1.0,), synchronous=synchronous), name="random", seconds=30.0)
    lossy = searched(Devices(4, (1.0,), lost=0.3, synchronous=synchronous), name="random", seconds=30.0)
    assert sound.lost_s == 0 < lossy.lost_s and 0 < len(lossy.found) < len(sound.found)
    assert lossy.useful_s == len(lossy.found)
    assert lossy.useful_s + lossy.lost_s <= 4 * lossy.seconds


def test_stragglers_take_longer():
    even, uneven = (searched(Devices(4, (1.0,), straggling=s), name="random") for s in (0.0, 0.2))
    assert len(even.found) == 200 and len(uneven.found) < 120


def test_it_ends_where_it_is_enough():
    found = searched(Devices(4, (1.0,)), seconds=1e6, enough=1.5)
    assert found.best >= 1.5 and found.reached(1.5) == (found.seconds, found.reached(1.5)[1])
    assert found.reached(1e9)[0] == float("inf")


def test_a_strategy_that_has_no_move_ready_leaves_devices_idle():
    wide, narrow = (searched(Devices(c, (1.0,)), name="rounds", seconds=20.0) for c in (16, 1))
    assert wide.utilisation < 0.5 < narrow.utilisation
