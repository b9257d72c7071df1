"""Gains that do not carry over: named by class and ratio, a caveat or a veto, and stopped as soon as it is sure."""

import pytest

from kernelwright.measure import decide, refuted_before
from kernelwright.measure._decide import refuted
from kernelwright.records import Contract

from .test_decide import blocks, timing, verdict

REGIME = "rows=64,dim=32,regime=mixed"
CLASSES = {REGIME: "value regime", "s": "size", "rs": "size and value regime"}
VETO = Contract(unusual_regime="veto")


def confirmed(contract=None, **ratios):
    """Decide on a candidate of twice the speed whose confirm workloads have these ratios."""
    names = {"regime": REGIME}
    groups = [blocks({"eager": r}, workload=names.get(w, w), phase="confirm") for w, r in ratios.items()]
    again = timing(blocks({"eager": 2.0}, phase="confirm"), *groups).model_copy(update={"classes": CLASSES})
    first = timing(blocks({"eager": 2.0}))
    return decide(first, verdict(), [], contract or Contract(), confirmation=again)


@pytest.mark.parametrize(
    ("regime", "contract", "status"),
    [
        (0.6, None, "improved"),
        (0.53, None, "improved"),
        (0.45, None, "inconclusive"),
        (0.53, VETO, "inconclusive"),
        (0.95, VETO, "inconclusive"),
        (0.6, Contract(regime_floor=0.8), "inconclusive"),
        (1.2, VETO, "improved"),
    ],
)
def test_an_unusual_regime_is_a_caveat_or_a_veto_as_the_contract_says(regime, contract, status):
    found = confirmed(contract, regime=regime, s=1.9)
    assert found.status == status, found.reason
    assert bool(found.caveats) is (status == "improved" and regime < 1)
    assert (found.lost_on == REGIME) is (status != "improved")


def test_what_is_lost_is_named_by_class_and_ratio_without_what_is_hidden():
    found = confirmed(VETO, regime=0.53)
    assert found.lost == "0.53 times as fast as eager under another value regime"
    assert found.lost in found.reason
    assert "mixed" not in found.reason
    assert "dim" not in found.reason
    assert not found.confirmed


def test_a_caveat_says_that_the_kernel_serves_there_all_the_same():
    found = confirmed(regime=0.6)
    assert found.caveats[0] in found.reason
    assert found.caveats == (
        "0.60 times as fast as eager under an unusual value regime, in which the kernel serves all the same",
    )


@pytest.mark.parametrize(("name", "words"), [("s", "size"), ("rs", "size and value regime")])
def test_other_sizes_must_gain_whatever_the_contract_says_of_regimes(name, words):
    found = confirmed(**{name: 0.8})
    assert found.status == "inconclusive"
    assert found.lost == f"0.80 times as fast as eager under another {words}"


def test_a_slow_size_beside_a_fast_one_belongs_to_the_native_op():
    found = confirmed(s=0.9, rs=1.9)
    assert found.status == "improved"
    assert found.caveats == (
        "0.90 times as fast as eager under another size, which belongs to the native op",
    )


def test_blocks_of_the_refuter_alone_decide_and_count_for_nothing_else():
    lone = timing(blocks({"eager": 0.45}, workload=REGIME, phase="refuter", n=8))
    lone = lone.model_copy(update={"classes": CLASSES})
    assert refuted_before(lone, Contract()).lost_on == REGIME
    found = decide(lone, verdict(), [], Contract())
    assert (found.status, found.lost_on, found.speedup) == ("inconclusive", REGIME, None)
    assert found.lost == "0.45 times as fast as eager under another value regime"
    beside = timing(blocks({"eager": 2.0}), lone.blocks)
    assert decide(beside, verdict(), [], Contract()).speedup.median > 1.9
    fair = lone.model_copy(update={"blocks": tuple(blocks({"eager": 0.9}, workload=REGIME, phase="refuter"))})
    assert not refuted_before(fair, Contract()).lost_on


def test_a_confirmation_ends_where_it_is_sure_that_the_gain_is_lost():
    again = blocks({"eager": 2.0}, phase="confirm")
    for ratio, over in ((0.45, True), (0.6, False)):
        both = again + blocks({"eager": ratio}, workload=REGIME, phase="confirm")
        assert refuted(both, {"w"}, Contract(), CLASSES) is over
