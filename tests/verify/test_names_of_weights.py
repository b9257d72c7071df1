"""Weights under other names are found by their values at build; what cannot be told apart decides nothing."""

import pytest
import torch

from kernelwright.languages import get_language
from kernelwright.records import Candidate, SourceFile
from kernelwright.tasks import Problem, load_task
from kernelwright.tasks._weights import pairs
from kernelwright.verify import verify

TASK = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.linear = nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim)
        self.scale = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return torch.tanh(self.norm(self.linear(x) * self.scale))

rows = 24
dim = 16

def get_inputs():
    return [torch.randn(rows, dim)]

def get_init_inputs():
    return [dim]
"""
MODULE = """
import torch
import torch.nn as nn
import torch.nn.functional as F

class ModelNew(nn.Module):
    def __init__(self, dim):
        super().__init__()
        made = nn.Linear(dim, dim)
        self.w, self.b = made.weight, made.bias
        {init}

    def forward(self, x):
        {forward}
"""
ORDERED = (
    "self.s, self.h, self.g = (nn.Parameter(v) for v in (torch.ones(dim), torch.zeros(dim), torch.ones(dim)))"
)
HONEST = "y = F.linear(x, self.w, self.b) * self.s\n        return F.layer_norm(y, y.shape[-1:], self.g, self.h).tanh()"
TABLE = "self.register_buffer('table', torch.arange(3))"
STALE = "self.register_buffer('packed', self.w.detach().t().contiguous())"


@pytest.fixture(scope="module")
def judged(tmp_path_factory, pool):
    path = tmp_path_factory.mktemp("named") / "named.py"
    path.write_text(TASK)
    problem = Problem(load_task(str(path)))

    def judge(init, forward=HONEST, depth="screen"):
        source = SourceFile(path="c.py", text=MODULE.format(init=init, forward=forward))
        candidate = Candidate(sources=(source,), language="torch", entry="c.py:ModelNew", style="module")
        return verify(problem, candidate, get_language("torch").build(candidate), pool=pool, depth=depth)

    return judge


def said(verdict):
    return "; ".join(f"{f.check}: {f.message}" for f in verdict.findings if f.status != "pass")


@pytest.mark.parametrize(
    "init", [pytest.param(ORDERED, marks=pytest.mark.long), f"{ORDERED}\n        {TABLE}"]
)
def test_other_names_and_further_tensors_are_accepted(judged, init):
    verdict = judged(init, depth="full")
    assert verdict.status == "accepted", said(verdict)


def test_a_weight_that_was_folded_at_build_is_stale(judged):
    verdict = judged(
        f"{ORDERED}\n        {STALE}",
        HONEST.replace("F.linear(x, self.w, self.b)", "(x @ self.packed + self.b)"),
    )
    assert verdict.status == "unknown"
    again = judged(
        f"self.norm = nn.LayerNorm(dim)\n        self.scale = nn.Parameter(torch.ones(dim))\n        {STALE}",
        "return torch.tanh(self.norm((x @ self.packed + self.b) * self.scale))",
    )
    assert (again.status, again.failure) == ("rejected", "correct"), said(again)


def test_weights_made_alike_in_another_order_are_named_and_not_called_wrong(judged):
    verdict = judged(ORDERED.replace("self.s, self.h, self.g", "self.g, self.h, self.s"))
    assert verdict.status == "unknown"
    assert "'scale', 'norm.weight'" in said(verdict)


def test_weights_that_are_not_found_are_named(judged):
    verdict = judged(ORDERED + "\n        self.w = nn.Parameter(torch.randn(dim, dim))")
    assert verdict.status == "unknown"
    assert "'w'" in said(verdict)
    assert "'linear.weight'" in said(verdict)


def test_a_kernel_without_a_weight_is_right_only_where_that_does_not_matter(judged):
    verdict = judged(f"{ORDERED}\n        del self.s", HONEST.replace(" * self.s", ""))
    assert (verdict.status, verdict.failure) == ("unknown", ""), said(verdict)
    names = "self.norm = nn.LayerNorm(dim)"
    verdict = judged(names, "return torch.tanh(self.norm(F.linear(x, self.w, self.b)))")
    assert (verdict.status, verdict.failure) == ("rejected", "correct"), said(verdict)


def test_equal_weights_go_by_name_and_then_by_order():
    one, other = torch.ones(2), torch.zeros(2)
    found = pairs(
        {"a.weight": one, "a.bias": other, "b.weight": one, "b.bias": other, "n": torch.tensor(0)},
        {"q": one, "b.weight": one, "x.bias": other, "y.bias": other, "m": torch.tensor(0), "z": other},
    )
    assert dict(found.names) == {
        "a.weight": "q", "a.bias": "x.bias", "b.weight": "b.weight", "b.bias": "y.bias", "n": "m",
    }  # fmt: skip
    assert found.guessed == ("a.weight", "a.bias", "b.bias")
    assert (found.missing, found.own) == ((), ("z",))
