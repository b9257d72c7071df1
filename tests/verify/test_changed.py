"""What a reference changes in place is expected of every case, also where its values happen to stay as they are."""

import pytest
import torch

from kernelwright.tasks import Problem, load_task
from kernelwright.verify import Oracle, error_against

ARGUMENT = """
import kernelwright as kw

@kw.task(x="float32[rows, dim]", y="float32[rows, dim]", workloads=[{"rows": 4, "dim": 32}])
def accumulate(x, y):
    return x.add_(y)
"""
STATE = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(32))

    def forward(self, x):
        self.total.add_(x.sum(0))
        return x * self.total

rows = 4

def get_inputs():
    return [torch.randn(rows, 32)]

def get_init_inputs():
    return []
"""


@pytest.fixture
def oracle(tmp_path):
    def oracle(text):
        path = tmp_path / "task.py"
        path.write_text(text)
        return Oracle(Problem(load_task(str(path))))

    return oracle


def test_an_argument_whose_zeros_only_change_their_sign(oracle):
    ours = oracle(ARGUMENT)
    workload = ours.task.workloads[0]
    x, y = torch.full((4, 32), -0.0), torch.zeros(4, 32)
    case = ours.make(workload, 0, (x, y), {})
    assert set(case.mutated) == {"x"}
    assert error_against(x + y, case.mutated["x"]).ok
    assert not error_against(torch.full((4, 32), 1e-3), case.mutated["x"]).ok


def test_state_to_which_nothing_is_added(oracle):
    ours = oracle(STATE)
    workload = ours.task.workloads[0]
    before = {"total": torch.ones(32)}
    case = ours.make(workload, 0, (torch.full((4, 32), 1e-12),), before)
    assert set(case.state_after) == {"total"}
    assert error_against(torch.ones(32) + 2**-23, case.state_after["total"]).ok
    assert not error_against(torch.full((32,), 1.001), case.state_after["total"]).ok


def test_what_the_reference_never_changes_is_not_expected_to(oracle):
    ours = oracle(ARGUMENT)
    workload = ours.task.workloads[0]
    assert "y" not in ours.make(workload, 0, ours.problem.inputs(workload, 1), {}).mutated
