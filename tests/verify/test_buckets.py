"""Position buckets depend on constants alone: they loosen nothing, and a kernel that has others is wrong."""

import math

import pytest
import torch

from kernelwright.records import Split
from kernelwright.tasks import Problem, load_task
from kernelwright.verify import Oracle, error_against

BIASED = """
import math
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(16))

    def forward(self, x):
        place = torch.arange(64)
        far = 8 + (torch.log(place.float() / 8) / math.log(16) * 8).to(torch.long)
        return torch.softmax(x + self.bias[torch.where(place < 8, place, far.clamp(max=15))], -1)

def get_inputs():
    return [torch.randn(8, 64)]
"""


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    path = tmp_path_factory.mktemp("biased") / "biased.py"
    path.write_text(BIASED)
    problem = Problem(load_task(path))
    workload = problem.task.split(Split.SEARCH)[0]
    return Oracle(problem).make(workload, 1, tuple(problem.inputs(workload, 1)), problem.state(workload, 1))


def answer(case, moved=0):
    """Compute what the model computes, in float64, with the borders of the buckets moved by so many places."""
    (x,), (bias,) = case.inputs, case.state.values()
    place = torch.arange(64)
    far = 8 + (torch.log((place - moved).double() / 8) / math.log(16) * 8).nan_to_num(0.0).long()
    return torch.softmax(x.double() + bias.double()[torch.where(place < 8, place, far.clamp(8, 15))], -1)


def test_what_is_allowed_is_what_rounding_moves_and_no_jump(case):
    assert error_against(answer(case).float(), case.outputs[0]).ok
    assert case.outputs[0].share < 1e-4


def test_half_precision_and_another_bucket_are_refused(case):
    assert not error_against(answer(case).half().float(), case.outputs[0]).ok
    assert not error_against(answer(case, moved=1).float(), case.outputs[0]).ok
