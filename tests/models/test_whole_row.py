"""The plan's row for one program of the whole model: what it is bounded by, and the task that it leaves for later."""

import pytest
from tests.models.conftest import two_regions, written

import kernelwright.models._plan as planning
from kernelwright.devices import detect
from kernelwright.tasks.capture import _capture as capturing

BRANCHING = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(32) for _ in range(2))
        self.layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(2))

    def forward(self, x):
        if not torch.compiler.is_exporting() and bool((x > 1e30).all()):  # as masks of transformers do
            return x
        for norm, layer in zip(self.norms, self.layers):
            x = x + torch.relu(layer(norm(x)))
        return x


def build():
    torch.manual_seed(0)
    return Net().eval(), (torch.randn(16, 32),)
"""


@pytest.fixture
def plan_of(monkeypatch, tmp_path):
    monkeypatch.setattr(planning, "regions_of", two_regions)

    def plan(text):
        return planning.planned(written(tmp_path, "net.py", text), device=detect("cpu"))

    return plan


def test_a_model_that_runs_on_no_fake_tensors_is_bounded_by_the_graph_that_is_known(plan_of, monkeypatch):
    def again(*_):
        raise AssertionError("exported once more")

    monkeypatch.setattr(capturing, "_export", again)
    found = plan_of(BRANCHING)
    assert found.plan.whole is not None, found.plan.native
    branch, result = BRANCHING.index("        if not"), BRANCHING.index("        for norm")
    plain = plan_of(BRANCHING[:branch] + BRANCHING[result:])
    assert found.plan.whole.bound_us == pytest.approx(plain.plan.whole.bound_us, rel=1e-6)


def test_the_model_as_a_task_is_made_once(plan_of, monkeypatch):
    found = plan_of(BRANCHING)
    monkeypatch.setattr(planning, "whole_task", None)
    assert found.as_task().task.workloads[0].arguments[0].shape == (16, 32)
