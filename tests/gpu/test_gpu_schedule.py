"""Printed Triton on a GPU: the own problems against float64, bfloat16 products, spills at the sizes that run."""

import pytest
import torch
from benchmarks.problems import OWN
from benchmarks.triton_coverage import examine, fault, right_of

from kernelwright.testing import RandomProgram, random_program

pytestmark = pytest.mark.needs("GPU")
PROBLEMS = (
    "level1/softmax_rows", "level1/layer_norm", "level1/cumulative_sum", "level1/cross_entropy", "level1/argmax_axis",
    "level1/matmul_odd_sizes", "level1/conv_2d", "level1/max_pool_2d_dilated", "level2/linear_gelu_softmax",
    "level2/swiglu", "level3/attention_causal", "level3/edge_softmax",
)  # fmt: skip


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_problem_is_right_on_the_gpu(name):
    level, stem = name.split("/")
    row = examine(OWN / level / f"{stem}.py", int(level[-1]), 200_000)
    assert right_of(row), row


@pytest.mark.parametrize("seed", range(20))
def test_a_random_program_is_right_on_the_gpu(seed):
    one = random_program(seed, dtypes=("float32", "float16", "bfloat16", "int64", "bool"))
    assert fault(one) is None, one


def test_bfloat16_multiplies_on_tensor_cores():
    square = ("torch.randn(64, 96, generator=g).bfloat16()",)
    assert torch.cuda.is_available()
    assert fault(RandomProgram(0, square, (("v0", "x0 @ x0.t()"),), ("v0",))) is None
