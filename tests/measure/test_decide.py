"""What follows from blocks, verdict, bounds and contract."""

import math

import pytest

from kernelwright.measure import decide
from kernelwright.measure._decide import EXACT, NOT_HELD
from kernelwright.records import (
    Block,
    Bound,
    BoundTerm,
    CheckStatus,
    Contract,
    Finding,
    Timing,
    Variant,
    Verdict,
)

CONTRACT = Contract()


def verdict(status=CheckStatus.PASS):
    return Verdict(candidate="c", findings=(Finding(check="correct", status=status, message="off by far"),))


def blocks(ratios, n=12, workload="w", phase="measure", base=1000.0, repeated=False):
    """Blocks in which each baseline takes `ratio` times the candidate's time, with a little jitter."""
    return [
        Block(
            workload=workload,
            order=("candidate", *ratios),
            calls=1,
            phase=phase,
            repeated=repeated,
            times_us={"candidate": base, **{k: base * r * (1 + 0.001 * (i % 5)) for k, r in ratios.items()}},
        )
        for i in range(n)
    ]


def timing(*groups):
    return Timing(variants=(), blocks=tuple(b for g in groups for b in g), cache="warm", device="d")


def bound(time_us, workload="w"):
    term = BoundTerm(name="dram", amount=time_us, unit="bytes", peak=1e6, source="test")
    return Bound(workload=workload, device="d", terms=(term,))


def test_faster_and_confirmed_is_improved_against_the_faster_baseline():
    fast = {"eager": 1.5, "compile": 1.3}
    found = decide(timing(blocks(fast)), verdict(), [], CONTRACT, confirmation=timing(blocks(fast)))
    assert (found.status, found.baseline, found.confirmed) == ("improved", "compile", True)
    assert found.speedup.low > 1.29
    assert found.blocks == 12


@pytest.mark.parametrize("held", [True, False])
def test_a_gain_on_a_gpu_that_was_not_held_has_a_caveat(held):
    told = {"device_us": {"candidate": 900.0}, "taken_us": {"candidate": 0.0} if held else {}}
    measured = timing([b.model_copy(update=told) for b in blocks({"eager": 1.5})])
    found = decide(measured, verdict(), [], CONTRACT, confirmation=measured)
    assert found.status == "improved"
    assert (NOT_HELD in found.caveats) == (NOT_HELD in found.reason) == (not held)
    assert EXACT in found.caveats


def test_a_gain_on_a_cpu_says_nothing_of_a_gpu():
    measured = timing(blocks({"eager": 1.5}))
    assert not decide(measured, verdict(), [], CONTRACT, confirmation=measured).caveats


def test_without_confirmation_nothing_is_improved():
    found = decide(timing(blocks({"eager": 1.5})), verdict(), [], CONTRACT)
    assert found.status == "inconclusive"
    assert not found.confirmed


def test_a_confirmation_that_disagrees_stops_it():
    first, again = timing(blocks({"eager": 1.5})), timing(blocks({"eager": 1.0}))
    assert decide(first, verdict(), [], CONTRACT, confirmation=again).status == "inconclusive"


def test_one_baseline_that_is_not_beaten_is_enough_to_refuse():
    found = decide(
        timing(blocks({"eager": 2.0, "compile": 1.0})), verdict(), [], CONTRACT,
        confirmation=timing(blocks({"eager": 2.0, "compile": 1.0})),
    )  # fmt: skip
    assert found.status == "equal"


def test_one_slow_workload_prevents_an_improvement():
    both = timing(blocks({"eager": 2.0}), blocks({"eager": 0.9}, workload="v"))
    found = decide(both, verdict(), [], CONTRACT, confirmation=both)
    assert found.status == "slower"
    assert "v" in found.reason


def test_slow_confirm_workloads_are_named_for_the_guard():
    first = timing(blocks({"eager": 2.0}))
    groups = [blocks({"eager": r}, workload=w) for w, r in (("w", 2.0), ("a", 2.0), ("b", 0.8))]
    found = decide(first, verdict(), [], CONTRACT, confirmation=timing(*groups))
    assert found.status == "improved"
    assert "b" in found.reason
    assert {w.workload for w in found.workloads} == {"w", "a", "b"}


def test_faster_than_physics_is_an_alarm():
    fast = timing(blocks({"eager": 2.0}, base=100.0))
    found = decide(fast, verdict(), [bound(200.0)], CONTRACT, confirmation=fast)
    assert found.status == "unknown"
    assert found.alarms == ("faster-than-physics",)


@pytest.mark.parametrize("value", [0.0, -1.0, math.inf])
def test_impossible_times_are_an_alarm(value):
    broken = timing(
        blocks({"eager": 2.0}),
        [blocks({"eager": 2.0})[0].model_copy(update={"times_us": {"candidate": value}})],
    )
    assert decide(broken, verdict(), [], CONTRACT, confirmation=broken).alarms == ("impossible-time",)


@pytest.mark.parametrize(
    ("status", "decided"), [(CheckStatus.FAIL, "rejected"), (CheckStatus.UNKNOWN, "unknown")]
)
def test_the_verdict_comes_first(status, decided):
    fast = timing(blocks({"eager": 2.0}))
    found = decide(fast, verdict(status), [], CONTRACT, confirmation=fast)
    assert found.status == decided
    assert "off by far" in found.reason


