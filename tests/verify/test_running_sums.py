"""The simplest honest kernels add up one term after another, in float32: none of them may be refused, on any workload.

`python -m benchmarks.honest` asks it of every own problem; here are those that depend most on how sums are added.
"""

import pytest
import torch
from benchmarks.honest import judge, load
from benchmarks.problems import problems

PROBLEMS = (
    "conv_batch_norm_residual", "cross_entropy", "cumulative_sum", "frobenius_normalise", "group_norm", "instance_norm",
    "layer_norm", "matmul_square", "mean_squared_error", "selective_scan", "smooth_l1", "softmax_rows",
    "transformer_block", "variance_rows",
)  # fmt: skip
BACKWARD = ("edge_softmax", "layer_norm", "inverted_residual")
SEEDS = (1, 2)


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def problem(name, **options):
    return load(next(path for _, path in problems() if path.stem == name), **options)


@pytest.mark.parametrize("name", PROBLEMS)
def test_no_running_sum_is_refused(name):
    count = judge(problem(name), SEEDS)
    assert count.judged > 20
    assert count.refused == ()


@pytest.mark.parametrize("name", BACKWARD)
def test_nor_is_one_of_a_gradient(name):
    count = judge(problem(name, backward=True), SEEDS)
    assert count.judged > 20
    assert count.refused == ()


@pytest.mark.parametrize("name", ["instance_norm", "mean_squared_error"])
def test_but_for_what_is_allowed_to_drift_they_would_be(name, monkeypatch):
    monkeypatch.setattr("kernelwright.tasks._rounding.drift", lambda *args: None)
    assert judge(problem(name), SEEDS).refused
