"""What a GPU gives is held to the judge's tolerance where it is off by more than the reference happens to be."""

import math

import pytest
import torch
from benchmarks.gpu._ops.right import Family, judged, wide

from kernelwright.api.ops import named_cases, task_of
from kernelwright.tasks import Problem

NAME = "batch=2,groups=3,each=5,size=13,count=5,inner=32,columns=32,most=10,regime=normal"
"""Scales are normal numbers, so that scores are in the hundreds and their rounding moves the softmax."""


@pytest.fixture(scope="module")
def decoded():
    problem = Problem(task_of("attention", named_cases("attention")["attention_decode-4"]))
    (workload,) = (w for w in problem.task.workloads if w.name == NAME)
    return problem, workload, list(problem.inputs(workload, 7))


@pytest.mark.parametrize("status", ["right", "wrong"])
def test_an_error_of_rounding_is_told_from_a_wrong_result(decoded, status, monkeypatch):
    problem, workload, inputs = decoded
    family = Family("attention", "cpu", math.inf)
    decode = family.ops["attention_decode"].reference
    (out, lse), (exact, _) = decode(*inputs), decode(*map(wide, inputs))
    floor = 16 * torch.finfo(out.dtype).eps * exact.abs().max()
    near = 1.5 * max(4 * float((out - exact).abs().max()), float(floor))
    given = {"right": out + near, "wrong": out * 1.05}[status]
    monkeypatch.setattr(family, "call", lambda *_: ((given, lse), "a test"))
    row = family.one("attention_decode", inputs, lambda results: judged(problem, workload, inputs, results))
    assert row["status"] == status
    assert "error" in row["why"]


def test_a_nan_that_is_lost_is_wrong(decoded):
    problem, workload, inputs = decoded
    q = inputs[0].clone()
    q[0, 0, 0] = torch.nan
    spoilt = [q, *inputs[1:]]
    out, lse = Family("attention", "cpu", math.inf).ops["attention_decode"].reference(*spoilt)
    assert judged(problem, workload, spoilt, (out, lse))
    assert not judged(problem, workload, spoilt, (out.nan_to_num(), lse))
