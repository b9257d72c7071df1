"""NaN and infinity: demanded where every order of summation gives them, not where one of them does."""

import math

import pytest
import torch

from kernelwright.records import Contract
from kernelwright.tasks import Problem, load_task
from kernelwright.tasks.numerics._worst_case_sums import WorstCaseSums
from kernelwright.verify import Oracle, error_against, output_tolerance, verify
from kernelwright.verify._nonfinite import overflow
from kernelwright.verify.checks.layout import is_dense

INF, NAN = math.inf, math.nan
TASK = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return x.mean(-1), torch.relu(x)

rows = 24
dim = 48

def get_inputs():
    return [torch.randn(rows, dim)]

def get_init_inputs():
    return []
"""


def values(*numbers: float) -> torch.Tensor:
    return torch.tensor(numbers)


@pytest.mark.parametrize(
    ("operation", "row"),
    [
        (lambda x: x.sum(-1), [1.0, INF]),
        (lambda x: x.cumsum(-1), [INF, 1.0]),
        (lambda x: x @ torch.ones(2, 2), [-INF, 1.0]),
        (lambda x: x.add_(x.mean()), [INF, 1.0]),
    ],
)
def test_an_infinite_sum_is_doubted(operation, row):
    with WorstCaseSums():
        doubted = operation(values(*row).view(1, 2))
    assert not torch.isinf(doubted.flatten()[-1])
    assert torch.isnan(doubted).any()


@pytest.mark.parametrize(
    "operation", [torch.exp, torch.relu, lambda x: x.amax(-1), lambda x: x.logsumexp(-1), lambda x: x.t() + 1]
)
def test_what_no_order_changes_is_not_doubted(operation):
    x = values(1.0, INF, -INF, NAN, 2.0).view(1, 5)[:, [0, 1, 4]]
    with WorstCaseSums():
        assert torch.equal(operation(x), operation(x.clone()))


def test_running_statistics_are_doubted_where_they_are_kept():
    norm = torch.nn.BatchNorm1d(2)
    with WorstCaseSums(), torch.no_grad():
        norm(torch.tensor([[1.0, INF], [2.0, 1.0]]))
    assert norm.running_mean is not None
    assert torch.isfinite(norm.running_mean[0])
    assert torch.isnan(norm.running_mean[1])


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    path = tmp_path_factory.mktemp("task") / "means.py"
    path.write_text(TASK)
    problem = Problem(load_task(str(path)))
    workload = next(w for w in problem.task.workloads if w.regime == "special")
    return Oracle(problem).case(workload, 7)


def test_a_running_mean_may_be_nan_where_the_sum_is_infinite(case):
    x, (means, _) = case.tensors[0], case.outputs
    running = torch.var_mean(x.double(), -1)[1].float()
    plain = x.mean(-1)
    assert bool((plain.isinf() & running.isnan()).any()), "the seed should draw a row with one infinity"
    assert error_against(plain, means).ok
    assert error_against(running, means).ok


def test_elementwise_infinities_and_their_signs_are_demanded(case):
    _, activated = case.outputs
    right = activated.output
    assert bool(right.isinf().any())
    assert error_against(right, activated).ok
    for wrong in (
        right.nan_to_num(nan=NAN, posinf=NAN),
        right.nan_to_num(nan=0.0, posinf=INF),
        right.abs().neg(),
    ):
        assert error_against(wrong, activated).kind == "nonfinite"


def test_a_mean_that_swallows_what_is_not_finite_is_wrong(case):
    means, _ = case.outputs
    finite = case.tensors[0].nan_to_num(0.0, 0.0, 0.0).mean(-1)
    assert error_against(finite, means).kind == "nonfinite"
    flipped = torch.where(means.output.isinf(), -means.output, means.output)
    assert error_against(flipped, means).kind == "nonfinite"


def test_without_the_doubt_the_running_mean_is_rejected(case):
    means, _ = case.outputs
    strict = output_tolerance(means.truth, means.native, Contract())
    running = torch.var_mean(case.tensors[0].double(), -1)[1].float()
    assert error_against(running, strict).kind == "nonfinite"


GROUPS = """
import torch
import torch.nn.functional as F
import kernelwright as kw

@kw.task(x="float32[batch, 4, dim]", w="float32[4]", workloads=[{"batch": 2, "dim": 16}])
def groups(x, w):
    return F.group_norm(x, 2, w)
"""


def test_a_mean_folded_into_the_shift_or_not_serves_alike(tmp_path):
    (tmp_path / "groups.py").write_text(GROUPS)
    problem = Problem(load_task(f"{tmp_path / 'groups.py'}:groups"))
    workload = problem.task.workloads[0]
    x, w = torch.randn(2, 4, 16, generator=torch.Generator().manual_seed(1)), values(1.0, INF, -INF, 2.0)
    tolerance = Oracle(problem).make(workload, 1, (x, w), {}).outputs[0]
    in_steps = torch.nn.functional.group_norm(x, 2) * w[:, None]
    folded = tolerance.output
    assert bool((in_steps.isinf() & folded.isnan()).any()), "torch folds on a CPU"
    assert error_against(in_steps, tolerance).ok
    assert error_against(folded, tolerance).ok
    for wrong in (
        torch.where(in_steps.isinf(), 0.0, in_steps),
        torch.where(in_steps.isinf(), -in_steps, in_steps),
    ):
        assert error_against(wrong, tolerance).kind == "nonfinite"


DIAGONAL = """
import torch
import kernelwright as kw