def test_three_blocks_disturbed_by_load_do_not_stop_a_candidate():
    """Each ratio is bad, but by load on the candidate's visits: its quietest is as fast as the baseline."""
    times = ((1000.0, 2000.0), (1400.0, 2800.0), (700.0, 1300.0))
    found = tuple(
        Block(workload="w", order=("eager", "candidate"), calls=1, times_us={"eager": e, "candidate": c})
        for e, c in times
    )
    assert decide(timing(found), verdict(), [], CONTRACT).status == "inconclusive"


@pytest.mark.parametrize("slack, status", [(0.1, "unknown"), (0.5, "improved")])
def test_the_bound_says_how_much_is_forgiven(slack, status):
    fast = timing(blocks({"eager": 2.0}))
    least = bound(1500.0).model_copy(update={"slack": slack})
    assert decide(fast, verdict(), [least], CONTRACT, confirmation=fast).status == status


def test_clearly_slower_needs_three_blocks_only():
    assert decide(timing(blocks({"eager": 0.5}, n=3)), verdict(), [], CONTRACT).status == "slower"
    assert decide(timing(blocks({"eager": 0.5}, n=2)), verdict(), [], CONTRACT).status == "inconclusive"


def test_repeated_blocks_do_not_count():
    odd = blocks({"eager": 9.0}, repeated=True)
    kept = blocks({"eager": 1.0})
    assert decide(timing(kept, odd), verdict(), [], CONTRACT).speedup.median < 1.01


def test_best_of_many_needs_more():
    few = timing(blocks({"eager": 1.5}, n=8))
    assert decide(few, verdict(), [], CONTRACT, confirmation=few).status == "improved"
    assert decide(few, verdict(), [], CONTRACT, tried=1000, confirmation=few).status == "inconclusive"


def test_the_same_records_give_the_same_decision_from_the_store():
    fast = timing(blocks({"eager": 1.5}))
    stored = timing(blocks({"eager": 1.5}), blocks({"eager": 1.5}, phase="confirm"))
    again = Timing.from_json(stored.to_json())
    assert (
        decide(again, verdict(), [], CONTRACT).to_json()
        == decide(fast, verdict(), [], CONTRACT, confirmation=fast).to_json()
    )


def test_too_few_blocks_have_a_median_and_no_limits():
    found = decide(timing(blocks({"eager": 1.5}, n=3)), verdict(), [], CONTRACT)
    assert found.status == "inconclusive"
    assert found.speedup.median == pytest.approx(1.5, rel=0.01)
    assert found.speedup.low is None
    assert '"low":null' in found.to_json()
    assert "no limits yet" in found.reason


@pytest.mark.parametrize(("frozen", "told"), [(1.2, True), (1.4, False)])
def test_the_hardest_baseline_is_told_to_be_no_choice_where_weights_change(frozen, told):
    found = decide(timing(blocks({"eager": 1.3, "compile-freezing": frozen})), verdict(), [], CONTRACT)
    assert ("compile-freezing builds the weights in" in found.reason) == told


@pytest.mark.parametrize("weights", [True, False])
def test_a_baseline_builds_in_what_weights_there_are(weights):
    measured = timing(blocks({"eager": 1.3, "openvino": 1.2})).model_copy(update={"weights": weights})
    found = decide(measured, verdict(), [], CONTRACT)
    assert found.baseline == "openvino"
    assert ("builds the weights in" in found.reason) == weights


@pytest.mark.parametrize(("start_us", "named"), [(1e4, False), (1e9, True)])
def test_a_start_that_does_not_pay_back_is_named(start_us, named):
    variants = tuple(
        Variant(name=name, content="", symbol="", worker=1, first_call_us=time_us, prepare_us=7.0)
        for name, time_us in (("candidate", start_us), ("eager", 5000.0))
    )
    measured = timing(blocks({"eager": 1.5})).model_copy(update={"variants": variants})
    found = decide(measured, verdict(), [], CONTRACT, confirmation=timing(blocks({"eager": 1.5})))
    assert found.status == "improved"
    assert ("start-up pays back after" in found.reason) == named
    assert found.start_up.prepare_us == 7
    assert found.start_up.payback_calls == pytest.approx((start_us - 5000) / 500, rel=0.02)
    assert found.start_up.baseline_us == 5007


def test_warm_blocks_stand_beside_a_decision_on_cold_ones_and_never_in_it():
    fast = {"eager": 1.5, "compile": 1.3}
    again = blocks(fast, phase="confirm")
    without = decide(timing(blocks(fast)), verdict(), [], CONTRACT, confirmation=timing(again))
    slow = blocks({"eager": 0.9, "compile": 0.8}, n=5, phase="warm")
    found = decide(timing(blocks(fast)), verdict(), [], CONTRACT, confirmation=timing(again, slow))
    assert found.workloads[0].warm_speedup == pytest.approx(0.8, rel=0.01)
    assert found.workloads[0].model_copy(update={"warm_speedup": None}) == without.workloads[0]
    assert found.model_copy(update={"workloads": without.workloads}) == without
    stored = decide(timing(blocks(fast), again, slow), verdict(), [], CONTRACT)
    assert stored == found
