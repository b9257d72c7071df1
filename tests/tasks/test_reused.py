"""A module is made once for calls that change nothing but its state, and anew where something else changes."""

from array import array

import pytest
import torch

from kernelwright.records import Contract
from kernelwright.tasks import Problem, load_task
from kernelwright.tasks._reused import Reused, marks_of

TASK = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.BatchNorm1d(width)
        self.linear = nn.Linear(width, width)
        self.register_buffer("shift", torch.zeros(width), persistent=False)
        self.seen, self.sizes, self.last = 0, [width], torch.zeros(1)

    def forward(self, x):
        {changed}
        return self.linear(self.norm(x)) + self.shift

width = 24

def get_inputs():
    return [torch.randn(16, width)]

def get_init_inputs():
    return [width]
"""
CHANGES = {
    "number": "self.seen += 1",
    "list": "self.sizes.append(1)",
    "another tensor": "self.last = x.sum()",
    "tensor in place": "self.last += 1",
    "buffer that no state holds": "self.shift += 1",
    "mode": "self.norm.eval()",
    "another layer": "self.linear = nn.Linear(x.shape[1], x.shape[1])",
    "object": "self.kept = object()",
}


def problem_of(tmp_path, changed="pass"):
    path = tmp_path / "task.py"
    path.write_text(TASK.format(changed=changed))
    return Problem(load_task(path))


def outcomes(problem, count=3):
    workload = problem.task.workloads[0]
    return [
        problem.run_reference(workload, problem.inputs(workload, seed), problem.state(workload, seed))
        for seed in range(count)
    ]


def modules(problem, monkeypatch):
    """Count the modules that are made for three calls."""
    found = []
    made = Problem._made

    def counted(self, entry, workload):
        found.append(workload)
        return made(self, entry, workload)

    outcomes(problem)
    monkeypatch.setattr(Problem, "_made", counted)
    outcomes(problem)
    return len(found)


def test_a_module_is_made_once(tmp_path, monkeypatch):
    problem = problem_of(tmp_path)
    assert modules(problem, monkeypatch) == 2, "one to copy, and one to hold a copy against"
    assert modules(Reused(problem), monkeypatch) == 0


@pytest.mark.parametrize("changed", CHANGES.values(), ids=CHANGES)
def test_but_anew_where_a_call_changes_more_than_its_state(changed, tmp_path, monkeypatch):
    problem = problem_of(tmp_path, changed)
    assert modules(Reused(problem), monkeypatch) == 3


@pytest.mark.parametrize("changed", ["pass", *CHANGES.values()], ids=["nothing", *CHANGES])
def test_the_results_are_the_same(changed, tmp_path):
    problem = problem_of(tmp_path, changed)
    for fresh, reused in zip(outcomes(problem), outcomes(Reused(problem)), strict=True):
        assert all(map(torch.equal, fresh.outputs, reused.outputs))


def test_a_run_in_float64_leaves_nothing_of_it(tmp_path):
    problem = problem_of(tmp_path)
    workload, reused = problem.task.workloads[0], Reused(problem)
    inputs, state = problem.inputs(workload, 1), problem.state(workload, 1)
    before = reused.run_reference(workload, inputs, state)
    wide = reused.run_oracle(workload, inputs, state)
    after = reused.run_reference(workload, inputs, state)
    assert wide.precision == "float64"
    assert after.outputs[0].dtype == torch.float32
    assert torch.equal(before.outputs[0], after.outputs[0])


def test_what_cannot_be_compared_has_no_marks():
    layer = torch.nn.Linear(2, 2)
    assert marks_of(layer) == marks_of(layer)
    layer.kept = object()
    assert marks_of(layer) is None
    layer.kept = array("f", [1.0])
    assert marks_of(layer) is None
    layer.kept = type("Slotted", (), {"__slots__": ("size",)})()
    assert marks_of(layer) is None


def test_an_object_is_followed_into_its_attributes():
    layer, config = torch.nn.Linear(2, 2), type("Config", (), {})()
    config.sizes, config.own, layer.config = [1, 2], config, config
    before = marks_of(layer)
    assert before is not None and marks_of(layer) == before
    config.sizes.append(3)
    assert marks_of(layer) != before


def test_another_contract_keeps_what_is_known_of_the_state(tmp_path, monkeypatch):
    problem = problem_of(tmp_path)
    workload = problem.task.workloads[0]
    state = problem.state(workload, 3)
    other = problem.under(Contract(mode="eval"))
    monkeypatch.setattr(Problem, "_made", None)
    assert other.task.contract.mode == "eval"
    assert torch.equal(other.state(workload, 3)["linear.weight"], state["linear.weight"])
