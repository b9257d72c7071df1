"""Products with packed factors: sums, what follows them, factors that change, gradients, wrong calls."""

import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.ops.mutants import verdicts
from torch.nn import functional

from kernelwright import ops
from kernelwright.errors import InputError
from kernelwright.ops import gemm

CURVES = {
    None: lambda x: x, "relu": torch.relu, "silu": functional.silu, "gelu": functional.gelu,
    "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
}  # fmt: skip
SIZES = [(1, 1, 1), (1, 70, 301), (3, 33, 64), (13, 64, 33), (40, 100, 1025), (200, 31, 17)]


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def ran_by_kernel(call):
    (ran,) = ops.watch(call)
    return ran.serves == "kernel"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("activation", CURVES)
def test_a_product_and_what_follows_it(dtype, activation):
    for rows, columns, inner in SIZES:
        a, b = torch.randn(rows, inner).to(dtype), (torch.randn(inner, columns) * inner**-0.5).to(dtype)
        bias, gate, residual = (
            torch.randn(s).to(dtype) for s in ((columns,), (rows, columns), (rows, columns))
        )
        packed = gemm.pack(b, follow=False)
        tolerance = 2e-6 if dtype is torch.float32 else 1e-2
        sums = a.double() @ b.double()
        for more in ({}, {"bias": bias}, {"bias": bias, "gate": gate, "residual": residual}):
            found = gemm.matmul(a, packed, activation=activation, **more)
            right = CURVES[activation](sums + bias.double() if more else sums)
            if "gate" in more:
                right = right * gate.double() + residual.double()
            torch.testing.assert_close(found.double(), right, rtol=tolerance, atol=4 * tolerance)
            assert found.dtype is dtype
            assert ran_by_kernel(lambda: gemm.matmul(a, packed, activation=activation, **more))  # noqa: B023
            torch.testing.assert_close(
                gemm.matmul(a, b, activation=activation, **more).double(),
                right,
                rtol=4 * tolerance,
                atol=8 * tolerance,
            )


@pytest.mark.parametrize("size", [*SIZES, (5, 40, 4096)], ids=str)
def test_integers_are_exact_and_scaled(size):
    rows, columns, inner = size
    a, b = (torch.randint(-128, 128, s, dtype=torch.int8) for s in ((rows, inner), (inner, columns)))
    a[0], b[:, 0] = -128, -128  # the largest sum
    packed, right = gemm.pack(b, follow=False), (a.double() @ b.double()).long()
    assert torch.equal(gemm.int_mm(a, packed).long(), right)
    for view in (b, b.t().contiguous().t()):
        assert torch.equal(gemm.int_mm(a, gemm.pack(view)).long(), right)
    assert ran_by_kernel(lambda: gemm.int_mm(a, packed))
    row_scale, column_scale, bias = torch.rand(rows), torch.rand(columns), torch.randn(columns)
    found = gemm.int_mm(
        a, packed, row_scale=row_scale, column_scale=column_scale, bias=bias, activation="relu"
    )
    scaled = (right.double() * row_scale.double()[:, None] * column_scale.double() + bias.double()).relu()
    torch.testing.assert_close(found.double(), scaled, rtol=1e-5, atol=1e-4)


def test_sums_of_more_bytes_than_an_int32_holds_are_left_to_the_reference():
    a, b = torch.ones(1, 131073, dtype=torch.int8), torch.ones(131073, 1, dtype=torch.int8)
    packed = gemm.pack(b, follow=False)
    with pytest.warns(RuntimeWarning, match="more inner elements"):
        assert gemm.int_mm(a, packed).item() == 131073


def test_a_factor_is_followed_or_frozen():
    a, b = torch.randn(64, 300), torch.randn(300, 200)
    followed, frozen, before = gemm.pack(b), gemm.pack(b, follow=False), a @ b
    layout = followed.panels
    assert followed.panels is layout, "packed once"
    b.mul_(2)
    torch.testing.assert_close(gemm.matmul(a, followed), 2 * before, rtol=1e-4, atol=1e-3)
    torch.testing.assert_close(gemm.matmul(a, frozen), before, rtol=1e-4, atol=1e-3)
    assert followed.panels is not layout


def test_a_product_is_left_to_torch_where_torch_is_faster():
    small, large = (torch.randn(4, 8), torch.randn(8, 8)), (torch.randn(8, 700), torch.randn(700, 600))
    assert ops.watch(lambda: gemm.matmul(small[0], gemm.pack(small[1]))) == []
    assert ran_by_kernel(lambda: gemm.matmul(small[0], gemm.pack(small[1], follow=False)))
    assert ran_by_kernel(lambda: gemm.matmul(large[0], gemm.pack(large[1])))
    assert ops.watch(lambda: gemm.matmul(*large)) == []


