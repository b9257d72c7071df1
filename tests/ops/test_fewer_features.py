"""Kernels are right on processors with less: the same cases by builds without AVX-512, and without its newer parts."""

from types import SimpleNamespace

import pytest
import torch
from torch.utils._pytree import tree_leaves

from kernelwright import ops
from kernelwright.api.ops import cases_of, task_of
from kernelwright.errors import ArgumentError
from kernelwright.ops._core import Kernel
from kernelwright.ops._core import kernel as kernels
from kernelwright.ops.loss import linear_cross_entropy
from kernelwright.ops.loss import reference as losses
from kernelwright.tasks import Problem
from kernelwright.verify import Oracle
from kernelwright.verify.checks.correct import compare_outputs

TILES = ("-mno-amx-bf16", "-mno-amx-int8", "-mno-amx-tile")
LESS = {
    "eight": (*TILES, "-mno-avx512f"),
    "no_dots": (*TILES, "-mno-avx512bf16", "-mno-avx512vnni", "-mno-avxvnni"),
}
FAMILIES = ("attention", "embedding", "gemm", "logits", "loss", "lowbit", "moe", "neighbours")
MOST = 24
"""Workloads of an op, of which many differ in sizes alone."""


@pytest.fixture
def built(monkeypatch, request):
    """Let ops of a family run kernels that are built with other flags."""
    family, less = request.param
    monkeypatch.setattr(kernels, "_FLAGS", (*kernels._FLAGS, *LESS[less]))
    own = ops.ops_of(ops.family(family))
    kernel = Kernel(own[0].kernel.file)
    for op in own:
        monkeypatch.setattr(op, "_entry", lambda _, name=op.name: kernel.function(name))
        assert op._entry("") is not None, kernel.problem
    return family, {op.name: op for op in own}


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:kernelwright .* runs its reference")
@pytest.mark.parametrize("built", [(f, less) for f in FAMILIES for less in LESS], ids="-".join, indirect=True)
def test_kernels_are_right_where_the_processor_has_less(built):
    family, by_name = built
    held = 0
    for cases in cases_of(family):
        problem = Problem(task_of(family, cases))
        for workload in problem.task.workloads[:MOST]:
            case = Oracle(problem).case(workload, seed=held)
            if not case.usable:
                continue
            try:
                outputs, ran, why = by_name[cases.op]._run(tuple(case.inputs))
            except ArgumentError:  # sizes that go with no call
                continue
            if ran != "kernel":
                assert why.startswith("Unsupported:")
                continue
            found = compare_outputs("correct", SimpleNamespace(outputs=tree_leaves(outputs)), case)
            assert found.status == "pass", (cases.op, workload.name, found)
            held += 1
    assert held


@pytest.mark.long
@pytest.mark.parametrize("built", [("loss", less) for less in LESS], ids="-".join, indirect=True)
def test_gradients_of_losses_of_halves_are_right_where_the_processor_has_less(built):
    op = built[1]["linear_cross_entropy_gradients"]
    for dtype, limit in ((torch.bfloat16, 5e-3), (torch.float16, 1e-3)):
        x, weight, target = (
            torch.randn(300, 65).to(dtype),
            torch.randn(530, 65).to(dtype),
            torch.randint(530, (300,)),
        )
        settings = (-100, 0.1, 0.0, 0.0, torch.full((300,), 0.5))
        found = op._run((x, weight, target, None, *settings))[0]
        right = losses.gradients(x.double(), weight.double(), target, None, *settings)
        for one, other in zip(found, right, strict=True):
            assert float((one.double() - other).norm()) <= limit * float(other.norm())
    assert linear_cross_entropy(x, weight, target).isfinite()
