"""Products of groups, which torch has in float32 and narrower alone: the oracle has them in float64."""

import pytest
import torch

from kernelwright.tasks import Problem, Rounding, load_task
from kernelwright.tasks.numerics._grouped import grouped_mm

FORMS = {
    "rows": ((7, 8), (3, 8, 4), [2, 2, 7]),
    "summed": ((4, 24), (24, 4), [8, 24]),
    "columns": ((2, 4, 8), (8, 8), [4, 8]),
    "batch": ((2, 4, 8), (2, 8, 4), None),
}


@pytest.mark.parametrize("form", FORMS)
def test_groups_are_multiplied_as_torch_does(form):
    one, two, ends = FORMS[form]
    a, b = torch.randn(one), torch.randn(two)
    offs = None if ends is None else torch.tensor(ends, dtype=torch.int32)
    wanted = torch._grouped_mm(a, b, offs=offs)
    found = grouped_mm(a.double(), b.double(), offs)
    assert found.dtype is torch.float64
    torch.testing.assert_close(found.float(), wanted)
    torch.testing.assert_close(grouped_mm(a, b, offs, out_dtype=torch.bfloat16), wanted.bfloat16())


EXPERTS = """
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.experts = torch.nn.Parameter(torch.randn(4, 16, 8))

    def forward(self, x, kinds):
        order = kinds.argsort()
        ends = torch.histc(kinds.float(), 4, 0, 3).to(torch.int32).cumsum(0).to(torch.int32)
        return torch._grouped_mm(x[order], self.experts, offs=ends)


def get_inputs():
    return [torch.randn(64, 16), torch.randint(0, 4, (64,))]


def get_init_inputs():
    return []
"""


@pytest.fixture
def experts(tmp_path):
    path = tmp_path / "experts.py"
    path.write_text(EXPERTS)
    return Problem(load_task(str(path)))


def test_the_oracle_of_experts_is_exact_and_its_rounded_steps_stay_near(experts):
    workload = experts.task.workloads[0]
    inputs, state = experts.inputs(workload, 0), experts.state(workload, 0)
    exact = experts.run_oracle(workload, inputs, state)
    rounded = experts.run_oracle(workload, inputs, state, Rounding(2**-23, seed=0))
    assert (exact.precision, rounded.precision) == ("float64", "float64")
    (y,), (z,) = exact.outputs, rounded.outputs
    (native,) = experts.run_reference(workload, inputs, state).outputs
    assert 0 < (native - y).abs().max() < 1e-5 and 0 < (z - y).abs().max() < 1e-4


@pytest.mark.parametrize(
    "count", [lambda x: torch.histc(x, 4, 0, 3), lambda x: (x == 2).double().sum(), torch.sum]
)
def test_what_is_counted_is_not_rounded(count):
    x = torch.randint(0, 4, (1000,)).double()
    with Rounding(2**-23, seed=0):
        found = count(x)
    assert torch.equal(found, found.round())
    assert torch.equal(found, count(x))


@pytest.mark.parametrize("x", [torch.randn(1000).double(), torch.full((1000,), 2.0**20).double() + 1])
def test_sums_of_other_and_of_larger_numbers_are_rounded(x):
    with Rounding(2**-23, seed=0):
        found = x.sum()
    assert found != x.sum()
