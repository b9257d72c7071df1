"""Several kernels of one run: each workload is served by who is best on it."""

import pytest

from kernelwright.records import DecisionStatus
from kernelwright.testing import (
    planted_candidate,
)

from .rig import Rig

SIZES = {"small": 4, "large": 8}


def test_each_workload_is_accepted_for_who_is_best_on_it(store):
    """The second is better on one workload by far; there it is put to acceptance too, and serves it."""
    even, special = (
        planted_candidate({"small": 50.0, "large": 60.0}),
        planted_candidate({"small": 300.0, "large": 40.0}),
    )
    rig = Rig(store, [even, special], workloads=SIZES)
    outcome = rig.go()
    assert {name: e.candidate for name, e in outcome.served.items()} == {"small": even, "large": special}
    assert rig.judge.asked == [(even.key, ("small", "large"), 4), (special.key, ("large",), 4)]
    assert rig.result.decision is DecisionStatus.IMPROVED
    assert rig.result.speedup.median == pytest.approx((2 * 2.5) ** 0.5)
    assert rig.result.time_us == pytest.approx((50 * 40) ** 0.5)


def test_a_workload_that_stays_native_counts_as_one(store):
    only = planted_candidate({"small": 25.0, "large": 400.0})
    rig = Rig(store, [only], workloads=SIZES)
    outcome = rig.go()
    assert list(outcome.served) == ["small"] and rig.judge.asked[0][1] == ("small",)
    assert rig.result.decision is DecisionStatus.IMPROVED
    assert rig.result.speedup.median == pytest.approx(2.0)
    assert rig.result.speedup.low < 2.0 < rig.result.speedup.high


def test_a_second_kernel_must_promise_more_than_noise(store):
    first, second = (
        planted_candidate({"small": 50.0, "large": 50.0}),
        planted_candidate({"small": 70.0, "large": 49.0}),
    )
    rig = Rig(store, [first, second], workloads=SIZES)
    rig.go()
    assert rig.judge.accepted == [first.key]


def test_where_the_best_fails_another_serves_its_workloads(store):
    liar = planted_candidate({"small": 20.0, "large": 20.0}, fault="accept")
    honest = planted_candidate({"small": 60.0, "large": 110.0})
    rig = Rig(store, [liar, honest], workloads=SIZES)
    assert {name: e.candidate for name, e in rig.go().served.items()} == {"small": honest}


def test_kernels_of_an_earlier_run_are_put_together_again(store):
    pair = [
        planted_candidate({"small": 50.0, "large": 60.0}),
        planted_candidate({"small": 300.0, "large": 40.0}),
    ]
    first, again = (Rig(store, pair, workloads=SIZES) for _ in range(2))
    assert first.go().served.keys() == again.go().served.keys() == SIZES.keys()
    assert again.judge.screened == [] and again.result.speedup == first.result.speedup
