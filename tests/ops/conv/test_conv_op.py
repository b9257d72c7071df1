"""Convolutions against torch's in float64: windows over the edge, strides, groups, causal ones, gradients, errors."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kernelwright import ops
from kernelwright.errors import InputError
from kernelwright.ops import conv

CURVES = {None: lambda x: x, "relu": F.relu, "silu": F.silu}


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def near(found, exact):
    assert found.shape == exact.shape
    if not exact.numel():
        return
    bound = {torch.float32: 1e-5, torch.bfloat16: 2.0**-8}[found.dtype]
    assert (found.double() - exact).abs().max() <= bound * exact.abs().max().clamp(min=1)


def tensors(items, channels, size, results, groups, taps, dtype=torch.float32):
    x, weight = torch.randn(items, channels, *size), torch.randn(results, channels // groups, *taps)
    return [t.to(dtype) for t in (x, weight, torch.randn(results))]


def exact_of(form, given, activation, **how):
    return CURVES[activation](form(*(t.double() for t in given), **how))


SIZES = [(1, 1), (2, 5), (7, 7), (9, 16), (14, 14), (5, 17), (33, 50)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("taps", [(3, 3), (5, 5), (7, 7), (1, 4), (2, 3)])
@pytest.mark.parametrize("size", SIZES)
def test_depthwise_is_torchs_in_float64(size, taps, dtype):
    given = tensors(2, 3, size, 6, 3, taps, dtype)
    how = {"padding": tuple(n - 1 for n in taps), "groups": 3}
    for activation in CURVES:
        (ran,) = ops.watch(lambda: conv.conv2d(*given, **how, activation=activation))  # noqa: B023
        assert ran.serves == "kernel"
        near(conv.conv2d(*given, **how, activation=activation), exact_of(F.conv2d, given, activation, **how))


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("results", [2, 4, 12, 26])
@pytest.mark.parametrize("size", SIZES)
def test_pointwise_is_torchs_in_float64(size, results, groups):
    given = tensors(2, 18, size, results, groups, (1, 1))
    near(conv.conv2d(*given, groups=groups), exact_of(F.conv2d, given, None, groups=groups))


@pytest.mark.parametrize("results", [2, 8, 18])
@pytest.mark.parametrize(
    "how",
    [
        {"padding": 1}, {"stride": 2, "padding": (0, 2)}, {"stride": (1, 3), "padding": 1}, {"groups": 2, "padding": 1},
        {"dilation": 2, "padding": 2},
    ],
)  # fmt: skip
def test_small_windows_are_torchs_in_float64(how, results):
    for size, taps in (((9, 11), (3, 3)), ((30, 37), (3, 2)), ((8, 65), (2, 3))):
        given = tensors(2, 4, size, results, how.get("groups", 1), taps)
        near(conv.conv2d(*given, **how, activation="relu"), exact_of(F.conv2d, given, "relu", **how))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_causal_result_depends_on_no_later_place(dtype):
    given = tensors(2, 5, (40,), 5, 5, (4,), dtype)
    out = conv.conv1d(*given, padding="causal", groups=5, activation="silu")
    near(out, exact_of(F.conv1d, given, "silu", padding=3, groups=5)[..., :40])
    given[0][..., 23:] = 7
    assert torch.equal(
        conv.conv1d(*given, padding="causal", groups=5, activation="silu")[..., :23], out[..., :23]
    )


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel:UserWarning")
def test_words_for_padding_are_torchs():
    given = tensors(1, 3, (10, 12), 4, 1, (2, 4))
    for word in ("same", "valid"):
        near(conv.conv2d(*given, padding=word), exact_of(F.conv2d, given, None, padding=word))


def test_what_is_no_number_stays_where_its_window_reaches():
    x = torch.zeros(1, 1, 9, 40)
    x[0, 0, 4, 20] = torch.nan
    out = conv.conv2d(x, torch.ones(1, 1, 3, 3), padding=1)
    assert out.isnan().nonzero().tolist() == [[0, 0, y, z] for y in (3, 4, 5) for z in (19, 20, 21)]


def test_gradients_are_those_of_float64_and_have_gradients():
    given = tensors(1, 4, (5, 6), 4, 2, (3, 3))
    found = []
    for dtype, form in ((torch.float32, conv.conv2d), (torch.float64, F.conv2d)):
        leaves = [t.to(dtype, copy=True).requires_grad_() for t in given]
        out = form(*leaves, stride=2, padding=1, groups=2)
        found.append(torch.autograd.grad(F.silu(out).square().sum(), leaves))
    for mine, exact in zip(*found, strict=True):
        near(mine, exact)
    with pytest.warns(RuntimeWarning, match="runs its reference: x is of torch.float64"):
        assert torch.autograd.gradgradcheck(
            lambda *t: conv.conv2d(*t, padding=1, groups=2, activation="silu"),
            [
                t.double()[..., :3].requires_grad_() if t.dim() > 1 else t.double().requires_grad_()
                for t in given
            ],
        )


def test_threads_change_nothing():
    given, before, found = tensors(4, 32, (30, 31), 32, 32, (3, 3)), torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found.append(conv.conv2d(*given, padding=1, groups=32))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*found)


def test_the_op_is_registered_as_torch_asks():
    given = tensors(1, 2, (5, 6), 4, 1, (3, 2))
    numbers = (1, 1, 1, 0, 1, 1, 1, 1, 1, 0)
    torch.library.opcheck(torch.ops.kernelwright.conv.default, (*given, *numbers))


X, W = torch.ones(1, 4, 5, 6), torch.ones(2, 4, 3, 3)
WRONG = [
    (lambda: conv.conv2d(X[0], W), r"x is of shape \(4, 5, 6\).*expected \(items, channels, height, width\)"),
    (
        lambda: conv.conv2d(X, W[:, :3]),
        r"weight is of shape \(2, 3, 3, 3\).*expected \(results, 4, height, width\)",
    ),
    (lambda: conv.conv2d(X, W.double()), "weight is .*float64; expected .*float32"),
    (lambda: conv.conv2d(X, W, torch.ones(3)), r"bias is of shape \(3,\).*expected \(2,\)"),
    (lambda: conv.conv2d(X, W, groups=3), "groups is 3; expected a divisor of 4"),
    (lambda: conv.conv2d(X, W, stride=0), r"stride is \(0, 0\); expected numbers of at least 1"),
    (lambda: conv.conv2d(X, W, padding=-1), "padding is .*expected numbers of at least 0"),
    (
        lambda: conv.conv2d(X, W, padding=1.5),
        r"padding is 1\.5; expected a whole number or a list of whole numbers",
    ),
    (
        lambda: conv.conv2d(X, W, padding="causal"),
        "padding is 'causal'; expected numbers or one of valid, same",
    ),
    (
        lambda: conv.conv2d(X, W, padding="same", stride=2),
        "padding is 'same'; expected numbers, for a stride of 2",
    ),
    (lambda: conv.conv2d(X, W, dilation=3), "x is .*expected an image that with its padding is no smaller"),
    (lambda: conv.conv2d(X, W, activation="gelu"), "activation is 'gelu'; expected None, 'relu' or 'silu'"),
    (lambda: conv.conv2d(X, W, activation=[]), r"activation is a list; expected a word or None"),
    (lambda: conv.conv2d(X, None), "weight is None; expected a tensor"),
    (lambda: conv.conv2d(X, W, groups=None), "groups is None; expected a whole number"),
    (lambda: conv.conv1d(X, W), r"x is .*expected \(items, channels, length\)"),
    (lambda: conv.conv1d(X[0].long(), W[0]), "x is of torch.int64"),
]


@pytest.mark.parametrize(("call", "says"), WRONG)
def test_a_wrong_argument_is_named_in_one_sentence(call, says):
    with pytest.raises(InputError, match=says) as error:
        call()
    assert "\n" not in str(error.value)


SMALL = st.integers(0, 4)


@settings(max_examples=150, deadline=None)
@given(
    st.tuples(SMALL, SMALL, SMALL, SMALL), st.tuples(SMALL, SMALL, SMALL, SMALL), st.integers(-1, 3),
    st.integers(-1, 3) | st.sampled_from(["same", "valid", "none", None]), st.integers(-1, 3), st.integers(-1, 3),
)  # fmt: skip
def test_any_call_is_torchs_or_is_refused(shape, window, stride, padding, dilation, groups):
    x, weight = torch.randn(shape), torch.randn(window)
    how = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    try:
        out = conv.conv2d(x, weight, **how)
    except InputError as error:
        assert "expected" in str(error)
    else:
        assume(
            0 not in shape[1:] or not out.numel()
        )  # which torch refuses, though padding alone has an answer
        near(out, F.conv2d(x.double(), weight.double(), **how))
