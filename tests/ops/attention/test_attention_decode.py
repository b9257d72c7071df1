"""Decode against float64: pages, int8, windows, options, any legal call, errors; wrong calls of the whole family."""

import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright import ops
from kernelwright.ops.attention import attention, decode, masks, quantize, varlen

SIZES = (
    (1, 1, 1, 1, 1, 1, 1), (2, 8, 2, 64, 64, 16, 12), (3, 14, 2, 128, 96, 7, 12), (2, 3, 3, 20, 17, 64, 4),
    (1, 16, 4, 256, 256, 64, 9), (4, 9, 1, 33, 31, 1, 90),
)  # fmt: skip
"""Batch, heads, kv heads, inner, columns, positions of a page, pages of a sequence."""


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def by_sequence(q, k_cache, v_cache, lengths, pages, window, scale, soft_cap, sinks, alibi):
    """Each sequence's positions one after another, in float64."""
    out = torch.zeros(*q.shape[:2], v_cache.shape[3], dtype=torch.float64)
    each = q.shape[1] // k_cache.shape[2]
    for b, length in enumerate(lengths.tolist()):
        if not length:
            continue
        own = pages[b].long() if pages is not None else torch.tensor([b])
        k, v = (c[own].flatten(0, 1)[:length].double().repeat_interleave(each, 1) for c in (k_cache, v_cache))
        scores = torch.einsum("hd,nhd->hn", q[b].double(), k) * scale
        if soft_cap:
            scores = soft_cap * torch.tanh(scores / soft_cap)
        if alibi is not None:
            scores = scores - alibi.double()[:, None] * torch.arange(length - 1, -1, -1)
        if window:
            scores[:, : max(0, length - window)] = -torch.inf
        if sinks is not None:
            scores = torch.cat((scores, sinks.double()[:, None]), 1)
        out[b] = torch.einsum("hn,nhd->hd", scores.softmax(1)[:, :length], v)
    return out


def drawn(batch, heads, groups, inner, columns, size, most):
    count = most + 2
    q, k, v = (
        torch.randn(batch, heads, inner),
        torch.randn(count, size, groups, inner),
        torch.randn(count, size, groups, columns),
    )
    lengths = torch.randint(0, size * most + 1, (batch,), dtype=torch.int32)
    return q, k, v, lengths, torch.randint(0, count, (batch, most), dtype=torch.int32)


def options_of(heads):
    return {"window": 30, "soft_cap": 2.0, "sinks": torch.randn(heads), "alibi": torch.rand(heads) / 10}


def held(q, k, v, lengths, pages, limit, scales=(None, None), **options):
    calls = {"pages": pages, "k_scales": scales[0], "v_scales": scales[1], **options}
    (ran,) = ops.watch(lambda: decode(q, k, v, lengths, **calls))
    assert ran.serves == "kernel"
    found = decode(q, k, v, lengths, **calls)
    if scales[0] is not None:
        k, v = (whole(c, s) for c, s in zip((k, v), scales, strict=True))
    words = ("window", "scale", "soft_cap", "sinks", "alibi")
    given = {"scale": q.shape[2] ** -0.5, **options}
    right = by_sequence(q, k, v, lengths, pages, *(given.get(word) for word in words))
    assert found.dtype is q.dtype
    assert float((found.double() - right).abs().max()) <= limit * max(1.0, float(right.abs().max()))


def whole(codes, scales):
    """What a cache of codes keeps, in float64."""
    if codes.dtype is torch.uint8:
        pairs = codes.unflatten(-1, (-1, 16))
        codes = torch.stack(((pairs & 15).int() - 8, (pairs >> 4).int() - 8), -2).flatten(-3)
    if scales.dim() < codes.dim():
        return codes.double() * scales.double()[..., None]
    return (codes.double().unflatten(-1, (scales.shape[-1], -1)) * scales.double()[..., None]).flatten(-2)


