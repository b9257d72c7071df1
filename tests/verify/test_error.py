"""The comparison: what is near enough to a float64 truth."""

import pytest
import torch

from kernelwright.records import Contract
from kernelwright.verify import error_against, output_tolerance

X = torch.randn(64, 256, generator=torch.Generator().manual_seed(0))
TRUTH, NATIVE = torch.softmax(X.double(), -1), torch.softmax(X, -1)


def compare(output, truth=TRUTH, native=NATIVE, **options):
    return error_against(output, output_tolerance(truth, native, Contract(), **options))


def test_the_native_output_and_another_order_of_summation_pass():
    assert compare(NATIVE).ok
    shuffled = torch.randperm(256, generator=torch.Generator().manual_seed(1))
    other = torch.empty_like(NATIVE)
    other[:, shuffled] = torch.softmax(X[:, shuffled], -1)
    assert compare(other).ok


@pytest.mark.parametrize(
    "wrong",
    [
        torch.zeros_like(NATIVE), NATIVE * 0.99, NATIVE.half().float(), NATIVE.bfloat16().float(), NATIVE.flip(0),
        torch.softmax(X.half().float(), -1), torch.full_like(NATIVE, float(NATIVE.mean())),
    ],
)  # fmt: skip
def test_wrong_answers_fail(wrong):
    assert not compare(wrong).ok


def test_one_wrong_element_fails_although_all_others_are_right():
    wrong = NATIVE.clone()
    wrong[5, 7] *= 1.5
    found = compare(wrong)
    assert (found.kind, found.wrong) == ("element", 1)


def test_who_only_asks_whether_it_is_right_stops_at_the_first_chunk_that_is_not():
    x = torch.randn(256, 256, generator=torch.Generator().manual_seed(3))
    native = torch.softmax(x, -1)
    ruler = output_tolerance(torch.softmax(x.double(), -1), native, Contract())
    late = native.clone()
    late[-1, -1] *= 1.5
    assert error_against(native, ruler, brief=True).ok
    assert not error_against(late, ruler, brief=True).ok
    whole, brief = (error_against(native * 2, ruler, brief=b).wrong for b in (False, True))
    assert 0 < brief <= whole / 4


def test_tiny_elements_that_are_flushed_show_in_norm():
    x = torch.randn(64, 256, generator=torch.Generator().manual_seed(2))
    x[:, ::2] *= 1e-9
    truth = x.double() * 3
    assert compare(x * 3, truth, x * 3).ok
    flushed = torch.where(x.abs() < 1e-6, 0.0, x * 3)
    assert compare(flushed, truth, x * 3).kind == "norm"


def test_cancellation_is_forgiven_where_the_inputs_own_rounding_causes_it():
    truth = torch.full((1,), 1e-9, dtype=torch.float64)
    output = torch.tensor([1e-7])
    assert not compare(output, truth, truth.float()).ok
    moved = torch.full((1,), 1e-7, dtype=torch.float64)
    capped = output_tolerance(truth, truth.float(), Contract(error_cap=1e3), sensitivity=moved)
    assert error_against(output, capped).ok


def test_nan_and_infinity_must_stand_where_the_reference_has_them():
    truth, native = TRUTH.clone(), NATIVE.clone()
    truth[0, 0], native[0, 0] = float("nan"), float("nan")
    truth[1, 1], native[1, 1] = float("inf"), float("inf")
    assert compare(native, truth, native).ok
    assert compare(NATIVE, truth, native).kind == "nonfinite"
    minus = native.clone()
    minus[1, 1] = float("-inf")
    assert compare(minus, truth, native).kind == "nonfinite"
    assert compare(native).kind == "nonfinite"


def test_nan_may_be_forbidden():
    native = NATIVE.clone()
    native[0, 0] = float("nan")
    tolerance = output_tolerance(native.double(), native, Contract(nan="forbid"))
    assert error_against(native, tolerance).kind == "nonfinite"


def test_overflow_of_the_declared_dtype_is_the_native_ops_affair():
    truth = torch.full((4,), 1e40, dtype=torch.float64)
    native = truth.float()
    assert compare(native, truth, native).ok


