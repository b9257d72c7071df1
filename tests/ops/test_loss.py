"""Linear cross-entropy: values and gradients against torch in float64, options, special values, errors, memory."""

import itertools
import math

import pytest
import torch
from torch.nn.functional import cross_entropy, linear

from kernelwright import ops
from kernelwright.errors import ArgumentError
from kernelwright.ops.loss import linear_cross_entropy, reference
from kernelwright.ops.loss.cases import LOSSES

SIZES = [(w["rows"], w["vocabulary"], w["columns"]) for w in LOSSES.verified if w["rows"]]
OPTIONS = [
    {},
    {"label_smoothing": 0.1},
    {"z_loss": 1e-2},
    {"softcap": 4.0},
    {"label_smoothing": 0.3, "z_loss": 1e-3, "softcap": 9.0},
]


def drawn(rows, vocabulary, columns, dtype=torch.float32, bias=True):
    x = torch.randn(rows, columns).to(dtype).requires_grad_()
    weight = (torch.randn(vocabulary, columns) * 2 / columns**0.5).to(dtype).requires_grad_()
    target = torch.randint(0, vocabulary, (rows,))
    if rows > 1:
        target[:: max(2, rows // 3)] = -100
    return x, weight, target, torch.randn(vocabulary).requires_grad_() if bias else None


def exact(x, weight, target, bias, reduction, label_smoothing=0.0, z_loss=0.0, softcap=None):
    logits = linear(x, weight, bias)
    if softcap:
        logits = softcap * torch.tanh(logits / softcap)
    losses = cross_entropy(logits, target, label_smoothing=label_smoothing, reduction="none")
    losses = losses + torch.where(target != -100, z_loss * logits.logsumexp(1).square(), 0)
    if reduction == "none":
        return losses
    return losses.sum() / (1 if reduction == "sum" else (target != -100).sum())


def held(given, reduction, limit, **options):
    """Hold a loss and its gradients to float64; the shares of a row's loss differ, so that none is left out."""
    x, weight, target, bias = given
    leaves = [t for t in (x, weight, bias) if t is not None]
    loss = linear_cross_entropy(x, weight, target, bias, reduction=reduction, **options)
    share = torch.linspace(0.5, 1.5, loss.numel()).view(loss.shape)
    found = torch.autograd.grad((loss * share).sum(), leaves)
    wide = [t.detach().double().requires_grad_() for t in leaves]
    right = exact(wide[0], wide[1], target, wide[2] if bias is not None else None, reduction, **options)
    expected = torch.autograd.grad((right * share.double()).sum(), wide)
    scale = max(1.0, float(right.detach().abs().max()))
    assert float((loss.detach() - right.detach()).abs().max()) <= limit * scale
    for one, other in zip(found, expected, strict=True):
        norm = float(other.norm())
        assert one.shape == other.shape
        assert float((one.double() - other).norm()) <= limit * norm + 1e-9


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_every_size(size):
    held(drawn(*size), "mean", 2e-5)
    held(drawn(*size, bias=False), "none", 2e-5)


@pytest.mark.parametrize(
    ("options", "reduction"), list(itertools.product(OPTIONS, ("mean", "sum", "none"))), ids=str
)
def test_every_option(options, reduction):
    held(drawn(300, 530, 33), reduction, 2e-5, **options)


@pytest.mark.parametrize(("dtype", "limit"), [(torch.bfloat16, 5e-3), (torch.float16, 1e-3)])
def test_halves_are_summed_in_float32(dtype, limit):
    given = drawn(300, 530, 65, dtype)
    held(given, "mean", limit, label_smoothing=0.1)
    x, weight, target, bias = (t.detach() for t in given)
    right = exact(x.double(), weight.double(), target, bias.double(), "none")
    torch.testing.assert_close(linear_cross_entropy(x, weight, target, bias, reduction="none").double(), right,
                               rtol=1e-5, atol=1e-5)  # fmt: skip


@pytest.mark.filterwarnings("ignore:kernelwright linear_cross_entropy")
def test_the_reference_is_right_in_float64():
    x, weight, target, bias = (t.detach().double() if t.is_floating_point() else t for t in drawn(40, 70, 9))
    leaves = [t.requires_grad_() for t in (x, weight, bias)]
    for options in OPTIONS:
        loss = linear_cross_entropy(x, weight, target, bias, **options)
        right = exact(x, weight, target, bias, "mean", **options)
        torch.testing.assert_close(loss, right)
        for one, other in zip(
            torch.autograd.grad(loss, leaves), torch.autograd.grad(right, leaves), strict=True
        ):
            torch.testing.assert_close(one, other)


def test_large_logits_do_not_overflow_and_masked_ones_count_for_nothing():
    x, weight, target, _ = (t.detach() if t is not None else t for t in drawn(50, 300, 16, bias=False))
    bias = torch.zeros(300)
    bias[:250] = -math.inf
    target = target % 50 + 250
    losses = linear_cross_entropy(x * 1000, weight, target, bias, reduction="none")
    right = cross_entropy(linear(x.double() * 1000, weight.double(), bias.double()), target, reduction="none")
    torch.testing.assert_close(losses.double(), right, rtol=1e-5, atol=1e-3)
    weight.requires_grad_()
    (found,) = torch.autograd.grad(linear_cross_entropy(x, weight, target, bias), weight)
    assert not found[:250].any()
    assert found.isfinite().all()


def exact_logits(rows, vocabulary, largest):
    """Return x and weight whose products float32 holds exactly, around a large number of each row."""
    x, weight = torch.ones(rows, 8), torch.randint(-256, 257, (vocabulary, 8)) / 64
    x[:, 0], weight[:, 0] = torch.linspace(0.5, 1.0, rows).mul(largest).round(), 1.0
    return x.requires_grad_(), weight.requires_grad_(), torch.randint(0, vocabulary, (rows,))


@pytest.mark.parametrize("options", [{}, {"label_smoothing": 0.1, "z_loss": 1e-3}], ids=str)
@pytest.mark.parametrize("form", ["kernel", "reference"])
def test_gradients_are_as_exact_where_logits_are_large(form, options):
    given = exact_logits(50, 300, 4000.0)
    if form == "reference":
        x, weight, target = given
        smoothing, z_loss = options.get("label_smoothing", 0.0), options.get("z_loss", 0.0)
        found = reference.gradients(x, weight, target, None, -100, smoothing, z_loss, 0.0, torch.ones(50))[2]
    else:
        x, weight, target = given
        (found,) = torch.autograd.grad(
            linear_cross_entropy(x, weight, target, reduction="sum", **options), weight
        )
    wide = weight.detach().double().requires_grad_()
    (right,) = torch.autograd.grad(exact(x.detach().double(), wide, target, None, "sum", **options), wide)
    assert float((found - right).norm() / right.norm()) <= 5e-7


def test_many_small_terms_count_next_to_a_large_one():
    x, weight = torch.ones(3, 1), torch.full((60_000, 1), -17.0)
    weight[[0, 20_000, 40_000], 0] = 0.0
    target = torch.tensor([0, 20_000, 40_000])
    losses = linear_cross_entropy(x, weight, target, reduction="none")
    right = cross_entropy(linear(x.double(), weight.double()), target, reduction="none")
    torch.testing.assert_close(losses.double(), right, rtol=1e-6, atol=0.0)


def test_nan_is_seen_in_its_row_alone():
    x, weight, target, bias = (t.detach() for t in drawn(40, 90, 20))
    target = target.clamp(min=0)
    clean = linear_cross_entropy(x, weight, target, bias, reduction="none")
    x[7, 3] = math.nan
    losses = linear_cross_entropy(x, weight, target, bias, reduction="none")
    assert math.isnan(losses[7])
    rest = torch.arange(40) != 7
    assert torch.equal(losses[rest], clean[rest])


def test_nothing_that_counts_is_torchs_nan_and_an_empty_batch_sums_to_zero():
    x, weight = torch.randn(3, 4), torch.randn(5, 4)
    ignored = torch.full((3,), -100)
    assert math.isnan(linear_cross_entropy(x, weight, ignored))
    assert linear_cross_entropy(x, weight, ignored, reduction="sum") == 0
    assert linear_cross_entropy(x[:0], weight, ignored[:0], reduction="sum") == 0
    for leaf in (weight, weight.clone().requires_grad_()):  # with gradients and without
        assert linear_cross_entropy(x[:0], leaf, ignored[:0]).isnan()
    other = linear_cross_entropy(x, weight, torch.tensor([0, 1, 2]), ignore_index=1, reduction="none")
    assert other[1] == 0
    assert bool((other[[0, 2]] > 0).all())


def test_an_empty_batch_has_no_gradient():
    junk = [torch.full((5, 4), 7e30) for _ in range(64)]
    x, weight = torch.randn(0, 4, requires_grad=True), torch.randn(5, 4, requires_grad=True)
    del junk  # so that memory that nobody writes is seen
    linear_cross_entropy(x, weight, torch.empty(0, dtype=torch.int64), reduction="sum").backward()
    assert not weight.grad.any() and x.grad.shape == x.shape


def test_any_strides_are_read():
    x, weight, target, _ = drawn(70, 110, 24, bias=False)
    expected = linear_cross_entropy(x, weight, target)
    loss = linear_cross_entropy(x.T.contiguous().T, weight.T.contiguous().T, target)
    assert torch.equal(loss, expected)
    for one, other in zip(
        torch.autograd.grad(loss, (x, weight)), torch.autograd.grad(expected, (x, weight)), strict=True
    ):
        torch.testing.assert_close(one, other)


def test_it_is_the_same_every_time():
    x, weight, target, bias = drawn(600, 3000, 40)
    one, other = (
        torch.autograd.grad(linear_cross_entropy(x, weight, target, bias), (x, weight, bias))
        for _ in range(2)
    )
    assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # Dynamo's own
def test_it_goes_through_compile():
    x, weight, target, bias = drawn(30, 40, 8)

    def loss(x, weight, bias):
        return linear_cross_entropy(x * 2, weight, target, bias, label_smoothing=0.1)

    compiled = torch.compile(loss, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x, weight, bias), loss(x, weight, bias))
    expected = torch.autograd.grad(loss(x, weight, bias), (x, weight))
    for one, other in zip(torch.autograd.grad(compiled(x, weight, bias), (x, weight)), expected, strict=True):
        torch.testing.assert_close(one, other)


def test_the_ops_are_registered_as_torch_wants_them():
    x, weight, target, bias = (t.detach() for t in drawn(9, 20, 5))
    settings = (-100, 0.1, 0.0, 0.0)
    names = torch.ops.kernelwright
    torch.library.opcheck(names.linear_cross_entropy.default, (x, weight, target, bias, *settings))
    torch.library.opcheck(
        names.linear_cross_entropy_gradients.default, (x, weight, target, bias, *settings, torch.ones(9))
    )


def test_the_kernel_runs():
    x, weight, target, bias = drawn(9, 20, 5)
    ran = ops.watch(lambda: linear_cross_entropy(x, weight, target, bias))
    assert [(one.op, one.serves) for one in ran] == [("linear_cross_entropy_gradients", "kernel")]


X, WEIGHT, TARGET = torch.randn(3, 4), torch.randn(5, 4), torch.tensor([0, 1, 4])


@pytest.mark.parametrize(
    ("given", "options", "says"),
    [
        ((X[0], WEIGHT, TARGET), {}, "x is of shape"),
        ((X, WEIGHT[:, :3], TARGET), {}, r"weight is of shape \(5, 3\); expected \(vocabulary, 4\)"),
        ((X, WEIGHT.double(), TARGET), {}, "weight is of torch.float64; expected torch.float32, as x is"),
        ((X, WEIGHT, TARGET[:2]), {}, r"target is of shape \(2,\), torch.int64; expected \(3,\)"),
        ((X, WEIGHT, TARGET.int()), {}, "torch.int32; expected"),
        ((X, WEIGHT, TARGET, torch.ones(4)), {}, r"bias is of shape \(4,\)"),
        (
            (X, WEIGHT, TARGET),
            {"label_smoothing": 1.5},
            "label_smoothing is 1.5; expected a number from 0 to 1",
        ),
        ((X, WEIGHT, TARGET), {"softcap": -1.0}, "softcap is -1.0; expected a number above 0, or None"),
        ((X, WEIGHT, TARGET), {"z_loss": -1.0}, "z_loss is -1.0"),
        ((X, WEIGHT, TARGET), {"reduction": "avg"}, "reduction is 'avg'; expected 'mean' or 'sum' or 'none'"),
    ],
)
def test_wrong_arguments_are_named(given, options, says):
    with pytest.raises(ArgumentError, match=says):
        linear_cross_entropy(*given, **options)


def test_a_target_that_is_no_word_is_an_index_error():
    with pytest.raises(IndexError, match="target is 5 somewhere"):
        linear_cross_entropy(X, WEIGHT, TARGET + 1)


def test_gradients_that_were_kept_are_given_away_only_once():
    """What a slope of one passes on as it is must not be what a second pass back, or the caller, adds to."""
    x, weight, target, _ = drawn(30, 50, 8, bias=False)
    (once,) = torch.autograd.grad(linear_cross_entropy(x, weight, target), weight)
    loss = linear_cross_entropy(x, weight, target)
    for count in range(1, 4):
        loss.backward(retain_graph=count < 3)
        torch.testing.assert_close(weight.grad, count * once)
    (scaled,) = torch.autograd.grad(3 * linear_cross_entropy(x, weight, target), weight)
    torch.testing.assert_close(scaled, 3 * once)


def test_a_row_that_is_ignored_has_no_gradient_opposite_a_weight_that_is_nan():
    (op,) = (op for op in ops.ops_of(ops.family("loss")) if op.name == "linear_cross_entropy_gradients")
    x, weight, target = torch.randn(4, 16), torch.randn(9, 16), torch.tensor([1, -100, 3, -100])
    weight[5, 3] = torch.nan
    for form in (op, op.reference):
        _, dx, _, _ = form(x, weight, target, None, -100, 0.0, 0.0, 0.0, torch.ones(4))
        assert bool(dx[0].isnan().all())
        assert not dx[1, torch.arange(16) != 3].any()