@pytest.mark.parametrize(("bits", "group"), [(8, 32), (4, None), (4, 64), (8, 128)])
def test_caches_of_groups_of_columns_in_every_kind_of_call(bits, group):
    of = group or 32
    for heads, groups, each in ((3, 3, 1), (8, 1, 3), (14, 2, 2)):
        q, k, v, lengths, pages = drawn(2, heads, groups, of * each, of * (4 - each), 7, 12)
        (kc, ks), (vc, vs) = quantize(k, bits, group), quantize(v, bits, group)
        assert kc.nbytes == k.numel() * bits // 8
        held(q, kc, vc, lengths, pages, 3e-6, (ks, vs), **options_of(heads))
        held(q.bfloat16(), kc, vc, lengths, pages, 1e-2, (ks, vs))


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_every_size_and_kind_of_cache(size):
    q, k, v, lengths, pages = drawn(*size)
    for options in ({}, options_of(size[1])):
        held(q, k, v, lengths, pages, 3e-6, **options)
        for dtype, limit in ((torch.bfloat16, 1e-2), (torch.float16, 2e-3)):
            held(q.to(dtype), k.to(dtype), v.to(dtype), lengths, pages, limit, **options)
        (k8, ks), (v8, vs) = quantize(k), quantize(v)
        held(q, k8, v8, lengths, pages, 3e-6, (ks, vs), **options)
        held(q.bfloat16(), k8, v8, lengths, pages, 1e-2, (ks, vs), **options)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(
    sizes=st.tuples(*(st.integers(1, n) for n in (3, 3, 12, 70, 70, 20, 15))),
    seed=st.integers(0, 1000),
    options=st.tuples(*[st.booleans()] * 4),
)
def test_any_legal_call_is_right(sizes, seed, options):
    torch.manual_seed(seed)
    batch, groups, each, *rest = sizes
    given = {
        n: x for (n, x), wanted in zip(options_of(groups * each).items(), options, strict=True) if wanted
    }
    held(*drawn(batch, groups * each, groups, *rest), 3e-6, **given)


def test_a_long_cache_is_shared_out_and_the_number_of_threads_changes_nothing():
    q, k, v, lengths, pages = drawn(2, 4, 2, 32, 32, 256, 20)
    lengths[0] = 256 * 20
    held(q, k, v, lengths, pages, 3e-6)
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append(decode(q, k, v, lengths, pages=pages))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(found[0], other) for other in found[1:])


def test_a_cache_as_models_keep_it_needs_no_table():
    q, k, v = torch.randn(2, 6, 32), torch.randn(2, 3, 50, 32), torch.randn(2, 3, 50, 32)
    full = torch.full((2,), 50, dtype=torch.int32)
    found = decode(q, k.transpose(1, 2), v.transpose(1, 2), full)
    torch.testing.assert_close(found, attention(q[:, :, None], k, v)[:, :, 0], rtol=1e-4, atol=1e-5)


def test_what_lies_beyond_a_length_is_not_read():
    q, k, v, lengths, _ = drawn(2, 4, 2, 16, 16, 40, 1)
    lengths = torch.tensor([13, 0], dtype=torch.int32)
    clean = decode(q, k, v, lengths)
    k[0, 13:] = v[0, 13:] = torch.nan
    assert torch.equal(decode(q, k, v, lengths), clean)
    assert not clean[1].any()


