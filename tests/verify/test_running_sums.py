"""The simplest honest kernels add up one term after another, in float32: none of them may be refused, on any workload.

Every reference here runs under a mode that adds so; operators that are several steps in one are taken apart first.
"""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from benchmarks.problems import problems
from torch._decomp import decomposition_table
from torch.utils._python_dispatch import TorchDispatchMode

from kernelwright.records import CheckStatus
from kernelwright.tasks import Problem, load_task
from kernelwright.tasks._rounding import _TAKEN_APART
from kernelwright.verify import Oracle
from kernelwright.verify.checks.correct import compare_outputs

NORMALISED = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(48)

    def forward(self, x):
        return torch.softmax(2 * torch.relu(self.norm(x)), -1)

rows = 2048

def get_inputs():
    return [torch.randn(rows, 48)]

def get_init_inputs():
    return []
"""
"""A batch norm that learns, whose variance is that of a long column, before an exponential."""
PROBLEMS = (
    "cross_entropy", "cumulative_sum", "frobenius_normalise", "group_norm", "instance_norm", "layer_norm",
    "matmul_square", "mean_squared_error", "selective_scan", "smooth_l1", "softmax_rows", "transformer_block",
    "variance_rows",
)  # fmt: skip
MOST = 40_000
"""Elements of a problem."""


class Running(TorchDispatchMode):
    """Add up one after another whatever is summed."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = func.overloadpacket.__name__
        if name in _TAKEN_APART or func._can_decompose():
            with self:
                return decomposition_table.get(func, func.decompose)(*args, **kwargs)
        if args and isinstance(args[0], torch.Tensor) and args[0].dtype is torch.float32:
            if name in ("sum", "mean", "var"):
                exact = func(*args, **kwargs)
                return self._sum(name, kwargs.get("correction"), *args).reshape(exact.shape)
            if name == "cumsum":
                return prefixes(*args)
            if name in ("mm", "bmm"):
                return product(*args)
            if name == "addmm":
                return args[0] + product(*args[1:])
        return func(*args, **kwargs)

    @staticmethod
    def _sum(name, correction, x, dims=None, *more):
        dims = [d % x.dim() for d in dims or range(x.dim())]
        x = x.permute(*(d for d in range(x.dim()) if d not in dims), *dims).flatten(x.dim() - len(dims))
        if name == "var":
            mean = added_up(x)[..., None] / x.shape[-1]
            correction = more[0] if more else 1 if correction is None else correction
            return added_up((x - mean) ** 2) / (x.shape[-1] - correction)
        return added_up(x) / (x.shape[-1] if name == "mean" else 1)


def prefixes(x, axis):
    with np.errstate(all="ignore"):
        return torch.from_numpy(np.add.accumulate(x.contiguous().numpy(), axis=axis))


def added_up(x):
    return prefixes(x, -1)[..., -1]


def product(left, right):
    total = torch.zeros(*left.shape[:-1], right.shape[-1])
    for k in range(left.shape[-1]):
        total = total + left[..., k : k + 1] * right[..., k : k + 1, :]
    return total


def refused(oracle, seeds=(1, 2)):
    """Name the workloads on which such a kernel is."""
    found, tried = [], 0
    for workload in oracle.task.workloads:
        for seed in seeds:
            inputs, state = (make(workload, seed) for make in (oracle.problem.inputs, oracle.problem.state))
            case = oracle.make(workload, seed, inputs, state)
            if not case.usable:
                continue
            with torch.no_grad(), Running():
                outputs = oracle.problem.run_reference(workload, inputs, state).outputs
            tried += 1
            seen = SimpleNamespace(outputs=outputs)
            if compare_outputs("correct", seen, case).status is not CheckStatus.PASS:
                found.append(workload.name)
    assert tried > len(oracle.task.workloads)
    return found


def problem(name):
    path = next(path for _, path in problems() if path.stem == name)
    return Oracle(Problem(load_task(path, max_elements=MOST)))


@pytest.mark.parametrize("name", PROBLEMS)
def test_no_running_sum_is_refused(name):
    assert refused(problem(name)) == []


def test_nor_is_a_long_variance_before_an_exponential(tmp_path):
    (tmp_path / "task.py").write_text(NORMALISED)
    assert refused(Oracle(Problem(load_task(tmp_path / "task.py")))) == []


@pytest.mark.parametrize("name", ["instance_norm", "mean_squared_error"])
def test_but_for_what_is_allowed_to_drift_they_would_be(name, monkeypatch):
    monkeypatch.setattr("kernelwright.tasks._rounding.drift", lambda *args: None)
    assert refused(problem(name))
