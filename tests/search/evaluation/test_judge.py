"""Decide again from what is stored."""

from kernelwright.measure import decide
from kernelwright.records import (
    Block,
    Bound,
    BoundTerm,
    Build,
    CheckStatus,
    Contract,
    Evaluation,
    Finding,
    Timing,
    Verdict,
)
from kernelwright.search import decides_alike
from kernelwright.testing import planted_candidate

ACCEPTED = Verdict(candidate="c", findings=(Finding(check="correct", status=CheckStatus.PASS),))


def bound(time_us):
    term = BoundTerm(name="dram", amount=time_us, unit="bytes", peak=1e6, source="planted")
    return Bound(workload="w", device="d", terms=(term,))


def evaluation(bounds):
    variants = ("candidate", "eager")
    blocks = tuple(
        Block(
            workload="w",
            order=variants,
            calls=1,
            phase=phase,
            times_us={"candidate": 100.0, "eager": 200.0 + i},
        )
        for phase in ("measure", "confirm")
        for i in range(12)
    )
    timing = Timing(variants=(), blocks=blocks, cache="warm", device="d")
    return Evaluation(
        candidate=planted_candidate(100.0),
        build=Build(status="ok"),
        verdict=ACCEPTED,
        timing=timing,
        decision=decide(timing, ACCEPTED, bounds, Contract()),
        stage="full",
    )


def test_bounds_count_as_they_were_in_the_decision():
    """The run began with a bound that would raise the alarm; peaks measured again had lowered it."""
    found = evaluation([bound(50.0)])
    assert found.decision.status == "improved"
    assert decides_alike(found, [bound(5000.0)], Contract())


def test_another_decision_on_the_same_blocks_is_noticed():
    found = evaluation([bound(50.0)])
    other = found.decision.model_copy(update={"status": "equal"})
    assert not decides_alike(found.model_copy(update={"decision": other}), [bound(50.0)], Contract())