@pytest.mark.parametrize("bits", [4, 8])
def test_groups_give_back_what_they_keep_within_half_a_step(bits):
    x = torch.randn(5, 2, 128) * torch.logspace(-30, 30, 10).view(5, 2, 1)
    codes, scales = quantize(x, bits, 64)
    assert scales.dtype is torch.bfloat16
    step = scales.double().repeat_interleave(64, -1)
    assert bool(((whole(codes, scales) - x).abs() <= 0.501 * step).all())
    top = x.double().abs().unflatten(-1, (2, 64)).amax(-1).repeat_interleave(64, -1)
    assert bool((step * (2 ** (bits - 1) - 1) <= 1.01 * top).all())
    assert not whole(*quantize(torch.zeros(3, 64), bits, 32)).any()
    empty, none = quantize(torch.zeros(0, 3, 64), bits, 32)
    assert empty.shape == (0, 3, 64 * bits // 8)
    assert none.shape == (0, 3, 2)


def test_int8_gives_back_what_it_keeps():
    x = torch.randn(5, 4, 2, 64) * torch.rand(5, 4, 2, 1) * 9
    codes, scales = quantize(x)
    assert codes.abs().max() == 127
    assert bool(((codes * scales[..., None] - x).abs() <= scales[..., None] * 0.501).all())
    codes, scales = quantize(torch.zeros(3, 8))
    assert not codes.any()
    assert not scales.any()


@pytest.mark.filterwarnings("ignore:kernelwright attention_decode")
def test_the_reference_is_right_in_float64():
    q, k, v, lengths, pages = drawn(2, 4, 2, 16, 8, 5, 6)
    right = by_sequence(q, k, v, lengths, pages, 7, 0.25, 2.0, None, None)
    found = decode(*(t.double() for t in (q, k, v)), lengths, pages=pages, window=7, soft_cap=2.0)
    torch.testing.assert_close(found, right)


def test_it_goes_through_compile_and_is_registered_as_torch_asks():
    q, k, v, lengths, pages = drawn(2, 4, 2, 16, 8, 5, 6)
    compiled = torch.compile(
        lambda q: decode(q * 2, k, v, lengths, pages=pages), backend="aot_eager", fullgraph=True
    )
    torch.testing.assert_close(compiled(q), decode(q * 2, k, v, lengths, pages=pages))
    given = (q, k, v, lengths, pages, None, None, None, None, 0, 0.3, 0.0)
    torch.library.opcheck(torch.ops.kernelwright.attention_decode.default, given)


Q, K, V = torch.randn(2, 4, 8), torch.randn(3, 5, 2, 8), torch.randn(3, 5, 2, 6)
LENGTHS, PAGES = torch.tensor([3, 5], dtype=torch.int32), torch.zeros(2, 2, dtype=torch.int32)
CODES, SCALES = torch.zeros(3, 5, 2, 8, dtype=torch.int8), torch.ones(3, 5, 2)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: decode(None, K, V, LENGTHS), "q is None; expected a tensor"),
        (lambda: decode(Q[0], K, V, LENGTHS), r"q is of shape \(4, 8\); expected \(batch, heads, inner\)"),
        (lambda: decode(Q, K[0], V, LENGTHS), r"k_cache is of shape .* expected \(pages, positions, kv heads"),
        (lambda: decode(Q, CODES, V, LENGTHS), "k_cache is of torch.int8; expected torch.float32, as q is"),
        (lambda: decode(Q, K, V, LENGTHS, k_scales=SCALES), "k_cache is of torch.float32; expected torch.int8"),
        (lambda: decode(Q, CODES, V, LENGTHS, k_scales=SCALES[0]), r"k_scales is of shape \(5, 2\)"),
        (lambda: decode(Q, K[..., :4], V, LENGTHS), "k_cache is of 4 columns; expected 8, as q has"),
        (lambda: decode(Q, K, V[:, :, :1], LENGTHS), r"v_cache is of shape .*as k_cache has"),
        (lambda: decode(Q[:, :3], K, V, LENGTHS), "k_cache is of 2 heads; expected a divisor of 3"),
        (lambda: decode(Q, K, V, LENGTHS.long()), r"lengths is of shape \(2,\), torch.int64; expected \(2,\)"),
        (lambda: decode(Q, K, V, [3, 5]), "lengths is a list; expected a tensor"),
        (lambda: decode(Q, K, V, LENGTHS, pages=PAGES[0]), r"pages is of shape \(2,\)"),
        (lambda: decode(Q, K[:1], V[:1], LENGTHS), "k_cache is of 1 pages; expected at least 2"),
        (lambda: decode(Q, K, V, LENGTHS, window=0), "window is 0; expected a whole number above 0"),
        (lambda: decode(Q, K, V, LENGTHS, soft_cap=-1.0), "soft_cap is -1.0; expected a number above 0"),
        (lambda: decode(Q, K, V, LENGTHS, scale=torch.inf), "scale is inf; expected a finite number"),
        (lambda: decode(Q, K, V, LENGTHS + 1), "lengths is 6 somewhere; expected 0 to 5, what the pages hold"),
        (lambda: decode(Q, K, V, LENGTHS, pages=PAGES[:, :0]), "lengths is . somewhere; expected 0 to 0"),
        (lambda: decode(Q, K, V, LENGTHS, pages=PAGES + 3), "pages is 3 somewhere; expected 0 to 2"),
        (lambda: decode(Q, K, V, LENGTHS, pages=PAGES - 1), "pages is -1 somewhere; expected 0 to 2"),
        (lambda: quantize(K.long()), "x is of torch.int64; expected float32"),
        (lambda: quantize(K, 5), "bits is 5; expected 8 or 4"),
        (lambda: quantize(K, 4), "group is 32; expected 32 or a power of two of it that divides the 8 columns"),
        (lambda: decode(Q, CODES, V, LENGTHS, k_scales=SCALES[..., None]), r"k_scales is of shape \(3, 5, 2, 1\)"),
        (lambda: decode(Q, CODES.byte(), V, LENGTHS, k_scales=SCALES), "k_cache is of torch.uint8; expected"),
    ],
)  # fmt: skip
def test_a_wrong_argument_is_named_in_one_sentence(call, says):
    with pytest.raises(ValueError, match=says) as error:
        call()
    assert "\n" not in str(error.value)


