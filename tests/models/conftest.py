"""Small models that every test of models can use."""

import textwrap
from dataclasses import replace

import pytest
import torch

import kernelwright.models._dynamo as backend
from kernelwright.devices import detect
from kernelwright.models import _look as looking
from kernelwright.models import _plan as planning
from kernelwright.models._look import gain_of
from kernelwright.models._regions import Found, regions_of

SMALL = """
import torch
from torch import nn


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(16))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(Norm() for _ in range(3))
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(3))

    def forward(self, x, scale: float = 1.0):
        for norm, layer in zip(self.norms, self.layers):
            x = x + layer(norm(x)) * scale
        return x


def build():
    torch.manual_seed(0)
    return Small().eval(), (torch.randn(4, 16),)
"""


@pytest.fixture
def small(tmp_path):
    """The path of a model of three equal layers."""
    return written(tmp_path, "small.py", SMALL)


def written(folder, name, text):
    """Write a file of that text and return its path."""
    path = folder / name
    path.write_text(textwrap.dedent(text))
    return path


def two_regions(capture):
    """Find the regions of the norms and the layers alone: each that is looked at takes a test's time."""
    found = regions_of(capture)
    kept = tuple(r for r in found.regions if r.label in {"norms.0", "layers.0"})
    return Found(kept, found.native)


@pytest.fixture
def graphs(monkeypatch):
    """Let the graphs that Inductor would compile run as they are, and list them: compiling takes many seconds."""
    compiled = []

    def as_it_is(graph, inputs=None):
        compiled.append(graph)
        return graph.forward

    monkeypatch.setattr(backend, "_inductor", as_it_is)
    monkeypatch.setattr(backend, "_lazily", as_it_is)
    torch._dynamo.reset()
    with torch.no_grad():
        yield compiled
    torch._dynamo.reset()


def unhurried(patched):
    """Let plans expect decisions in seconds, however busy the machine is that runs the tests."""
    patched.setattr(planning, "PLANS", 0.1)
    patched.setattr(planning, "stretch_of", lambda *_: 1.0)


@pytest.fixture(scope="session")
def small_plan(tmp_path_factory):
    """The plan of the small model, made once."""
    path = written(tmp_path_factory.mktemp("small"), "small.py", SMALL)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(looking, "LEAST_SHARE", 0.0)
        patched.setattr(planning, "regions_of", two_regions)
        unhurried(patched)
        patched.setattr(
            looking, "gain_of", lambda time_us, _: gain_of(time_us, 0.0)
        )  # whatever the machine's bounds
        made = planning.planned(path, device=detect("cpu"))
    assert made.plan.whole is not None
    whole = made.plan.whole.model_copy(update={"chosen": True})  # whatever else runs here
    return replace(made, plan=made.plan.model_copy(update={"whole": whole}))
