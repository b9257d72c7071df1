"""What the judge knows already is not worked out again, and what it does not know is."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kernelwright.sandbox import Fetched
from kernelwright.tasks import Problem, load_task
from kernelwright.verify import Oracle
from kernelwright.verify.checks import correct, kept

TASK = """import torch
import kernelwright as kw
@kw.task(x="float32[rows, columns]", workloads=[{"rows": 4, "columns": 33}])
def f(x):
    return torch.softmax(x, -1)
"""


@pytest.fixture
def oracle(tmp_path) -> Oracle:
    (tmp_path / "task.py").write_text(TASK)
    return Oracle(Problem(load_task(tmp_path / "task.py")))


def test_bits_that_were_right_are_right_again_and_no_others_are(oracle, monkeypatch) -> None:
    case = oracle.case(oracle.task.workloads[0], 1)
    held: list[Any] = []
    hold = correct.error_against
    monkeypatch.setattr(correct, "error_against", lambda *a: held.append(a) or hold(*a))
    right = case.outputs[0].native
    first, again = (correct.compare_outputs(name, _of(right), case) for name in ("correct", "repeatable"))
    assert len(held) == 1 and first.status == again.status == "pass"
    assert (again.check, again.figures) == ("repeatable", first.figures)
    wrong = right.clone()
    wrong[0, 0] += 1
    assert correct.compare_outputs("correct", _of(wrong), case).status == "fail" and len(held) >= 2
    assert correct.compare_outputs("correct", _of(wrong), case).status == "fail", "a failure is not kept"
    other = oracle.case(oracle.task.workloads[0], 2)
    assert correct.compare_outputs("correct", _of(right), other).status == "fail", "other inputs"


def test_an_oracle_for_other_seeds_shares_relations_and_refusals_but_no_case(oracle, monkeypatch) -> None:
    workload = oracle.task.workloads[0]
    found, case = oracle.relations(workload), oracle.case(workload, 1)
    fresh = oracle.afresh()
    monkeypatch.setattr("kernelwright.verify._case.discover", lambda *_: pytest.fail("found before"))
    assert fresh.relations(workload) is found and found
    assert fresh.refusals is oracle.refusals
    assert fresh.case(workload, 1) is not case


def test_outputs_of_a_few_calls_at_a_time_are_kept_between_two_looks(monkeypatch) -> None:
    calls: list[int] = []
    worker = SimpleNamespace(call=lambda sets, deadline_s: calls.append(len(sets)))
    placed = SimpleNamespace(worker=worker, number=3, case=SimpleNamespace(outputs_bytes=24 << 20))
    trial = SimpleNamespace(dropped=lambda p: calls.append(0) or p, limit_s=lambda: 1.0)
    assert kept._called(trial, placed, 5) is placed
    assert calls == [0, 2, 0, 2, 0, 1], "all five, two at a time"
    calls.clear()
    placed.case.outputs_bytes = 0
    kept._called(trial, placed, 40)
    assert calls == [0, 40]


def _of(output: torch.Tensor) -> Fetched:
    return Fetched((output,), (), 0.0)
