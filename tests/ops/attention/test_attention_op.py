"""Attention against float64: masks, grouped heads, options, gradients, special values, strides, compile, errors."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.ops.attention.test_attention_masks import SIZE, SPECS
from torch.nn.functional import scaled_dot_product_attention

from kernelwright import ops
from kernelwright.errors import InputError
from kernelwright.ops.attention import attention, masks, reference, varlen

SIZES = (
    (1, 1, 1, 1, 1, 1, 1), (2, 4, 2, 37, 53, 20, 17), (1, 2, 1, 150, 600, 64, 64), (2, 3, 3, 130, 130, 128, 96),
    (1, 4, 2, 65, 65, 256, 256), (1, 3, 1, 5, 33, 48, 31), (1, 1, 1, 400, 31, 32, 32), (1, 1, 1, 0, 5, 4, 4),
    (1, 2, 2, 5, 0, 4, 4), (0, 2, 2, 5, 3, 4, 4),
)  # fmt: skip
"""Batch, heads, kv heads, rows, keys, inner, columns."""
(ATTENTION,) = (op for op in ops.ops_of(ops.family("attention")) if op.name == "attention")
LIMITS = {torch.float32: 3e-6, torch.bfloat16: 1e-2, torch.float16: 2e-3}


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def drawn(batch, heads, groups, rows, keys, inner, columns, dtype=torch.float32):
    shapes = (batch, heads, rows, inner), (batch, groups, keys, inner), (batch, groups, keys, columns)
    return [torch.randn(shape).to(dtype) for shape in shapes]


def plain(q, k, v, allowed, sinks=None, alibi=None, scale=None, soft_cap=None):
    """Attention with all scores at once, in the dtype that is given."""
    each = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(each, 1), v.repeat_interleave(each, 1)
    scores = q @ k.transpose(-1, -2) * (q.shape[3] ** -0.5 if scale is None else scale)
    if soft_cap:
        scores = soft_cap * torch.tanh(scores / soft_cap)
    rows, keys = scores.shape[2:]
    if alibi is not None:
        apart = (torch.arange(keys - rows, keys)[:, None] - torch.arange(keys)).abs()
        scores = scores - alibi.to(q.dtype)[:, None, None] * apart
    scores = scores.masked_fill(~allowed, -math.inf)
    if sinks is not None:
        more = sinks.to(q.dtype)[None, :, None, None].expand(*scores.shape[:3], 1)
        weights = torch.cat((scores, more), -1).softmax(-1)[..., :-1]
    else:
        weights = torch.where(allowed.any(-1, keepdim=True), scores.softmax(-1), 0)
    return weights @ v


def near(mine, right, limit):
    assert mine.shape == right.shape
    if mine.numel():
        scale = float(right.abs().max()) + 1e-6
        assert float((mine.double() - right).abs().max()) <= limit * max(1.0, scale)


@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_every_size_is_right_with_and_without_a_mask(size, dtype):
    q, k, v = drawn(*size, dtype)
    wide = [t.double() for t in (q, k, v)]
    rows, keys = size[3:5]
    for mask in (None, masks.Causal(), masks.SlidingWindow(9)):
        allowed = (mask or masks.Full()).allowed(rows, keys)
        near(attention(q, k, v, mask), plain(*wide, allowed), LIMITS[dtype])
    options = {"soft_cap": 3.0, "alibi": torch.rand(size[1]) / 10, "sinks": torch.randn(size[1])}
    found = attention(q, k, v, masks.Causal(), **options)
    near(found, plain(*wide, masks.Causal().allowed(rows, keys), **options), LIMITS[dtype])


@pytest.mark.parametrize("name", SPECS)
def test_every_mask_forward_and_backward(name):
    spec, allowed = SPECS[name], SPECS[name].allowed(SIZE, SIZE)
    leaves = [t.requires_grad_() for t in drawn(2, 2, 1, SIZE, SIZE, 24, 40)]
    out = attention(*leaves, spec)
    (ran,) = ops.watch(lambda: attention(*(t.detach() for t in leaves), spec))
    assert ran.serves == "kernel"
    wide = [t.detach().double().requires_grad_() for t in leaves]
    right = plain(*wide, allowed)
    near(out.detach(), right.detach(), 3e-6)
    gradient = torch.randn_like(out)
    found = torch.autograd.grad(out, leaves, gradient)
    for one, other in zip(found, torch.autograd.grad(right, wide, gradient.double()), strict=True):
        near(one, other, 1e-5)


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_gradients_of_every_size_and_option(size):
    tensors = drawn(*size)
    sinks, alibi = torch.randn(size[1]), torch.rand(size[1]) / 10
    ranges = torch.randint(-3, size[4] + 4, (size[0], size[1], size[3], 2, 2), dtype=torch.int32)
    allowed = reference.allowed_of(ranges, size[4])
    for scale, soft_cap, biased in (
        (None, None, False),
        (0.3, 2.0, True),
        (0.2, 4.0, False),
        (None, None, True),
    ):
        options = {"scale": scale, "soft_cap": soft_cap}
        leaves = [t.detach().requires_grad_() for t in (*tensors, sinks)]
        wide = [t.detach().double().requires_grad_() for t in leaves]
        more = {"alibi": alibi} if biased else {}
        out = attention(*leaves[:3], ranges, sinks=leaves[3], **options, **more)
        right = plain(*wide[:3], allowed, sinks=wide[3], **options, **more)
        gradient = torch.randn_like(out)
        found = torch.autograd.grad(out, leaves, gradient)
        for one, other in zip(found, torch.autograd.grad(right, wide, gradient.double()), strict=True):
            near(one, other, 1e-5)


def test_the_log_sum_exp_is_right_and_has_a_gradient():
    q, k, v = (t.requires_grad_() for t in drawn(1, 4, 2, 33, 70, 16, 16))
    _, lse = attention(q, k, v, masks.Causal(), return_lse=True)
    a, b = (t.detach().double().requires_grad_() for t in (q, k))
    scores = a @ b.repeat_interleave(2, 1).transpose(-1, -2) / 4
    right = scores.masked_fill(~masks.Causal().allowed(33, 70), -math.inf).logsumexp(-1)
    near(lse.detach(), right.detach(), 1e-6)
    g = torch.randn_like(lse)
    for one, other in zip(
        torch.autograd.grad(lse, (q, k), g), torch.autograd.grad(right, (a, b), g.double()), strict=True
    ):
        near(one, other, 1e-5)


@pytest.mark.filterwarnings("ignore:kernelwright attention")
def test_the_reference_passes_gradcheck():
    q, k, v = (t.double().requires_grad_() for t in drawn(1, 2, 1, 4, 5, 3, 2))
    sinks = torch.randn(2, dtype=torch.float64, requires_grad=True)

    def call(q, k, v, sinks):
        return attention(q, k, v, masks.SlidingWindow(2), sinks=sinks, soft_cap=2.0, return_lse=True)

    assert torch.autograd.gradcheck(call, (q, k, v, sinks))


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    data=st.data(),
    sizes=st.tuples(*(st.integers(1, n) for n in (2, 3, 3, 70, 140, 70, 70))),
    many=st.integers(0, 4),
    options=st.tuples(st.booleans(), st.booleans(), st.booleans()),
)
def test_any_legal_call_is_right(data, sizes, many, options):
    batch, groups, each, rows, keys, inner, columns = sizes
    torch.manual_seed(data.draw(st.integers(0, 1000)))
    q, k, v = drawn(batch, groups * each, groups, rows, keys, inner, columns)
    ranges, allowed = None, torch.ones(rows, keys, dtype=torch.bool)
    if many:
        shape = data.draw(st.sampled_from([(1, 1), (batch, 1), (1, groups * each), (batch, groups * each)]))
        ranges = torch.randint(-5, keys + 6, (*shape, rows, many, 2), dtype=torch.int32)
        allowed = reference.allowed_of(ranges, keys)
    given = {
        "soft_cap": 2.5 if options[0] else None,
        "sinks": torch.randn(groups * each) if options[1] else None,
        "alibi": torch.rand(groups * each) if options[2] else None,
    }
    right = plain(*(t.double() for t in (q, k, v)), allowed, **given)
    near(attention(q, k, v, ranges, **given), right, 3e-6)


def test_rows_that_see_no_key_are_zeros_with_zero_gradients():
    q, k, v = (t.requires_grad_() for t in drawn(1, 1, 1, 40, 40, 8, 8))
    ranges = torch.zeros(40, 1, 2, dtype=torch.int32)
    ranges[20:, 0, 1] = 30
    out, lse = attention(q, k, v, ranges, return_lse=True)
    assert not out[0, 0, :20].any()
    assert bool((lse[0, 0, :20] == -math.inf).all())
    (dq,) = torch.autograd.grad(out.sum(), q)
    assert not dq[0, 0, :20].any()
    assert dq.isfinite().all()


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("which", [1, 2])
def test_what_is_hidden_has_no_part_be_it_no_number(which, value):
    tensors = drawn(1, 2, 2, 90, 90, 16, 16)
    clean = attention(*tensors, masks.Causal())
    tensors[which][:, :, 50, 3] = value
    found = attention(*tensors, masks.Causal())
    torch.testing.assert_close(found[:, :, :50], clean[:, :, :50], rtol=1e-6, atol=1e-6)
    if which == 2:
        assert not found[:, :, 50:, 3].isfinite().any()
    expected, _ = reference.attention(*tensors, masks.Causal().ranges(90, 90)[None, None], scale=0.25)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5, equal_nan=True)


@pytest.mark.filterwarnings("ignore:kernelwright attention")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("which", range(4))
def test_gradients_of_hidden_pairs_are_none_be_they_no_numbers(which, value, dtype):
    tensors = [*drawn(1, 4, 2, 70, 90, 16, 16, dtype), torch.randn(1, 4, 70, 16).to(dtype)]
    ranges = torch.tensor([[0, 30], [40, 80]], dtype=torch.int32).repeat(
        70, 1, 1
    )  # nobody sees 30 to 40, nor 80 on
    ranges[50:, 1] = 0  # rows from 50 on see the first 30 alone
    place = 60 if which in (0, 3) else 45  # a row of q or of the gradient, or a key

    def derived():
        leaves = [t.clone().requires_grad_() for t in tensors[:3]]
        return torch.autograd.grad(attention(*leaves, ranges), leaves, tensors[3])

    clean = derived()
    if which in (1, 2):
        tensors[which][:, :, 35, 3] = value
        for mine, right in zip(derived(), clean, strict=True):  # a key that nobody sees
            torch.testing.assert_close(mine, right, rtol=1e-2, atol=1e-2)
        assert not derived()[which][:, :, 30:40].any()
    tensors[which][:, :, place, 3] = value
    dq, dk, dv = derived()
    rows, keys = (slice(60, 61), slice(0, 30)) if which in (0, 3) else (slice(0, 50), slice(0, 80))
    for mine, right, met in ((dq, clean[0], rows), (dk, clean[1], keys), (dv, clean[2], keys)):
        inside = torch.zeros(mine.shape[2], dtype=torch.bool)
        inside[met] = True
        torch.testing.assert_close(mine[:, :, ~inside], right[:, :, ~inside], rtol=1e-2, atol=1e-2)
    assert not (dq.isfinite().all() and dk.isfinite().all() and dv.isfinite().all())


def test_large_scores_do_not_overflow():
    q, k, v = drawn(1, 1, 1, 50, 60, 32, 32)
    near(
        attention(q * 300, k, v),
        plain(q.double() * 300, k.double(), v.double(), torch.ones(50, 60) > 0),
        3e-4,
    )


def test_any_strides_are_read_and_columns_that_lie_apart_run_the_reference():
    q, k, v = drawn(2, 6, 3, 40, 50, 32, 32)
    expected = attention(q, k, v)
    apart = [t.transpose(1, 2).contiguous().transpose(1, 2) for t in (q, k, v)]
    wide = [torch.stack((t, t), 3)[:, :, :, 1] for t in (q, k, v)]
    assert torch.equal(attention(*apart), expected)
    assert torch.equal(attention(*wide), expected)
    turned = [t.transpose(2, 3).contiguous().transpose(2, 3) for t in (q, k, v)]
    with pytest.warns(RuntimeWarning, match="q does not have its columns side by side"):
        ops.ops_of(ops.attention)[0]._said.clear()
        torch.testing.assert_close(attention(*turned), expected, rtol=1e-4, atol=1e-5)


def test_the_number_of_threads_changes_nothing():
    q, k, v = (t.requires_grad_() for t in drawn(1, 2, 1, 700, 700, 32, 32))
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            out = attention(q, k, v, masks.SlidingWindow(100))
            found.append((out.detach(), *torch.autograd.grad(out.sum(), (q, k, v))))
    finally:
        torch.set_num_threads(before)
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], other, strict=True))


def test_sequences_side_by_side_are_those_one_by_one():
    x, y = torch.randn(50, 4, 32), torch.randn(64, 2, 32)
    starts, others = torch.tensor([0, 7, 7, 30, 50]), torch.tensor([0, 9, 20, 45, 64], dtype=torch.int32)
    for causal, window in ((False, None), (True, None), (True, 5), (False, 3)):
        found = varlen(x, y, y, starts, others, causal=causal, window=window)
        for a, b, c, d in ((0, 7, 0, 9), (7, 30, 20, 45), (30, 50, 45, 64)):
            mine, theirs = x[a:b].transpose(0, 1)[None], y[c:d].transpose(0, 1)[None]
            mask = masks.Causal() if causal else None
            if window is not None:
                mask = masks.SlidingWindow(window, causal=causal)
            torch.testing.assert_close(found[a:b], attention(mine, theirs, theirs, mask)[0].transpose(0, 1))


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # Dynamo's own
def test_it_goes_through_compile_with_gradients():
    tensors = drawn(1, 4, 2, 40, 40, 16, 16)

    def loss(q, k, v):
        return attention(q * 2, k, v, masks.GlobalSlidingWindow(4), soft_cap=5.0).square().sum()

    compiled = torch.compile(loss, backend="aot_eager", fullgraph=True)
    leaves = [t.requires_grad_() for t in tensors]
    torch.testing.assert_close(compiled(*leaves), loss(*leaves))
    for one, other in zip(
        torch.autograd.grad(compiled(*leaves), leaves),
        torch.autograd.grad(loss(*leaves), leaves),
        strict=True,
    ):
        torch.testing.assert_close(one, other)


def test_the_ops_are_registered_as_torch_asks():
    q, k, v = drawn(1, 4, 2, 9, 12, 8, 8)
    ranges = masks.Causal().ranges(9, 12)[None, None].contiguous()
    names = torch.ops.kernelwright
    settings = (ranges, torch.randn(4), None, 0.3, 0.0)
    torch.library.opcheck(names.attention.default, (q.requires_grad_(), k, v, *settings))
    q = q.detach()
    out, lse = names.attention(q, k, v, *settings)
    torch.library.opcheck(names.attention_gradients.default, (out, None, q, k, v, out, lse, *settings))


def test_it_is_torchs_own_attention():
    q, k, v = drawn(2, 4, 4, 100, 100, 64, 64)
    torch.testing.assert_close(
        attention(q, k, v), scaled_dot_product_attention(q, k, v), rtol=1e-4, atol=1e-5
    )
    torch.testing.assert_close(
        attention(q, k, v, masks.Causal()),
        scaled_dot_product_attention(q, k, v, is_causal=True),
        rtol=1e-4,
        atol=1e-5,
    )


Q, K, V = torch.randn(1, 4, 3, 8), torch.randn(1, 2, 5, 8), torch.randn(1, 2, 5, 6)
X, STARTS = torch.randn(5, 2, 8), torch.tensor([0, 2, 5])


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: attention([1.0], K, V), "attention: q is a list; expected a tensor"),
        (lambda: attention(Q[0], K, V), r"q is of shape \(4, 3, 8\); expected \(batch, heads, rows, columns\)"),
        (lambda: attention(Q.long(), K, V), "q is of torch.int64; expected float32"),
        (lambda: attention(Q, K.double(), V), "k is of torch.float64; expected torch.float32, as q is"),
        (lambda: attention(Q, K[..., :4], V), r"k is of shape \(1, 2, 5, 4\); expected \(1, kv heads, keys, 8\)"),
        (lambda: attention(Q, K, V[:, :1]), r"v is of shape \(1, 1, 5, 6\); expected \(1, 2, 5, columns\)"),
        (lambda: attention(Q[:, :3], K, V), "k is of 2 heads; expected a divisor of 3"),
        (lambda: attention(Q, K, V, "causal"), "mask is 'causal'; expected a Mask or a tensor"),
        (lambda: attention(Q, K, V, masks.Document((3,))), "lengths is of 3 positions; expected"),
        (lambda: attention(Q, K, V, torch.zeros(3, 4, dtype=torch.bool)), r"mask is of shape \(3, 4\); expected"),
        (lambda: attention(Q, K, V, torch.zeros(2, 1, 2).int()), r"mask is ranges of shape \(1, 1, 2, 1, 2\)"),
        (lambda: attention(Q, K, V, scale=math.nan), "scale is nan; expected a finite number"),
        (lambda: attention(Q, K, V, scale="1"), "scale is '1'; expected a number or None"),
        (lambda: attention(Q, K, V, soft_cap=0), "soft_cap is 0; expected a number above 0, or None"),
        (lambda: attention(Q, K, V, sinks=torch.ones(2)), r"sinks is of shape \(2,\), torch.float32; expected \(4,\)"),
        (lambda: attention(Q, K, V, alibi=[1.0]), r"alibi is a list; expected a tensor or None"),
        (lambda: varlen(X, X, X, STARTS, STARTS[:2]), "k_starts is .* expected places that rise from 0 to 5"),
        (lambda: varlen(X, X, X, torch.tensor([1, 5]), STARTS), "q_starts is .1, 5.; expected places that rise"),
        (lambda: varlen(X, X, X, STARTS.float(), STARTS), r"expected \(sequences \+ 1,\)"),
        (lambda: varlen(X, X, X, STARTS, torch.tensor([0, 5])), "k_starts is of 2 places; expected 3"),
        (lambda: varlen(X, X, X, STARTS, STARTS, window=-1), "window is -1; expected a whole number from 0"),
    ],
)  # fmt: skip
def test_a_wrong_argument_is_named_in_one_sentence(call, says):
    with pytest.raises(InputError, match=says) as error:
        call()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("soft_cap", "many", "sunk"), [(0.0, 0, False), (2.0, 2, True)])
def test_gradients_of_given_results_are_those_of_forward_where_they_are_forwards(soft_cap, many, sunk):
    q, k, v = (
        torch.randn(2, heads, rows, size).double()
        for heads, rows, size in ((4, 9, 8), (2, 13, 8), (2, 13, 5))
    )
    ranges = (
        torch.tensor([[0, 13], [2, 5]])[:many].int().expand(2, 4, 9, many, 2).contiguous() if many else None
    )
    settings = (ranges, torch.randn(4).double() if sunk else None, torch.rand(4).double(), 0.3, soft_cap)
    out, lse = reference.attention(q, k, v, *settings)
    given = (torch.randn_like(out), torch.randn_like(lse), q, k, v, out, lse, *settings)
    for mine, right in zip(reference.gradients_as_given(*given), reference.gradients(*given), strict=True):
        torch.testing.assert_close(mine, right, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("sink", [math.inf, math.nan, -math.inf, 2.0])
def test_a_sink_that_is_no_number_leaves_none(sink):
    q, k, v = drawn(1, 2, 1, 5, 40, 16, 16)
    sinks = torch.tensor([sink, 0.0])
    given = (q, k, v, None, sinks, None, 0.25, 0.0)
    for mine, exact in zip(ATTENTION(*given), reference.attention(*given), strict=True):
        torch.testing.assert_close(mine, exact, rtol=1e-5, atol=1e-5, equal_nan=True)
        assert bool(mine[:, 0].isfinite().all()) == (sink in (2.0, -math.inf))
        assert bool(mine[:, 1].isfinite().all())


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_scores_that_are_no_numbers_leave_none_in_their_rows_alone(sign):
    q, k, v = drawn(1, 1, 1, 9, 40, 16, 16)
    none = torch.tensor(math.nan).copysign(torch.tensor(sign))
    q[0, 0, 3] = none  # every score of a row, and no largest among them
    out, lse = attention(q, k, v, return_lse=True)
    assert bool(out[0, 0, 3].isnan().all())
    assert bool(lse[0, 0, 3].isnan())
    others = torch.arange(9) != 3
    near(out[:, :, others], plain(q.double(), k.double(), v.double(), torch.ones(40) > 0)[:, :, others], 3e-6)
    q[0, 0, 3], k[0, 0, 21] = 1.0, none  # one score of each row
    out, lse = attention(q, k, v, return_lse=True)
    assert bool(out.isnan().all())
    assert bool(lse.isnan().all())


@pytest.mark.parametrize("power", [-1.5, -60.25, -124.5, -125.0, -127.0, -128.5, -1e5, -math.inf])
def test_a_weight_is_right_to_the_least_normal_number_and_zero_below(power):
    q, k, v = torch.ones(1, 1, 1, 1), torch.zeros(1, 1, 2, 1), torch.zeros(1, 1, 2, 8)
    k[0, 0, 1], v[0, 0, 1] = power * math.log(2), 2.0**100
    found = float(attention(q, k, v, scale=1.0)[0, 0, 0, 5])
    weight = 2.0**power if power >= -125 else 0.0
    # a score of 125 is known to 2^-17 of a power
    assert found == pytest.approx(2.0**100 * weight / (1 + weight), rel=2e-5, abs=0)


@pytest.mark.parametrize("keys", [40, 45])
def test_values_are_read_where_they_lie_or_packed_alike(keys):
    q, k, v = drawn(1, 2, 2, 30, keys, 16, 32)
    expected = attention(q, k, v)
    for first in (1, 4, 8, 16):
        held = torch.full((16 + v.numel() + first,), math.nan)[first : first + v.numel()].view_as(v)
        assert torch.equal(attention(q, k, held.copy_(v)), expected)