WRONG = (
    None, 3, -1, 2.5, "text", [1.0], (), True, torch.tensor(1.0), torch.randn(3), torch.randn(2, 3),
    torch.randn(1, 2, 3), torch.randn(1, 2, 3, 4), torch.randn(2, 3, 4, 5, 6), torch.zeros(2, 4, 8).long(),
    torch.randn(2, 4, 8).double(),
    torch.randn(2, 0, 8), torch.randn(0, 4, 8), torch.zeros(2, 4, dtype=torch.bool),
    torch.zeros(3, 5, 2, 8).bfloat16(), torch.full((2,), 99, dtype=torch.int32),
    torch.full((2,), -4, dtype=torch.int32), torch.zeros(2, 3, dtype=torch.int32),
    torch.zeros(3, 1, 2, dtype=torch.int32), float("nan"), float("inf"), torch.randn(1, 4, 3, 8).to("meta"),
    masks.Document((3,)), masks.SlidingWindow(2),
)  # fmt: skip
"""What no argument, or not this one, may be."""
X = torch.randn(1, 4, 3, 8), torch.randn(1, 2, 5, 8), torch.randn(1, 2, 5, 6)
Y, STARTS = torch.randn(5, 2, 8), torch.tensor([0, 2, 5])
CALLS = (
    (attention, dict(zip("qkv", X, strict=True)), ("mask", "scale", "soft_cap", "sinks", "alibi")),
    (
        varlen, {"q": Y, "k": Y, "v": Y, "q_starts": STARTS, "k_starts": STARTS},
        ("window", "scale", "soft_cap", "sinks"),
    ),
    (
        decode, {"q": Q, "k_cache": K, "v_cache": V, "lengths": LENGTHS},
        ("pages", "k_scales", "v_scales", "window", "scale", "soft_cap", "sinks", "alibi"),
    ),
)  # fmt: skip


@pytest.mark.filterwarnings("ignore:kernelwright attention")
def test_thousands_of_wrong_calls_are_results_or_one_sentence():
    draws, refused = random.Random(5), 0
    for _ in range(2500):
        function, right, more = draws.choice(CALLS)
        names = (*right, *more)
        wrong = {name: draws.choice(WRONG) for name in draws.sample(names, draws.choice((1, 1, 2, 3)))}
        try:
            function(**{**right, **wrong})
        except ValueError as error:
            refused += 1
            assert "; expected " in str(error), (function.__name__, wrong.keys(), error)
            assert "\n" not in str(error)
    assert refused > 1500
