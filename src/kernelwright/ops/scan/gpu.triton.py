"""Scans on a GPU: a state stays in registers while time goes by; what the next step reads is loaded before this one.

With PADDED a tile has more states than there are: theirs are no part of a sum, as zero times an infinity is NaN.
"""

import torch
import triton
import triton.language as tl

from .._core.gpu import FLOATS, GpuForm


@triton.jit
def selective(u, delta, a, b, c, d, state, out, after, length, channels, states, SKIP: tl.constexpr,
              STATE: tl.constexpr, PADDED: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_N: tl.constexpr):  # fmt: skip
    """Scan some channels of an item."""
    item = tl.program_id(0).to(tl.int64)
    channel, n = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D), tl.arange(0, BLOCK_N)
    own, inside = channel < channels, n < states
    both = own[:, None] & inside[None, :]
    at = channel[:, None] * states + n[None, :]
    rates = tl.load(a + at, mask=both, other=0.0)
    h = tl.zeros([BLOCK_D, BLOCK_N], tl.float32)
    if STATE:
        h = tl.load(state + item * channels * states + at, mask=both, other=0.0)
    if SKIP:
        skip = tl.load(d + channel, mask=own, other=0.0)
    x = item * length * channels + channel
    s = item * length * states + n
    value = tl.load(u + x, mask=own, other=0.0).to(tl.float32)
    step = tl.load(delta + x, mask=own, other=0.0).to(tl.float32)
    into = tl.load(b + s, mask=inside, other=0.0).to(tl.float32)
    from_ = tl.load(c + s, mask=inside, other=0.0).to(tl.float32)
    for t in range(length):
        more = tl.minimum(length - 1 - t, 1)  # 0 at the last time
        later_value = tl.load(u + x + channels, mask=channel < channels * more, other=0.0).to(tl.float32)
        later_step = tl.load(delta + x + channels, mask=channel < channels * more, other=0.0).to(tl.float32)
        later_into = tl.load(b + s + states, mask=n < states * more, other=0.0).to(tl.float32)
        later_from = tl.load(c + s + states, mask=n < states * more, other=0.0).to(tl.float32)
        h = tl.exp(step[:, None] * rates) * h + (step * value)[:, None] * into[None, :]
        y = h * from_[None, :]
        if PADDED:
            y = tl.where(inside[None, :], y, 0.0)
        y = tl.sum(y, 1)
        if SKIP:
            y += skip * value
        tl.store(out + x, y.to(out.dtype.element_ty), mask=own)
        value, step, into, from_ = later_value, later_step, later_into, later_from
        x += channels
        s += states
    tl.store(after + item * channels * states + at, h, mask=both)


@triton.jit
def rows(q, k, v, beta, decay, state, out, after, heads, each, length, inner, columns, scale, BETA: tl.constexpr,
         DECAY: tl.constexpr, STATE: tl.constexpr, PADDED: tl.constexpr, BLOCK_I: tl.constexpr,
         BLOCK_C: tl.constexpr):  # fmt: skip
    """Scan some columns of a head: linear attention, or with BETA the delta rule."""
    head = tl.program_id(0).to(tl.int64)
    group = head // heads * (heads // each) + head % heads // each
    i, c = tl.arange(0, BLOCK_I), tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    inside, own = i < inner, c < columns
    both = inside[:, None] & own[None, :]
    at = (head * inner + i[:, None]) * columns + c[None, :]
    s = tl.zeros([BLOCK_I, BLOCK_C], tl.float32)
    if STATE:
        s = tl.load(state + at, mask=both, other=0.0)
    k += group * length * inner + i
    q += group * length * inner + i
    v += head * length * columns + c
    out += head * length * columns + c
    key = tl.load(k, mask=inside, other=0.0).to(tl.float32)
    query = tl.load(q, mask=inside, other=0.0).to(tl.float32)
    value = tl.load(v, mask=own, other=0.0).to(tl.float32)
    for t in range(length):
        more = tl.minimum(length - 1 - t, 1)  # 0 at the last time
        k += inner
        q += inner
        v += columns
        later_key = tl.load(k, mask=i < inner * more, other=0.0).to(tl.float32)
        later_query = tl.load(q, mask=i < inner * more, other=0.0).to(tl.float32)
        later_value = tl.load(v, mask=c < columns * more, other=0.0).to(tl.float32)
        if DECAY:
            fade = tl.load(decay + head * length + t)
            s *= tl.exp(tl.where(fade == float("inf"), float("nan"), fade))  # as the chunks of a processor
        if BETA:
            held = key[:, None] * s
            if PADDED:
                held = tl.where(inside[:, None], held, 0.0)
            value = tl.load(beta + head * length + t) * (value - tl.sum(held, 0))
        s += key[:, None] * value[None, :]
        y = (query * scale)[:, None] * s
        if PADDED:
            y = tl.where(inside[:, None], y, 0.0)
        y = tl.sum(y, 0)
        tl.store(out, y.to(out.dtype.element_ty), mask=own)
        out += columns
        key, query, value = later_key, later_query, later_value
    tl.store(after + at, s, mask=both)


def _selective(u, delta, a, b, c, d, state):
    batch, length, channels = u.shape
    states = a.shape[1]
    out, after = torch.empty_like(u), a.new_empty(batch, *a.shape)
    wide = triton.next_power_of_2(states)
    some = max(4, min(32, 512 // wide))
    selective[(batch, triton.cdiv(channels, some))](
        u, delta, a, b, c, *(a if t is None else t for t in (d, state)), out, after, length, channels, states,
        SKIP=d is not None, STATE=state is not None, PADDED=wide != states, BLOCK_D=some, BLOCK_N=wide,
        num_warps=1 if some * wide <= 512 else 4,
    )  # fmt: skip
    return out, after


def _rows(q, k, v, beta, decay, state, scale):
    batch, heads, length, columns = v.shape
    groups, inner = q.shape[1], q.shape[3]
    out = torch.empty_like(v)
    after = v.new_empty(batch, heads, inner, columns, dtype=torch.float32)
    deep = triton.next_power_of_2(inner)
    some = max(8, min(32, triton.next_power_of_2(columns), 2048 // deep))
    rows[(batch * heads, triton.cdiv(columns, some))](
        q, k, v, *(q if t is None else t for t in (beta, decay, state)), out, after, heads, heads // groups, length,
        inner, columns, scale, BETA=beta is not None, DECAY=decay is not None, STATE=state is not None,
        PADDED=deep != inner, BLOCK_I=deep, BLOCK_C=some, num_warps=max(1, min(4, deep * some // 512)),
    )  # fmt: skip
    return out, after


def _linear(q, k, v, decay, state, scale):
    return _rows(q, k, v, None, decay, state, scale)


def _serves(u, *others):
    if u.dtype not in FLOATS:
        return f"a tensor is of {u.dtype}, and the kernel takes float32, bfloat16 and float16"
    if not all(x.is_contiguous() for x in (u, *others) if isinstance(x, torch.Tensor)):
        return "a tensor is not contiguous"
    states = others[1].shape[1] if others[1].dim() == 2 else u.shape[3]
    return f"there are {states} states, and the kernel takes at most 256" if states > 256 else None


FORMS = {
    "scan_selective": GpuForm(_serves, _selective),
    "scan_linear": GpuForm(_serves, _linear),
    "scan_delta": GpuForm(_serves, _rows),
}
