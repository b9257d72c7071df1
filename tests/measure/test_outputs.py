"""Outputs of timed calls against the baseline's."""

from dataclasses import replace
from types import SimpleNamespace

import torch

from kernelwright.measure._outputs import Tolerance, difference, tolerance
from kernelwright.records import Contract, TensorSpec, Workload
from kernelwright.tasks import Problem, load_task

Y = torch.randn(100, 32, generator=torch.Generator().manual_seed(0))
ALLOWED = Tolerance((2e-6,), jumpy=False)


def test_rounding_passes_and_stale_downcast_and_one_element_do_not():
    assert difference([Y * (1 + 1e-7)], [Y], ALLOWED) == ""
    assert "differ" in difference([Y.flip(0)], [Y], ALLOWED)
    assert "differ" in difference([Y.half().float()], [Y], ALLOWED)
    one = Y.clone()
    one[3, 4] += 1
    assert difference([one], [Y], ALLOWED).startswith("1 of 3200")


def test_nan_must_stand_where_the_baseline_has_it():
    marked = Y.clone()
    marked[0, 0] = float("nan")
    assert difference([marked], [marked], ALLOWED) == ""
    assert difference([Y], [marked], ALLOWED)
    assert difference([marked], [Y], ALLOWED)


def test_shape_and_number_must_fit():
    assert "shape" in difference([Y[:, :16]], [Y], ALLOWED)
    assert "outputs" in difference([], [Y], ALLOWED)


def test_a_row_that_is_almost_all_zero_is_no_measure_of_its_error():
    """What relu leaves of a row says nothing of the sums before it; what is wrong beside the output's size shows."""
    before = torch.randn(50, 64, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    before[7] = -1.0
    before[7, 3] = 1e-6
    got, wanted = (torch.relu(before + off).float() for off in (2e-7, 0.0))
    allowed = Tolerance((4e-6,), jumpy=False)
    assert difference([got], [wanted], allowed) == ""
    got[7, 5] = 1e-3
    assert difference([got], [wanted], allowed).startswith("1 of 3200")


def test_of_random_outputs_every_one_is_allowed_nothing_and_marked():
    problem = SimpleNamespace(task=SimpleNamespace(contract=Contract(stochastic=True)))
    outputs = tuple(TensorSpec(name=name, shape=(4,), dtype="float32") for name in "yz")
    allowed = tolerance(problem, Workload(name="w", outputs=outputs), seed=0)
    assert allowed == Tolerance((0.0, 0.0), jumpy=False, stochastic=True)


LUCKY = """
import torch
import kernelwright as kw

@kw.task(x="float32[rows, dim]", workloads=[{"rows": 64, "dim": 32}])
def lucky(x):
    return (torch.floor(x) + 1024.0) - 1024.0
"""


def test_where_the_native_op_is_exact_by_luck_honest_roundings_pass_and_a_downcast_does_not(tmp_path):
    """Whole numbers of this size are sums without rounding; other orders of the same steps have one."""
    (tmp_path / "lucky.py").write_text(LUCKY)
    problem = Problem(load_task(str(tmp_path / "lucky.py")))
    workload = problem.task.workloads[0]
    allowed = tolerance(problem, workload, seed=3)
    expected = torch.floor(Y)
    honest = (expected * 0.1 + 102.4) * 10 - 1024
    assert "differ" in difference([honest], [expected], replace(allowed, closer=None))
    assert difference([honest], [expected], allowed, ((Y,), {})) == ""
    assert "differ" in difference([expected + Y * 2**-9], [expected], allowed, ((Y,), {}))


CHAOTIC = """
import torch
import kernelwright as kw

@kw.task(x="float32[rows, dim] uniform(0, 1e-8)", workloads=[{"rows": 64, "dim": 32}])
def chaotic(x):
    return torch.sin(x * 1e8)
"""


def test_where_rounding_decides_on_these_bytes_alone_as_many_elements_may_differ_and_no_more(tmp_path):
    (tmp_path / "chaotic.py").write_text(CHAOTIC)
    problem = Problem(load_task(str(tmp_path / "chaotic.py")))
    allowed = tolerance(problem, problem.task.workloads[0], seed=3)
    x = torch.rand(64, 32, generator=torch.Generator().manual_seed(5)) * 1e-8
    x[:8] *= 1e8
    expected, honest = torch.sin(x * 1e8), torch.sin(x * 3e7 * (1e8 / 3e7))
    assert "differ" in difference([honest], [expected], allowed)
    assert difference([honest], [expected], allowed, ((x,), {})) == ""
    assert "differ" in difference([torch.sin(x.flip(0) * 1e8)], [expected], allowed, ((x,), {}))
