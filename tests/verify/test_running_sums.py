"""Honest kernels are not refused, in whatever order they add and however they write a problem; planted errors are.

`python -m benchmarks.honest` asks it of every own problem; here are those that depend most on how sums are added.
"""

import pytest
import torch
from benchmarks.flash import Flash
from benchmarks.honest import judge, load
from benchmarks.planted_errors import refused, smallest_refused
from benchmarks.problems import problems
from benchmarks.rewritings import REWRITINGS
from benchmarks.summation import MOMENTS, SUMS, fused, split_k, tensor_core

from kernelwright.records import Split
from kernelwright.tasks.numerics._evaluation import MEASURED, convolution
from kernelwright.tasks.numerics._orders import serial

PROBLEMS = (
    "cumulative_sum", "layer_norm", "matmul_square", "mean_squared_error", "softmax_rows", "variance_rows",
)  # fmt: skip
BACKWARD = ("edge_softmax", "layer_norm")


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def problem(name, **options):
    return load(next(path for _, path in problems() if path.stem == name), **options)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.long if i % 2 else ()) for i, n in enumerate(PROBLEMS)]
)
def test_no_running_sum_is_refused(name):
    count = judge(problem(name), (1, 2))
    assert count.total >= 20
    assert not count.refused


@pytest.mark.parametrize("name", ["variance_rows"])
def test_no_rewriting_is_refused(name):
    count = judge(problem(name), (1,), REWRITINGS)
    assert {*SUMS, *MOMENTS} <= count.judged.keys()
    assert not count.refused


@pytest.mark.parametrize("name", [pytest.param(BACKWARD[0], marks=pytest.mark.long), *BACKWARD[1:]])
def test_nor_is_one_of_a_gradient(name):
    count = judge(problem(name, backward=True), (1,))
    assert count.total >= 20
    assert not count.refused


def test_nor_one_of_half_precision_that_is_added_up_in_float32():
    count = judge(problem("softmax_rows", dtype="bfloat16"), (1,), ("serial", "online-softmax", "functions"))
    assert count.judged.keys() == {"serial", "online-softmax", "functions"}
    assert not count.refused


ROUNDED = [
    ("attention_half", "float32", "BATCH=3,HEADS=3,LENGTH=25,WIDTH=3,regime=mixed", 15676149074416),
    ("transformer_block", "bfloat16", "BATCH=2,LENGTH=1,WIDTH=16,regime=negatives", 162848189617043),
]
"""Gradients in half precision that differ most where a tensor core takes what is between two products rounded."""


@pytest.mark.long
@pytest.mark.parametrize(("name", "dtype", "workload", "seed"), ROUNDED, ids=["by little", "by far"])
def test_factors_rounded_to_half_precision_are_allowed(name, dtype, workload, seed, monkeypatch):
    oracle = problem(name, dtype=dtype, backward=True)
    chosen = [w for w in oracle.task.workloads if w.name == workload]
    assert not judge(oracle, (seed,), ("half-factors", "flash"), chosen).refused
    monkeypatch.setattr("kernelwright.verify._sensitivity.measured_in", lambda *_, **__: MEASURED)
    assert judge(oracle, (seed,), ("half-factors",), chosen).refused


REPEATED = [
    (
        "conv_group_norm_silu",
        False,
        "BATCH=5,IN_CHANNELS=9,HEIGHT=7,WIDTH=7,OUT_CHANNELS=16,regime=constant",
        147288784136080,
    ),
    ("gru_sequence", True, "BATCH=33,STEPS=7,IN_FEATURES=33,HIDDEN=33,regime=constant", 56029713480927),
]
"""An input of one value: all roundings go one way, which another order of the sum decides."""


