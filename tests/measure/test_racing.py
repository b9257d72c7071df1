"""Baselines that are left out of a measurement, on planted blocks."""

from types import SimpleNamespace

import numpy as np
import pytest

from kernelwright.measure import Bench, decide, left_out
from kernelwright.measure._block_runner import BlockRunner
from kernelwright.measure._racing import outpaced
from kernelwright.measure._standing import Standing
from kernelwright.records import Block, CheckStatus, Contract, Finding, Timing, Verdict

VERDICT = Verdict(candidate="c", findings=(Finding(check="correct", status=CheckStatus.PASS),))


def blocks(n=3, workload="w", phase="measure", **times_us):
    return [
        Block(workload=workload, order=tuple(times_us), calls=1, phase=phase, times_us=times_us)
        for _ in range(n)
    ]


def timing(*groups):
    return Timing(variants=(), blocks=tuple(b for g in groups for b in g), cache="warm", device="d")


@pytest.mark.parametrize(
    ("found", "left"),
    [
        ({"w": blocks(candidate=9.0, eager=50.0, compile=20.0)}, {"eager"}),
        ({"w": blocks(2, candidate=9.0, eager=50.0, compile=20.0)}, set()),
        ({"w": blocks(candidate=9.0, eager=29.0, compile=20.0)}, set()),
        ({"w": [*blocks(9, candidate=9.0, eager=50.0, compile=20.0),
                *blocks(1, candidate=9.0, eager=21.0, compile=20.0)]}, set()),
        ({"w": blocks(candidate=9.0, eager=50.0, compile=20.0),
          "v": blocks(candidate=9.0, eager=20.0, compile=20.0)}, set()),
        ({"w": blocks(candidate=9.0, eager=50.0, compile=20.0, openvino=50.0),
          "v": blocks(candidate=9.0, eager=50.0, compile=50.0, openvino=20.0)}, set()),
        ({"w": blocks(candidate=50.0, eager=20.0)}, set()),
    ],
    ids=["far", "few blocks", "near", "near once", "near on one workload", "each far from another", "alone"],
)  # fmt: skip
def test_who_is_far_from_the_same_other_in_every_block_is_left_out(found, left):
    assert set(outpaced(found)) == left


@pytest.mark.parametrize(
    ("times_us", "left"),
    [
        ({"eager": 90.0, "compile": 60.0, "openvino": 20.0}, {"eager"}),
        ({"eager": 60.0, "openvino": 20.0, "onnxruntime": 40.0}, {"onnxruntime"}),
    ],
)
def test_outputs_stay_comparable_with_somebodys(times_us, left):
    assert set(outpaced({"w": blocks(candidate=9.0, **times_us)})) == left


def test_equally_fast_baselines_stay_on_a_noisy_machine():
    noise = np.random.default_rng(5)
    wrong = 0
    for _ in range(2000):
        run = [
            blocks(1, candidate=5.0, **{n: 20.0 * float(np.exp(0.15 * noise.standard_t(3))) for n in "ab"})[0]
            for _ in range(3)
        ]
        wrong += bool(outpaced({"w": run}))
    assert wrong <= 10, "half a percent, at three times the noise that repeats a block"


def test_a_decision_holds_against_all_and_tells_each_ratio():
    first = blocks(candidate=10.0, eager=60.0, compile=20.0)
    measured = timing(first, blocks(9, candidate=10.0, compile=20.0))
    confirmed = timing(blocks(8, phase="confirm", candidate=10.0, compile=20.0))
    found = decide(measured, VERDICT, (), Contract(), confirmation=confirmed)
    assert (found.status, found.baseline, found.confirmed) == ("improved", "compile", True)
    assert found.against == pytest.approx({"compile": 2.0, "eager": 6.0})
    assert left_out(measured) == {"eager"}


@pytest.mark.parametrize("phase", ["measure", "confirm"])
def test_nothing_is_decided_where_a_baseline_went_that_nobody_outpaced(phase):
    fair = blocks(12, candidate=10.0, eager=21.0, compile=20.0)
    cut = [*fair[:3], *blocks(9, candidate=10.0, compile=20.0)]
    measured = timing(cut if phase == "measure" else fair)
    found = decide(
        measured, VERDICT, (), Contract(), confirmation=timing(cut if phase == "confirm" else fair)
    )
    assert found.status == "unknown"
    assert "eager" in found.reason


def test_a_race_leaves_out_of_the_blocks_to_come_and_of_the_confirmation():
    runner = BlockRunner.__new__(BlockRunner)
    runner.variants = [SimpleNamespace(name=name) for name in ("candidate", "eager", "compile")]
    bench = SimpleNamespace(
        _standing=Standing(), _baselines=SimpleNamespace(names=("eager", "compile"), notes={})
    )
    slow = blocks(candidate=9.0, eager=50.0, compile=20.0)
    for phase in ("screen", "refuter"):
        Bench._race(bench, [runner], phase, slow)
    assert len(runner.variants) == 3
    assert list(Bench._opponents(bench, [], "confirm")) == ["eager", "compile"]
    Bench._race(bench, [runner], "measure", slow)
    assert [v.name for v in runner.variants] == ["candidate", "compile"]
    assert list(Bench._opponents(bench, [], "confirm")) == ["compile"]
    bench._standing.contenders = frozenset({"eager", "compile"})
    Bench._race(bench, [], "measure", slow)
    assert list(Bench._opponents(bench, [], "confirm")) == ["eager", "compile"], (
        "near in a screening, and now far"
    )
    bench._standing.contenders = None
    Bench._race(bench, [], "measure", slow)
    Bench._race(bench, [], "measure", slow[:1])
    assert list(Bench._opponents(bench, [], "confirm")) == ["eager", "compile"], (
        "another candidate, another race"
    )