@kw.task(d="float32[rows]", x="float32[rows, columns]", workloads=[{"rows": 20, "columns": 24}])
def diagonal(d, x):
    return torch.diag(d) @ x
"""


def test_what_is_multiplied_by_zero_may_be_left_out(tmp_path):
    (tmp_path / "diagonal.py").write_text(DIAGONAL)
    problem = Problem(load_task(f"{tmp_path / 'diagonal.py'}:diagonal"))
    workload = problem.task.workloads[0]
    d, x = problem.inputs(workload, 1)
    x[3, 5], x[4, 7], x[6, 8] = INF, NAN, -INF
    tolerance = Oracle(problem).make(workload, 1, (d, x), {}).outputs[0]
    scaled = d[:, None] * x
    assert bool((torch.diag(d) @ x)[:, [5, 7, 8]].isnan().sum() > 50), "zero times infinity"
    assert error_against(scaled, tolerance).ok
    assert error_against(torch.diag(d) @ x, tolerance).ok
    odd = ~scaled.isfinite()
    for wrong in (
        torch.where(odd, 0.0, scaled),
        torch.where(odd, INF, scaled),
        torch.cat([scaled[:, :5], scaled[:, 5:6] * 1.1, scaled[:, 6:]], 1),
    ):
        assert error_against(wrong, tolerance).kind == "nonfinite"


def test_where_the_native_sum_overflows_any_overflow_or_the_truth_serves():
    truth, native, doubt = values(1e30).double(), values(INF), [values(NAN)]
    tolerance = output_tolerance(truth, native, Contract(), doubts=doubt)
    for right in (1e30, INF, -INF, NAN):
        assert error_against(values(right), tolerance).ok
    assert not error_against(values(3e30), tolerance).ok


def test_what_is_not_finite_in_the_reference_s_own_steps_may_be_so():
    """The gradient of relu6 at NaN is 0 in one kernel of torch and what comes in in another."""
    truth, steps = values(1.0, 0.0, 0.0, 0.0, NAN), values(1.0, NAN, INF, 5.0, NAN)
    tolerance = output_tolerance(truth.double(), truth, Contract(), others=[steps.double()])
    for right in ([1.0, 0.0, 0.0, 0.0], [1.0, NAN, INF, 0.0], [1.0, 0.0, INF, 0.0]):
        assert error_against(values(*right, NAN), tolerance).ok
    for wrong in ([NAN, 0.0, 0.0, 0.0], [1.0, INF, 0.0, 0.0], [1.0, 0.0, NAN, 0.0], [1.0, 0.0, 0.0, 5.0]):
        assert not error_against(values(*wrong, NAN), tolerance).ok


def test_a_prefix_that_overflows_is_doubted_to_the_end():
    x = values(3e38, 3e38, -3e38, -3e38, 1.0).view(1, 5)
    with WorstCaseSums():
        doubted, other = x.cumsum(1), x.cumsum(0)
    assert doubted.isnan().tolist() == [[False, True, True, True, True]]
    assert torch.equal(other, x)


def test_what_the_native_op_comes_back_from_another_may_not():
    """A scan kept in float64 is finite again after 6e38; kept in float32 it is not, whatever is left of it then."""
    x = values(1.0, 3e38, 3e38, -3e38, -3e38, 2.0)
    truth = x.double().cumsum(0)
    with WorstCaseSums():
        doubts = [x.cumsum(0)]
    tolerance = output_tolerance(truth, truth.float(), Contract(), doubts=doubts)
    running = values(1.0, 3e38, INF, INF, INF, INF)
    assert error_against(running, tolerance).ok
    assert error_against(truth.float(), tolerance).ok
    for wrong in (
        values(INF, *running[1:]),
        values(1.0, INF, *running[2:]),
        values(1.0, 3e38, INF, 3e38, 5.0, 2.0),
    ):
        assert not error_against(wrong, tolerance).ok


def test_dense_is_any_order_of_axes_without_gaps():
    x = torch.empty(2, 3, 4)
    assert all(is_dense(v.shape, v.stride()) for v in (x, x.permute(2, 0, 1), x[:1], torch.empty(0, 3)))
    assert not any(is_dense(v.shape, v.stride()) for v in (x[..., ::2], x[:, :1].expand(2, 3, 4), x[:, 1:]))


CLIPPED = """
import torch
import torch.nn.functional as F
import kernelwright as kw

@kw.task(x="float32[batch, dim]", workloads=[{"batch": 4, "dim": 16}], backward=True)
def clipped(x):
    return F.hardtanh(x, 0.0, 1.0)