def test_a_view_of_a_weight_is_a_factor_and_rows_may_lie_apart():
    weight, wide = torch.randn(96, 130), torch.randn(20, 260)
    packed = gemm.pack(weight.t(), follow=False)
    for a in (wide[:, 64:194], wide[::2, :130], wide[:1, 1:131], torch.randn(20, 1024)[:, :130]):
        torch.testing.assert_close(gemm.matmul(a, packed), a @ weight.t(), rtol=1e-4, atol=1e-4)
        assert ran_by_kernel(lambda: gemm.matmul(a, packed))  # noqa: B023
    across = torch.randn(130, 20).t()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.testing.assert_close(gemm.matmul(across, packed), across @ weight.t(), rtol=1e-4, atol=1e-4)


def test_leading_axes_and_empty_ones():
    b = torch.randn(24, 40)
    packed = gemm.pack(b, follow=False)
    x, gate = torch.randn(2, 3, 24), torch.randn(2, 3, 40)
    torch.testing.assert_close(gemm.matmul(x, packed, gate=gate), x @ b * gate, rtol=1e-4, atol=1e-4)
    assert gemm.matmul(torch.randn(24), packed).shape == (40,)
    assert gemm.matmul(torch.randn(0, 24), packed).shape == (0, 40)
    nothing = gemm.matmul(torch.randn(3, 0), gemm.pack(torch.randn(0, 5), follow=False), torch.ones(5))
    assert torch.equal(nothing, torch.ones(3, 5))


def test_a_value_that_is_no_number_stays_in_its_row_and_column():
    for dtype in (torch.float32, torch.bfloat16):
        a, b = torch.randn(20, 50).to(dtype), torch.randn(50, 40).to(dtype)
        a[3, 7], b[9, 11] = float("nan"), float("inf")
        found = gemm.matmul(a, gemm.pack(b, follow=False)).isfinite()
        assert not bool(found[3].any())
        assert not bool(found[:, 11].any())
        found[3], found[:, 11] = True, True
        assert bool(found.all())


def test_the_same_for_any_number_of_threads():
    a, b = torch.randn(300, 700), torch.randn(700, 500)
    packed, before, found = gemm.pack(b, follow=False), torch.get_num_threads(), []
    ones, twos = a.bfloat16(), gemm.pack(b.bfloat16(), follow=False)
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        found.append((gemm.matmul(a, packed), gemm.matmul(ones, twos)))
    torch.set_num_threads(before)
    for other in found[1:]:
        assert torch.equal(found[0][0], other[0])
        assert torch.equal(found[0][1], other[1])


def test_gradients_of_the_kernel_and_of_a_followed_weight():
    a, b = torch.randn(40, 64), torch.randn(64, 100)
    for packed in (gemm.pack(b, follow=False), gemm.pack(b.clone().requires_grad_())):
        one, two = a.clone().requires_grad_(), a.clone().requires_grad_()
        gemm.matmul(one, packed, activation="gelu").square().sum().backward()
        weight = b.clone().requires_grad_()
        functional.gelu(two @ weight).square().sum().backward()
        torch.testing.assert_close(one.grad, two.grad, rtol=1e-4, atol=1e-3)
        if packed.native is not None:
            torch.testing.assert_close(packed.native.grad, weight.grad, rtol=1e-4, atol=1e-3)


def test_a_compiled_call_is_the_same():
    b, bias = torch.randn(64, 48), torch.randn(48)
    panels, a = gemm.pack(b, follow=False).panels, torch.randn(5, 64)

    def call(a):
        return torch.ops.kernelwright.gemm_matmul(a, panels, bias, None, None, 1, 48) * 2

    torch.testing.assert_close(torch.compile(call, backend="aot_eager")(a), (a @ b + bias).relu() * 2)
    torch.library.opcheck(torch.ops.kernelwright.gemm_matmul.default, (a, panels, bias, None, None, 1, 48))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_call_is_right_or_refused_in_one_sentence(data):
    size = st.integers(0, 40)
    rows, inner, columns = data.draw(size), data.draw(size), data.draw(size)
    dtype = data.draw(
        st.sampled_from([torch.float32, torch.bfloat16, torch.float64, torch.int8, torch.int32])
    )
    other = data.draw(st.sampled_from([dtype, dtype, dtype, torch.float32]))
    a = torch.randint(-4, 5, (rows, inner)).to(dtype)
    b = torch.randint(-4, 5, (data.draw(st.sampled_from([inner, inner, inner + 1])), columns)).to(other)
    more = {}
    for name, shape in (("bias", (columns,)), ("gate", (rows, columns)), ("residual", (rows, columns))):
        if data.draw(st.booleans()):
            shape = data.draw(st.sampled_from([shape, shape, shape, (3,), ()]))
            more[name] = torch.ones(shape, dtype=data.draw(st.sampled_from([dtype, dtype, torch.float32])))
    try:
        packed = gemm.pack(b, follow=data.draw(st.booleans())) if data.draw(st.booleans()) else b
        found = gemm.int_mm(a, packed) if dtype is torch.int8 else gemm.matmul(a, packed, **more)
    except InputError as error:
        assert "\n" not in str(error) and "expected" in str(error)
        return
    right = a.double() @ b.double()
    right = right + more["bias"].double() if "bias" in more and dtype is not torch.int8 else right
    if dtype is not torch.int8:
        right = right * more["gate"].double() if "gate" in more else right
        right = right + more["residual"].double() if "residual" in more else right
    torch.testing.assert_close(found.double(), right, rtol=1e-2, atol=1e-5)