@pytest.mark.long
@pytest.mark.parametrize(("name", "backward", "workload", "seed"), REPEATED, ids=["moments", "products"])
def test_errors_that_repeat_with_the_inputs_are_allowed(name, backward, workload, seed, monkeypatch):
    oracle = problem(name, dtype="float32", backward=backward)
    chosen = [w for w in oracle.task.workloads if w.name == workload]
    orders = ("one-pass", "pairwise", "split-k")
    assert not judge(oracle, (seed,), orders, chosen).refused
    monkeypatch.setattr("kernelwright.verify._sensitivity.measured_in", lambda *_, **__: MEASURED)
    assert judge(oracle, (seed,), orders, chosen).refused


BESIDE_NAN = [
    (
        "conv_batch_norm_residual",
        "bfloat16",
        "BATCH=9,CHANNELS=9,HEIGHT=7,WIDTH=7,regime=special",
        65143283061587,
    ),
    (
        "conv_hardswish_max_pool",
        "float16",
        "BATCH=5,IN_CHANNELS=9,HEIGHT=9,WIDTH=9,regime=special",
        184006999197152,
    ),
]
"""Gradients that are NaN natively, and numbers where products of zeros are left out: rounded factors move these."""


@pytest.mark.parametrize(("name", "dtype", "workload", "seed"), BESIDE_NAN, ids=["batch norm", "max pool"])
def test_what_is_a_number_without_products_of_zeros_may_be_as_far_off_as_others(name, dtype, workload, seed):
    oracle = problem(name, dtype=dtype, backward=True)
    chosen = [w for w in oracle.task.workloads if w.name == workload]
    assert not judge(oracle, (seed,), ("half-factors",), chosen).refused
    case = oracle.case(chosen[0], seed)
    spoilt = [torch.where(t.native.isnan(), 100.0, t.native.float()).to(t.native.dtype) for t in case.outputs]
    assert refused(spoilt, case)


OVERFLOWING = "BATCH=5,HEADS=9,LENGTH=9,WIDTH=17,regime=large-scale"
"""Gradients in float16 that overflow in one evaluation and not in another; they may be off by more than they are."""


@pytest.mark.parametrize("seed", [11, 24])
def test_one_evaluation_may_overflow_where_another_does_not(seed):
    oracle = problem("attention_half", dtype="float16", backward=True)
    workload = next(w for w in oracle.task.workloads if w.name == OVERFLOWING)
    assert not judge(oracle, (seed,), ("half-factors", "flash"), [workload]).refused
    case = oracle.case(workload, seed)
    for i, tolerance in enumerate(case.outputs):
        for wrong in (torch.inf, torch.nan):
            spoilt = [t.native for t in case.outputs]
            spoilt[i] = torch.full_like(tolerance.native, wrong)
            assert refused(spoilt, case)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("by_hand", [False, True])
def test_attention_in_one_pass_is_attention(causal, by_hand):
    random = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, 3, 40, 8, generator=random) for _ in range(3))

    def attend(q, k, v):
        if not by_hand:
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
        scores = q @ k.mT * 8**-0.5
        later = torch.ones(40, 40, dtype=torch.bool).triu(1) & causal
        return scores.masked_fill(later, -torch.inf).softmax(-1) @ v

    expected, flash = attend(q.double(), k.double(), v.double()), Flash()
    with flash:
        found = attend(q, k, v)
    assert flash.used
    assert torch.allclose(found.double(), expected, atol=1e-5)
    assert not torch.equal(found, attend(q, k, v))


def test_a_softmax_that_nothing_is_multiplied_by_is_no_attention_in_one_pass():
    flash = Flash()
    with flash:
        torch.randn(4, 5).softmax(-1) + 1
    assert not flash.used


@pytest.mark.parametrize("add", SUMS.values(), ids=SUMS)
def test_an_order_adds_every_term_once_in_its_own_way(add):
    terms = torch.randn(1003, 40, generator=torch.Generator().manual_seed(0))
    total = add(terms)
    assert torch.allclose(total.double(), terms.double().sum(0), atol=1e-4)
    assert not torch.equal(total, serial(terms))