def test_exact_arithmetic_must_be_exact():
    whole = torch.arange(64.0).view(4, 16)
    off = whole.clone()
    off[3, 3] = torch.nextafter(off[3, 3], torch.tensor(1e9))
    assert compare(off, whole.double(), whole).ok
    assert compare(off, whole.double(), whole, exact=True).kind == "exact"


def test_integers_are_exact_but_ties_of_an_argmax_are_equal():
    x = torch.zeros(8, 20)
    x[:, 3] = x[:, 9] = 1.0
    tolerance = output_tolerance(x.argmax(-1), x.argmax(-1), Contract())
    other = torch.where(x.argmax(-1) == 3, 9, 3)
    assert error_against(other, tolerance, [x]).ok
    assert not error_against(other, tolerance).ok
    assert error_against(torch.full_like(other, 4), tolerance, [x]).kind == "integer"


def test_ties_of_a_sort_may_come_in_any_order_but_not_twice():
    x = torch.tensor([[1.0, 1.0, 2.0, 3.0]])
    tolerance = output_tolerance(x.argsort(-1), x.argsort(-1), Contract())
    assert error_against(torch.tensor([[1, 0, 2, 3]]), tolerance, [x]).ok
    assert not error_against(torch.tensor([[0, 0, 2, 3]]), tolerance, [x]).ok


def test_complex_and_empty_outputs_can_be_compared():
    z = torch.randn(40, dtype=torch.complex64)
    assert compare(z, z.to(torch.complex128), z).ok
    assert not compare(z * 0.99, z.to(torch.complex128), z).ok
    empty = torch.empty(0, 4)
    assert compare(empty, empty.double(), empty).ok


def test_a_jump_of_the_function_serves_either_side():
    truth = torch.ones(1000, dtype=torch.float64)
    native = truth.float()
    native[10] = -1.0
    assert compare(truth.float(), truth, native).ok
    assert compare(native, truth, native).ok
    wrong = native.clone()
    wrong[11] = -1.0
    assert not compare(wrong, truth, native).ok


HALF = TRUTH.bfloat16()


def cut_off(wide, bits=16):
    """Round towards zero to bfloat16."""
    return (wide.float().view(torch.int32) >> bits << bits).view(torch.float32).bfloat16()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("factor", [0.99, 1.01])
def test_a_factor_that_all_elements_are_off_by_is_found_in_half_precision(factor, dtype):
    found = compare((TRUTH * factor).to(dtype), native=TRUTH.to(dtype))
    assert not found.ok and found.kind == "common", found
    assert "all elements" in found.message
    some = torch.where(torch.arange(64)[:, None] < 58, factor, 1.0)
    assert not compare((TRUTH * some).to(dtype), native=TRUTH.to(dtype)).ok


def test_rounding_in_any_direction_is_no_common_factor():
    noise = torch.randn(TRUTH.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    for honest in (HALF, cut_off(TRUTH), (TRUTH * (1 + 2.0**-8 * noise)).bfloat16()):
        assert compare(honest, native=HALF).ok


def test_a_factor_that_the_native_op_has_too_is_allowed():
    native = (TRUTH * 0.996).bfloat16()
    assert compare((TRUTH * 1.01).bfloat16(), native=native).ok
    assert compare((TRUTH * 0.99).bfloat16(), native=native).ok


def test_elements_that_are_not_finite_count_for_no_factor():
    truth, native = TRUTH.clone(), HALF.clone()
    truth[3, 5], native[3, 5] = float("inf"), float("inf")
    assert compare(native, truth=truth, native=native).ok
    assert compare((truth * 0.99).bfloat16(), truth=truth, native=native).kind == "common"


@pytest.mark.parametrize("value", [0.0, 1e-30])
def test_nothing_has_no_factor(value):
    truth = torch.full((4, 32), value, dtype=torch.float64)
    assert compare(truth.bfloat16(), truth=truth, native=truth.bfloat16()).ok
