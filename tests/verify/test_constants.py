"""Arguments that every draw gives alike are read all the same."""

import pytest
import torch

from kernelwright.tasks import Problem, load_task
from kernelwright.verify import Oracle, error_against, verify
from kernelwright.verify.checks import constants

TASK = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x, index):
        return x[index] * 2

rows = {rows}
dim = 48

def get_inputs():
    return [torch.randn(rows, dim), torch.zeros(40, dtype=torch.int64)]

def get_init_inputs():
    return []
"""
READ = "def run(x, index):\n    return x.index_select(0, index) * 2\n"
IGNORED = "def run(x, index):\n    return x[:1].repeat(index.shape[0], 1) * 2\n"


@pytest.fixture
def judged(tmp_path, pool, make):
    def judged(body, rows, **more):
        path = tmp_path / "task.py"
        path.write_text(TASK.format(rows=rows))
        return verify(Problem(load_task(str(path), fixed=["rows"])), *make(body), pool=pool, **more)

    return judged


def test_who_ignores_them_is_rejected(judged):
    assert judged(IGNORED, 8).failure == "constants-followed"


@pytest.mark.long
def test_nothing_else_would_see_it(judged):
    found = judged(IGNORED, 8, disabled=frozenset({"constants-followed"}))
    assert found.status == "accepted", [f for f in found.findings if f.status != "pass"]


def test_who_reads_them_is_accepted(judged):
    assert judged(READ, 8).status == "accepted"


def test_integers_that_the_reference_refuses_are_not_asked_for(judged):
    assert judged(READ, 1).status == "accepted"


SCALED = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.full((48,), 2.0))
        self.register_buffer("shift", torch.tensor(0.0))
        self.register_buffer("calls", torch.tensor(0))

    def forward(self, x):
        return torch.softmax(x * self.scale + self.shift, -1) * (1 + self.shift)

rows = 16

def get_inputs():
    return [torch.randn(rows, 48)]

def get_init_inputs():
    return []
"""
BODIES = {
    "read": ("return torch.softmax(x * scale + shift, -1) * (1 + shift)", ""),
    "scale ignored": ("return torch.softmax(x * 2.0 + shift, -1) * (1 + shift)", "constants-followed"),
    "shift ignored": ("return torch.softmax(x * scale, -1)", "constants-followed"),
}


@pytest.mark.parametrize("name", BODIES)
def test_buffers_that_no_seed_varies(name, tmp_path, pool, make):
    path = tmp_path / "scaled.py"
    path.write_text(SCALED)
    body, failure = BODIES[name]
    candidate = make(f"def run(x, scale, shift, calls):\n    {body}\n")
    assert verify(Problem(load_task(str(path))), *candidate, pool=pool).failure == failure


WEIGHTED = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x, weight):
        return (x * weight).sum() / weight.sum().clamp(min=1.0)

rows, dim = 16, 48

def get_inputs():
    return [torch.rand(rows, dim), torch.ones(rows, dim)]

def get_init_inputs():
    return []
"""


def test_weights_change_where_another_argument_is_large(tmp_path):
    path = tmp_path / "weighted.py"
    path.write_text(WEIGHTED)
    oracle = Oracle(Problem(load_task(str(path))))
    workload = next(w for w in oracle.task.workloads if w.arguments[0].shape == (16, 48))
    row = torch.rand(48, generator=torch.Generator().manual_seed(0))
    inputs = (row.repeat(16, 1), torch.ones(16, 48))  # every quarter has the mean of the whole
    case = oracle.make(workload, 1, inputs, {})
    ignored = case.outputs[0].native
    refused = [not error_against(ignored, other.outputs[0]).ok for other in constants._varied(oracle, case)]
    assert refused and refused[-1]
