"""Relations: found where the algebra has them, demanded of candidates, and of no honest one too much."""

import pytest
import torch

from kernelwright.records import Split
from kernelwright.tasks import Problem, load_task
from kernelwright.verify import Oracle, verify
from kernelwright.verify._relations import CHANGES, Relation, discover, prepared

TASK = """
import torch
import kernelwright as kw

@kw.task(x="float32[rows, dim]", workloads=[{{"rows": 8, "dim": 32}}], hidden=[{{"rows": 3, "dim": 17}}], confirm=[])
def op(x):
    return {body}
"""
KNOWN = {
    "torch.softmax(x, -1)": {
        "shift": "unchanged",
        "rows": "in the same order",
        "columns": "in the same order",
    },
    "x.sum(-1)": {
        "scale": "times 4",
        "mirror": "times -1",
        "rows": "in the same order",
        "columns": "in the same order",
    },
    "x.mean()": {
        "scale": "times 4",
        "mirror": "times -1",
        "shift": "shifted alike",
        "rows": "in the same order",
    },
    "torch.nn.functional.normalize(x)": {"scale": "unchanged", "mirror": "times -1"},
    "x.square().sum(-1)": {"scale": "times 16", "mirror": "unchanged"},
    "x.cumsum(-1)": {"scale": "times 4", "mirror": "times -1", "rows": "in the same order"},
}
"""Functions and forms that must be among those found, by change."""
HONEST = "def run(x):\n    e = (x - x.amax(-1, keepdim=True)).exp()\n    return e / e.sum(-1, keepdim=True)\n"
FAR = (
    "def run(x):\n    y = torch.softmax(x, -1)\n    centre = abs(float(x.mean()))\n"
    "    return torch.zeros_like(y) if 60 <= centre < 1e30 else y\n"
)
"""Wrong far from zero, further than a mean of large values is, and right where it is no number."""


@pytest.fixture
def made(tmp_path):
    def make(body):
        path = tmp_path / "op.py"
        path.write_text(TASK.format(body=body))
        return Problem(load_task(str(path)))

    return make


@pytest.mark.parametrize("body", KNOWN)
def test_what_holds_is_found(body, made):
    problem = made(body)
    (workload,) = problem.task.split(Split.SEARCH)
    found = {r.change: r.forms[0].name for r in discover(problem, workload)}
    assert KNOWN[body].items() <= found.items()


def test_what_does_not_hold_is_not_found(made):
    problem = made("torch.sin(x).cumsum(0).cumsum(1)")
    (workload,) = problem.task.split(Split.SEARCH)
    assert {r.change for r in discover(problem, workload)} == {"mirror"}


def test_what_overflows_is_no_relation(made):
    """In float64 it is finite, and four times that is not: infinity is within any share of itself."""
    problem = made("x * 4e307")
    assert not [r for r in discover(problem, problem.task.split(Split.SEARCH)[0]) if r.change == "scale"]


def test_a_shift_is_exact():
    x = torch.randn(100, generator=torch.Generator().manual_seed(0))
    (base,) = prepared("shift", [x], 0)
    assert torch.equal((base + 64.0).double(), base.double() + 64.0)


def test_structured_arguments_are_left_alone(tmp_path):
    path = tmp_path / "op.py"
    path.write_text(
        TASK.format(body="torch.searchsorted(x, x).double()").replace("dim]", "dim] sorted(0, 1)")
    )
    problem = Problem(load_task(str(path)))
    assert discover(problem, problem.task.split(Split.SEARCH)[0]) == ()


def test_an_honest_softmax_keeps_to_its_relations(made, pool, make):
    problem = made("torch.softmax(x, -1)")
    found = verify(problem, *make(HONEST), pool=pool)
    assert found.status == "accepted", [f for f in found.findings if f.status != "pass"]


def test_a_relation_that_was_found_by_chance_is_not_asked_where_the_reference_breaks_it(made, pool, make):
    problem = made("x.abs().max()")
    oracle, (search,) = Oracle(problem), problem.task.split(Split.SEARCH)
    by_chance = Relation("shift of x", "shift", 0, (CHANGES["shift"][1],))
    oracle._relations[search.name] = (by_chance,)
    drawn = ((seed, problem.inputs(search, seed)[0]) for seed in range(64))
    seed = next(s for s, x in drawn if x.flatten()[x.abs().argmax()] < 0)
    found = verify(
        problem, *make("def run(x):\n    return x.abs().max()\n"), pool=pool, oracle=oracle, seeds=[seed] * 64
    )
    assert found.status == "accepted", [f for f in found.findings if f.status != "pass"]


def test_a_kernel_that_fails_far_from_zero_is_rejected_by_nothing_else(made, pool, make):
    problem = made("torch.softmax(x, -1)")
    oracle = Oracle(problem)
    found = verify(problem, *make(FAR), pool=pool, oracle=oracle)
    assert found.failure == "relations"
    assert "shift of x" in next(f.message for f in found.findings if f.status == "fail")
    without = verify(problem, *make(FAR), pool=pool, oracle=oracle, disabled=frozenset({"relations"}))
    assert without.status == "accepted", [f for f in without.findings if f.status != "pass"]