@pytest.mark.parametrize("shape", [(1003, 40), (1003, 3), (1003,), (1, 40)])
def test_a_serial_sum_adds_one_term_after_another(shape):
    terms = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    total = torch.zeros(shape[1:])
    for term in terms:
        total = total + term
    assert torch.equal(serial(terms), total)


@pytest.mark.parametrize("moments", MOMENTS.values(), ids=MOMENTS)
def test_moments_are_those_of_all_terms(moments):
    terms = torch.randn(1003, 40, generator=torch.Generator().manual_seed(0)) + 3
    mean, squares = moments(terms)
    assert torch.allclose(mean.double(), terms.double().mean(0), rtol=1e-5)
    assert torch.allclose(squares.double(), terms.double().var(0, correction=0) * 1003, rtol=1e-4)


@pytest.mark.parametrize("product", [fused, tensor_core, split_k])
def test_products_multiply_all_terms(product):
    random = torch.Generator().manual_seed(0)
    left, right = torch.randn(2, 5, 70, generator=random), torch.randn(2, 70, 6, generator=random)
    assert torch.allclose(product(left, right).double(), left.double() @ right.double(), atol=1e-4)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("groups", [1, 2])
def test_a_convolution_by_products_is_one(transposed, groups):
    x = torch.randn(3, 4, 9, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    weight = torch.linspace(-1, 1, 4 * 4 // groups * 6, dtype=torch.float64).view(4, 4 // groups, 3, 2)
    sizes = ([2, 2], [1, 0], [1, 2], transposed, [1, 0] if transposed else [0, 0], groups)
    found = convolution(torch.matmul, x, weight, None, *sizes)
    assert torch.allclose(found, torch.convolution(x, weight, None, *sizes))


@pytest.mark.long
@pytest.mark.parametrize("name", ["instance_norm", "mean_squared_error"])
def test_but_for_what_is_allowed_to_drift_they_would_be(name, monkeypatch):
    monkeypatch.setattr("kernelwright.tasks.numerics._rounding.drift", lambda *args: None)
    monkeypatch.setattr("kernelwright.verify._sensitivity.measured_in", lambda *_, **__: ())
    assert judge(problem(name), (1, 2)).refused


@pytest.mark.long
def test_but_for_what_plain_evaluations_are_off_by_one_pass_would_be_refused(monkeypatch):
    monkeypatch.setattr("kernelwright.verify._sensitivity.measured_in", lambda *_, **__: ())
    assert judge(problem("layer_norm"), (1, 2), ("shifted",)).refused


@pytest.mark.parametrize(
    ("name", "most"), [("layer_norm", 120), ("matmul_square", 400), ("softmax_rows", 60)]
)
def test_a_single_wrong_element_is_refused(name, most):
    oracle = problem(name)
    case = oracle.case(oracle.task.split(Split.SEARCH)[0], 1)
    assert smallest_refused("one element", case) <= most


@pytest.mark.parametrize("name", ["sum_middle_axis", "matmul_square", "layer_norm", "variance_rows"])
def test_a_dropped_term_and_a_sum_in_bfloat16_are_refused(name):
    oracle = problem(name)
    case = oracle.case(oracle.task.split(Split.SEARCH)[0], 1)
    assert smallest_refused("sum in bfloat16", case, oracle.problem) == 1
    assert smallest_refused("last term dropped", case, oracle.problem) == 1


@pytest.mark.long
def test_functions_may_be_off_in_either_direction():
    """Where all rows are equal and the derivative of silu nearly cancels, functions that fall short err less."""
    (path,) = (p for _, p in problems() if p.stem == "swiglu")
    oracle = load(path, backward=True)
    constant = [w for w in oracle.task.workloads if "regime=constant" in w.name]
    found = judge(oracle, [220453238736378, *range(1000, 1004)], ["functions"], constant)
    assert found.judged["functions"] == 5 and not found.refused
