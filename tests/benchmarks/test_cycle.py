"""What the benchmark of a cycle makes of its rows."""

import pytest

from benchmarks import cycle


def test_what_a_system_adds_is_its_cycle_less_the_call_and_what_it_evaluated():
    cycle_s = {
        "call": 2e-3, "evaluator": 1e-3, "kernelwright": 4e-3, "one-at-a-time": 5e-3, "openevolve": 7e-3, "shinka": 0.3,
    }  # fmt: skip
    evaluated = {"kernelwright": 0.5, "one-at-a-time": 0.5, "openevolve": 1.0, "shinka": 1.0}
    found = cycle.shares(cycle_s, evaluated)
    assert found["overlapped"] == pytest.approx(0.2)
    assert found["kernelwright: share of the cycle"] == pytest.approx(4 / 7)
    assert found["kernelwright: share of what is added"] == pytest.approx(1.5 / 4)
    assert found["one-at-a-time: share of what is added"] == pytest.approx(2.5 / 4)


def test_a_cycle_is_counted_after_the_start_and_programs_evaluated_twice_are(tmp_path):
    (tmp_path / "log").write_text("a\nb\na\n")
    cost = cycle.Cost.of("here", [0.0, 5.0, 6.0, 7.0, 7.5, 8.0], tmp_path / "log")
    assert (cost.cycle_s, cost.evaluations, cost.duplicates) == (0.5, 3, 1)