A, B = torch.randn(3, 8), gemm.pack(torch.randn(8, 5))
INTS = gemm.pack(torch.ones(8, 5, dtype=torch.int8))


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            lambda: gemm.pack(torch.ones(3)),
            r"b is of shape \(3,\).*expected a matrix of float32, bfloat16 or int8",
        ),
        (lambda: gemm.pack(torch.ones(3, 3).double()), "float64; expected a matrix"),
        (lambda: gemm.pack([1]), "b is a list"),
        (lambda: gemm.matmul(A, B, activation="tanh"), "activation is 'tanh'; expected 'relu'"),
        (lambda: gemm.matmul(A[:, :7], B), r"a is of shape \(3, 7\).*expected \(..., 8\)"),
        (lambda: gemm.matmul(A.bfloat16(), B), "bfloat16; expected .*float32, as b is"),
        (lambda: gemm.matmul(A, B, torch.ones(4)), r"bias is of shape \(4,\).*expected \(5,\)"),
        (lambda: gemm.matmul(A, B, gate=torch.ones(3, 4)), r"gate is of shape \(3, 4\).*expected \(3, 5\)"),
        (lambda: gemm.matmul(A, B, residual=torch.ones(3)), r"residual is of shape"),
        (lambda: gemm.matmul(A, B, gate=torch.tensor(1.0)), r"gate is of shape \(\)"),
        (lambda: gemm.matmul(A, B, gate=2.0), r"gate is 2\.0; expected a tensor"),
        (lambda: gemm.matmul(A, 5), "b is 5; expected a tensor or a Packed"),
        (lambda: gemm.matmul(A, INTS), "expected .*int8, as b is"),
        (lambda: gemm.int_mm(A, INTS), "a is of shape .*float32"),
        (lambda: gemm.int_mm(A.to(torch.int8), B), "expected a packed matrix of int8"),
        (lambda: gemm.int_mm(A.to(torch.int8), INTS, bias=torch.ones(5)), "column_scale is None"),
        (lambda: gemm.int_mm(A.to(torch.int8), INTS, column_scale=torch.ones(4)), "column_scale is of shape"),
    ],
)
def test_a_wrong_argument_is_named_in_one_sentence(call, says):
    with pytest.raises(InputError, match=says) as error:
        call()
    assert "\n" not in str(error.value)


def test_a_factor_made_in_inference_mode_cannot_be_followed():
    with torch.inference_mode():
        b = torch.ones(4, 4)
    with pytest.raises(InputError, match="leave no trace"):
        gemm.pack(b)
    assert gemm.matmul(torch.ones(1, 4), gemm.pack(b, follow=False)).tolist() == [[4.0] * 4]


FOLLOWED = {
    "no bias": ("sum += load(bias + n, lanes)", "sum += F{}"),
    "gelu by tanh": ("sum = gelu(sum)", "sum = gelu_tanh(sum)"),
    "the gate of the first row": ("load(gate + at, lanes)", "load(gate + n, lanes)"),
    "the residual of the first row": ("load(residual + at, lanes)", "load(residual + n, lanes)"),
}
PAIRED = {
    "one vector for both": ("right.add(acc[i][r][1], two, four)", "right.add(acc[i][r][1], one, four)"),
    "a row for another": ("r % 4 == 3 ? three : r % 4 * apart", "r % 4 * apart / 3 * 3"),
}
BYTES = {
    "128 not taken off": ("less.data[m] = 128 *", "less.data[m] = 127 *"),
    "no scale of rows": ("of_rows ? of_rows[m] : 1.0f", "of_rows ? of_rows[0] : 1.0f"),
}


@pytest.mark.long
@pytest.mark.parametrize(
    ("op", "at", "mutants"),
    [("gemm_matmul", 0, FOLLOWED), ("gemm_matmul", 2, PAIRED), ("gemm_integers", 1, BYTES)],
)
def test_the_judge_accepts_the_kernel_and_refuses_mutants_of_it(op, at, mutants, tmp_path):
    found = verdicts("gemm", op, mutants, tmp_path, at=at)
    assert found == {"": "accepted"} | dict.fromkeys(mutants, "rejected")