"""


def test_an_infinite_gradient_behind_a_comparison_with_nan_may_take_either_branch(tmp_path):
    (tmp_path / "clipped.py").write_text(CLIPPED)
    problem = Problem(load_task(f"{tmp_path / 'clipped.py'}:clipped"))
    workload = problem.task.workloads[0]
    x, g = torch.full((4, 16), 0.5), torch.ones(4, 16)
    x[1, 2], g[1, 2] = NAN, INF
    tolerance = Oracle(problem).make(workload, 1, (x, g), {}).outputs[1]
    passed = torch.where((x <= 0) | (x >= 1), 0.0, g)
    stopped = torch.where((x > 0) & (x < 1), g, 0.0)
    assert error_against(passed, tolerance).ok
    assert error_against(stopped, tolerance).ok
    for place, wrong in (((1, 2), -INF), ((1, 2), NAN), ((1, 3), INF), ((1, 3), 0.0), ((1, 2), 1.5)):
        answer = stopped.clone()
        answer[place] = wrong
        assert not error_against(answer, tolerance).ok, (place, wrong)


def at_the_edge(truth, noise=0.0):
    """Make the tolerance of float16 outputs; the native op rounds the truth."""
    y = torch.tensor(truth, dtype=torch.float64)
    return output_tolerance(y, y.half(), Contract(), sensitivity=torch.full_like(y, noise))


@pytest.mark.parametrize(
    ("truth", "right"), [(65_500.0, True), (65_100.0, True), (64_900.0, False), (6_550.0, False)]
)
@pytest.mark.parametrize("sign", [1, -1])
def test_what_may_be_off_as_far_as_the_least_that_rounds_to_infinity_may_be_infinite(truth, right, sign):
    tolerance = at_the_edge([sign * truth] * 4)
    assert overflow(torch.float16) == 65_520
    answer = tolerance.native.clone()
    answer[2] = sign * INF
    assert error_against(answer, tolerance).ok is right
    answer[2] = -sign * INF
    assert error_against(answer, tolerance).kind == "nonfinite"
    answer[2] = NAN
    assert error_against(answer, tolerance).kind == "nonfinite"


def test_how_far_it_may_be_off_decides():
    for truth, noise, right in (
        (60_000.0, 2_000.0, True),
        (60_000.0, 1_000.0, False),
        (100.0, 2_000.0, False),
    ):
        tolerance = at_the_edge([truth] * 4, noise)
        answer = tolerance.native.clone()
        answer[0] = INF
        assert error_against(answer, tolerance).ok is right


def test_where_the_native_op_overflows_what_is_as_near_as_allowed_need_not():
    tolerance = at_the_edge([70_000.0, 100.0, 200.0, 300.0], 5_000.0)
    assert tolerance.native.isinf().tolist() == [True, False, False, False]
    for value, right in (
        (INF, True),
        (65_504.0, True),
        (60_000.0, True),
        (40_000.0, False),
        (NAN, False),
        (-INF, False),
    ):
        answer = tolerance.native.clone()
        answer[0] = value
        assert error_against(answer, tolerance).ok is right


def test_many_infinities_at_the_edge_are_too_many():
    y = torch.full((64,), 64_900.0, dtype=torch.float64)
    noise = torch.zeros_like(y)
    noise[5] = 1e4
    tolerance = output_tolerance(y, y.half(), Contract(), sensitivity=noise)
    one = tolerance.native.clone()
    one[9] = INF
    assert error_against(one, tolerance).ok
    assert error_against(torch.full_like(one, INF), tolerance).kind == "norm"


def test_exact_answers_and_forbidden_infinities_have_no_such_edge():
    y = torch.full((4,), 65_504.0, dtype=torch.float64)
    answer = torch.tensor([65_504.0, 65_504.0, 65_504.0, INF]).half()
    assert error_against(answer, output_tolerance(y, y.half(), Contract())).ok
    for tolerance in (
        output_tolerance(y, y.half(), Contract(), exact=True),
        output_tolerance(y, y.half(), Contract(nan="forbid")),
    ):
        assert error_against(answer, tolerance).kind == "nonfinite"


PINNED = """
import torch
import kernelwright as kw

@kw.task(x="float32[n]", s="float32[n] uniform(1, 2)", workloads=[{"n": 96}], hidden=[{"n": 200}], confirm=[])
def op(x, s):
    return torch.sin(x) * s
"""
SWALLOWS = "    return torch.sin(x).nan_to_num() * s"
LEAKS = "    y = torch.sin(x) * s\n    return torch.where((x * s).isfinite(), y, y.mean())"


@pytest.mark.parametrize(
    ("body", "right"), [("    return torch.sin(x) * s", True), (SWALLOWS, False), (LEAKS, False)]
)
def test_a_kernel_that_errs_on_special_values_alone_is_refused_at_pinned_sizes(
    body, right, tmp_path, pool, make
):
    (tmp_path / "op.py").write_text(PINNED)
    problem = Problem(load_task(tmp_path / "op.py"))
    assert [w.axes["n"] for w in problem.task.workloads if w.regime == "special"] == [200]
    found = verify(problem, *make(f"import torch\n\ndef run(x, s):\n{body}\n"), pool=pool)
    assert found.failure == ("" if right else "correct")
    assert right or "NaN or infinity" in str(found.findings)
