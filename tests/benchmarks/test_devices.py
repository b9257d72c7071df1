"""The benchmark of software devices: kernels take turns, medians of their times, and refusals counted."""

import pytest
from benchmarks.devices import gain, table
from benchmarks.problems import OWN

from benchmarks import devices
from kernelwright.compiler.graph import NotSchedulable
from kernelwright.tasks import Problem, load_task

TIMED = {
    "problem": "softmax", "language": "wgsl", "actions": "", "off": {"schedule": 1e-7, "naive": 2e-7},
    "times_us": {"schedule": [2.0, 1.0, 9.0], "naive": [8.0, 8.0, 1.0]},
}  # fmt: skip
REFUSED = {"problem": "mlp", "language": "wgsl", "refused": "torch computes mm"}


@pytest.fixture
def problem():
    return Problem(load_task(OWN / "level1" / "softmax_rows.py", max_elements=1000))


def test_the_table_compares_medians_and_counts_refusals():
    assert gain(TIMED) == 4.0
    lines = table([TIMED, REFUSED]).splitlines()
    assert "4.00 times, off by 2.0e-07" in lines[0] and "torch computes mm" in lines[1]
    assert lines[2] == "wgsl: 1 of 2 problems printed, geomean over a naive kernel an operation 4.00"


def test_kernels_take_turns_and_are_held_against_the_truth(problem, monkeypatch):
    called = []

    def loaded(graph, program, language, own):
        share = 1.0 if not made else 0.5
        made.append(language)
        return lambda *given: called.append(share) or own[0] * share

    made = []
    monkeypatch.setattr(devices, "_loaded", loaded)
    row = devices.measure(problem, "opencl", turns=3)
    assert made == ["opencl", "opencl"] and called == [1.0, 0.5] * 4
    assert row["off"]["schedule"] < 1e-5 and row["off"]["naive"] == pytest.approx(0.5, abs=1e-5)
    assert {name: len(times) for name, times in row["times_us"].items()} == {"schedule": 3, "naive": 3}


def test_what_no_kernel_is_made_of_is_a_row_that_says_why(problem, monkeypatch):
    def unreadable(_):
        raise NotSchedulable("torch computes it")

    monkeypatch.setattr(devices, "read", unreadable)
    assert devices.measure(problem, "wgsl") == {"language": "wgsl", "refused": "torch computes it"}
