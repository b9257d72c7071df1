"""Where a model that is wrong with its kernels begins to be wrong: planted faults in a middle layer, judged."""

import time
from types import SimpleNamespace

import pytest
from tests.models.conftest import written

from kernelwright.compiler.printers.cpp import _scalar
from kernelwright.devices import detect
from kernelwright.flow import optimize
from kernelwright.models import capture_model, load_model
from kernelwright.models._assemble import Accepted
from kernelwright.models._judged import Judged
from kernelwright.models._plan import planned
from kernelwright.models._regions import regions_of
from kernelwright.models._task import region_task
from kernelwright.models._timing import untimed
from kernelwright.models._whole import search_whole
from kernelwright.models._whole_judge import WholeJudge
from kernelwright.models._wrong_layer import layers_of
from kernelwright.records import Candidate, SourceFile

MODEL = """
import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, bend):
        super().__init__()
        self.bend, self.up, self.norm = bend, nn.Linear(32, 32), nn.LayerNorm(32)

    def forward(self, x):
        return x + self.bend(self.up(self.norm(x)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Layer(bend) for bend in (torch.tanh, torch.sin, torch.asinh, torch.cos))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def build():
    torch.manual_seed(0)
    return Net().eval(), (torch.randn(16, 32),)
"""


def kernel(region, text):
    """Return a kernel in torch for a region."""
    candidate = Candidate(
        sources=(SourceFile(path="k.py", text=text),), language="torch", entry="k.py:run", style="function"
    )
    return SimpleNamespace(region=region, candidate=candidate)


def test_layers_are_compared_in_the_order_in_which_they_run_but_not_within_kernels(tmp_path):
    capture = capture_model(load_model(written(tmp_path, "net.py", MODEL))).whole
    timed = untimed(capture)
    assert [layer.label for layer in layers_of(capture, timed)][:4] == [
        "layers.0.norm", "layers.0.up", "layers.0", "layers.1.norm",
    ]  # fmt: skip
    found = {r.label: r for r in regions_of(capture).regions}
    bend = next(r for label, r in found.items() if label.startswith("sin, add"))
    hidden = layers_of(capture, timed, [kernel(found["layers.2"], ""), kernel(bend, "")])
    assert [layer.label for layer in hidden][4:] == [
        "layers.1.up", f"layers.1 ({bend.label})", f"layers.2.norm ({bend.label})", "layers.2", "layers.3.norm",
        "layers.3.up", "layers.3",
    ]  # fmt: skip


WRONG = """
import torch


def run(x, norm, shift, up, bias):
    y = torch.nn.functional.layer_norm(x, (32,), norm, shift)
    return x + torch.asinh(torch.nn.functional.linear(y, up, bias)) * 1.01
"""


@pytest.mark.long
def test_the_layer_of_a_kernel_that_is_wrong_inside_the_model_is_named(tmp_path):
    plan = planned(written(tmp_path, "net.py", MODEL), device=detect("cpu"))
    capture, region = next(found for found in plan.regions.values() if found[1].label == "layers.2")
    task = region_task(capture, region, plan.timed[capture.name])
    accepted = Accepted(region, task, kernel(region, WRONG).candidate)
    verdict = Judged(plan, lambda *_, **__: None)
    options = {"device": "cpu", "store": tmp_path / "store", "on_event": None}
    with WholeJudge(plan, ("eager",), options, time.monotonic() + 300.0) as judge:
        assert verdict.judge(judge, [accepted]) is None
    reason = verdict.out[region.key]
    assert "rejected: correct" in reason and reason.endswith("it is wrong from layers.2 on"), reason


@pytest.mark.long
def test_the_layer_where_a_program_for_the_whole_model_goes_wrong_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(_scalar.SCALAR, "asinh", lambda a, _, kind: f"std::sinh({a[0]})")
    plan = planned(written(tmp_path, "net.py", MODEL), device=detect("cpu"))
    options = {
        "device": "cpu", "proposers": ("schedule",), "store": tmp_path / "store", "baselines": ("eager",),
        "languages": ("cpp",), "on_event": None,
    }  # fmt: skip
    found = search_whole(plan, "net", optimize, 30.0, options, lambda *_, **__: None)
    assert found.best is None and found.reason.endswith("wrong from layers.2 on"), found.reason
