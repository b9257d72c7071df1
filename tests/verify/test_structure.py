"""Declared structure is kept wherever inputs are made or changed; what is not declared may not be relied on."""

import pytest
import torch

from kernelwright.tasks import Problem, load_task
from kernelwright.verify import Oracle, verify
from kernelwright.verify.checks.one_element import one_element_changed

TASK = """
import torch
import kernelwright as kw

@kw.task(
    x="float32[rows, dim]{words}", workloads=[{{"rows": 16, "dim": 16}}], hidden=[{{"rows": 8, "dim": 8}}], confirm=[]
)
def op(x):
    return {body}
"""
STRUCTURES = {
    "sorted(0, 1)": ("x.amax(-1)", "x[:, -1].clone()"),
    "triangular": ("x.sum(-1)", "x.tril().sum(-1)"),
    "probabilities": ("x / x.sum(-1, keepdim=True) * 2", "x * 2"),
}
"""Words that declare a structure, what the task computes, and a kernel that relies on the structure."""


def is_kept(words, x):
    if words.startswith("sorted"):
        return bool((x.diff(dim=-1) >= 0).all())
    if words == "triangular":
        return torch.equal(x, x.tril())
    return torch.allclose(x.sum(-1), torch.ones(len(x)), atol=1e-5)


@pytest.fixture
def made(tmp_path):
    def make(words, body):
        (tmp_path / "op.py").write_text(TASK.format(words=f" {words}" if words else "", body=body))
        return Problem(load_task(tmp_path / "op.py"))

    return make


@pytest.mark.parametrize("words", STRUCTURES)
def test_every_workload_and_every_changed_element_keeps_it(words, made):
    problem = made(words, STRUCTURES[words][0])
    oracle = Oracle(problem)
    for workload in problem.task.workloads:
        for seed in range(3):
            (x,) = problem.inputs(workload, seed)
            assert is_kept(words, x), workload.name
            assert is_kept(words, one_element_changed(oracle.case(workload, seed), seed, 4)[0])


@pytest.mark.parametrize("words", STRUCTURES)
def test_a_kernel_may_rely_on_what_is_declared_only(words, made, pool, make):
    body, relies = STRUCTURES[words]
    candidate = make(f"def run(x):\n    return {relies}\n")
    found = verify(made(words, body), *candidate, pool=pool)
    assert found.status == "accepted", [f for f in found.findings if f.status != "pass"]
    assert verify(made("", body), *candidate, pool=pool, depth="screen").failure == "correct"


def test_free_arguments_are_changed_in_one_element(made):
    problem = made("", "x * 2")
    case = Oracle(problem).case(problem.task.workloads[0], 1)
    quarters, offsets = [], set()
    for quarter in range(4):
        (place,) = (one_element_changed(case, quarter, 4)[0] != case.tensors[0]).flatten().nonzero()
        at, offset = divmod(int(place), case.tensors[0].numel() // 4)
        quarters.append(at)
        offsets.add(offset)
    assert quarters == [0, 1, 2, 3] and len(offsets) > 1, "not a quarter apart, as stripes are"
