"""Attention of one token of each sequence on a GPU: positions of a cache are shared out, then what was found is joined.

A cache holds floats; codes of 8 bits with a scale for each position and head, which meets the products; or codes of 8
or 4 bits with a scale for each group of columns, which are floats again before they are multiplied, in TF32 where q has
16 bits: it has as many digits as float16, and no number of a cache is beyond it.
"""

import torch
import triton
import triton.language as tl

from .._core.gpu import FLOATS, GpuForm, precision
from ._cache import columns_of
from .gpu_triton import _LN2, _LOG2E, changed


@triton.jit
def spread(cache, scales, place, column, by, columns, there, NIBBLES: tl.constexpr, GROUP: tl.constexpr):
    """Return numbers of a cache whose groups of columns have scales; codes of 4 bits in a byte lie 16 columns apart."""
    inside = there & (column < columns)
    byte = column // 32 * 16 + column % 16 if NIBBLES else column
    code = tl.load(cache + place + byte, mask=inside, other=0)
    if NIBBLES:
        code = ((code.to(tl.int32) >> (column // 16 % 2 * 4)) & 15) - 8
    scale = tl.load(scales + by * (columns // GROUP) + column // GROUP, mask=inside, other=0.0)
    return code.to(tl.float32) * scale.to(tl.float32)


@triton.jit
def share(q, k, v, lengths, pages, k_scales, v_scales, slopes, acc_out, high_out, total_out, q_item, q_head, k_page,
          k_slot, k_group, v_page, v_slot, v_group, count, size, listed, heads, inner, columns, window, scale, cap,
          PAGED: tl.constexpr, SCALED: tl.constexpr, K_GROUP: tl.constexpr, V_GROUP: tl.constexpr,
          NIBBLES: tl.constexpr, SLOPES: tl.constexpr, CAP: tl.constexpr, PRECISION: tl.constexpr, EACH: tl.constexpr,
          PARTS: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_I: tl.constexpr,
          BLOCK_C: tl.constexpr):  # fmt: skip
    """Fold one part of an item's positions into the heads of a group, which share keys and values."""
    groups = heads // EACH
    item, group = (tl.program_id(0) // groups).to(tl.int64), (tl.program_id(0) % groups).to(tl.int64)
    h, i, c = tl.arange(0, BLOCK_H), tl.arange(0, BLOCK_I), tl.arange(0, BLOCK_C)
    head = group * EACH + h
    left = tl.load(
        q + item * q_item + head[:, None] * q_head + i[None, :],
        mask=(h < EACH)[:, None] & (i < inner)[None, :], other=0.0,
    )  # fmt: skip
    slope = tl.zeros([BLOCK_H], tl.float32)
    if SLOPES:
        slope = tl.load(slopes + head, mask=h < EACH, other=0.0)
    length = tl.minimum(tl.maximum(tl.load(lengths + item), 0), size * listed)
    begin = 0
    if window > 0:
        begin = tl.maximum(length - window, 0)
    each = (((length - begin + PARTS - 1) // PARTS) + BLOCK_N - 1) // BLOCK_N * BLOCK_N
    first = begin + tl.program_id(1) * each
    last = tl.minimum(first + each, length)
    high = tl.full([BLOCK_H], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_H], tl.float32)
    acc = tl.zeros([BLOCK_H, BLOCK_C], tl.float32)
    for start in range(first, last, BLOCK_N):
        key = start + tl.arange(0, BLOCK_N)
        there = key < last
        page = item + key * 0
        if PAGED:
            page = tl.load(pages + item * listed + key // size, mask=there, other=0).to(tl.int64)
        right = (page >= 0) & (page < count)
        page = tl.where(right, page, 0)
        slot = (key % size).to(tl.int64)
        by = (page * size + slot) * groups + group
        at = page * k_page + slot * k_slot + group * k_group
        if K_GROUP:
            keys = spread(
                k, k_scales, at[None, :], i[:, None], by[None, :], inner, there[None, :], NIBBLES, K_GROUP
            )
            s = tl.dot(left.to(tl.float32), keys, input_precision=PRECISION)
        else:
            keys = tl.load(k + at[None, :] + i[:, None], mask=there[None, :] & (i < inner)[:, None], other=0)
            s = tl.dot(left, keys.to(left.dtype), input_precision=PRECISION)
        if SCALED:
            s *= tl.load(k_scales + by, mask=there, other=0.0)[None, :]
        s = changed(s, scale, cap, slope[:, None], (length - 1 - key)[None, :], CAP, SLOPES)
        s = tl.where(right[None, :], s, float("nan"))
        s = tl.where(there[None, :], s, float("-inf"))
        higher = tl.maximum(high, tl.max(s, 1))
        safe = tl.where(higher == float("-inf"), 0.0, higher)
        p = tl.exp2(s - safe[:, None])
        fade = tl.exp2(high - safe)
        total = total * fade + tl.sum(p, 1)
        at = page * v_page + slot * v_slot + group * v_group
        if SCALED:
            p *= tl.load(v_scales + by, mask=there, other=0.0)[None, :]
        acc *= fade[:, None]
        if V_GROUP:
            values = spread(
                v, v_scales, at[:, None], c[None, :], by[:, None], columns, there[:, None], NIBBLES, V_GROUP
            )
            acc = tl.dot(p, values, acc, input_precision=PRECISION)
        else:
            values = tl.load(
                v + at[:, None] + c[None, :], mask=there[:, None] & (c < columns)[None, :], other=0
            )
            acc = tl.dot(p.to(left.dtype), values.to(left.dtype), acc, input_precision=PRECISION)
        high = higher
    place = (item * heads + head) * PARTS + tl.program_id(1)
    tl.store(high_out + place, high, mask=h < EACH)
    tl.store(total_out + place, total, mask=h < EACH)
    tl.store(
        acc_out + place[:, None] * columns + c[None, :],
        acc,
        mask=(h < EACH)[:, None] & (c < columns)[None, :],
    )


@triton.jit
def joined(acc, high, total, sinks, lengths, out, lse, heads, columns, most, SINKS: tl.constexpr, PARTS: tl.constexpr,
           BLOCK_P: tl.constexpr, BLOCK_C: tl.constexpr):  # fmt: skip
    """Join the parts of one head of an item; a length out of range gives NaN."""
    place = tl.program_id(0).to(tl.int64)
    part, c = tl.arange(0, BLOCK_P), tl.arange(0, BLOCK_C)
    there = part < PARTS
    highs = tl.load(high + place * PARTS + part, mask=there, other=float("-inf"))
    top = tl.max(highs, 0)
    if SINKS:
        more = tl.load(sinks + place % heads) * _LOG2E
        top = tl.maximum(top, more)
    safe = tl.where(top == float("-inf"), 0.0, top)
    by = tl.exp2(highs - safe)
    whole = tl.sum(tl.load(total + place * PARTS + part, mask=there, other=0.0) * by, 0)
    if SINKS:
        whole += tl.exp2(more - safe)
    parts = tl.load(
        acc + (place * PARTS + part)[:, None] * columns + c[None, :],
        mask=there[:, None] & (c < columns)[None, :], other=0.0,
    )  # fmt: skip
    length = tl.load(lengths + place // heads)
    dead = whole == 0.0
    wrong = tl.where((length < 0) | (length > most), float("nan"), 0.0)
    found = tl.sum(parts * by[:, None], 0) / tl.where(dead, 1.0, whole) + wrong
    tl.store(out + place * columns + c, found.to(out.dtype.element_ty), mask=c < columns)
    tl.store(lse + place, tl.where(dead, top, (top + tl.log2(whole)) * _LN2) + wrong)


def _decode(q, k_cache, v_cache, lengths, pages, k_scales, v_scales, sinks, slopes, window, scale, soft_cap):
    batch, heads, inner = q.shape
    count, size, groups = v_cache.shape[:3]
    columns = columns_of(v_cache)
    grouped = k_scales is not None and k_scales.dim() == 4
    listed = 1 if pages is None else pages.shape[1]
    programs = 4 * (torch.cuda.get_device_properties(q.device).multi_processor_count if q.is_cuda else 2)
    exact = q.dtype is torch.float32
    block = 32 if exact or grouped or max(inner, columns) > 128 else 64
    parts = max(1, min(64, programs // max(1, batch * groups), triton.cdiv(size * listed, block)))
    numbers = q.new_empty(2, batch * heads * parts, dtype=torch.float32)
    acc = q.new_empty(batch * heads * parts, columns, dtype=torch.float32)
    wide = max(16, triton.next_power_of_2(columns))
    strides = [*q.stride()[:2], *k_cache.stride()[:3], *v_cache.stride()[:3]]
    share[(batch * groups, parts)](
        q, k_cache, v_cache, lengths, *(q if t is None else t for t in (pages, k_scales, v_scales, slopes)), acc,
        *numbers, *strides, count, size, listed, heads, inner, columns, window, scale, soft_cap,
        PAGED=pages is not None, SCALED=k_scales is not None and not grouped,
        K_GROUP=inner // k_scales.shape[3] if grouped else 0, V_GROUP=columns // v_scales.shape[3] if grouped else 0,
        NIBBLES=k_cache.dtype is torch.uint8, SLOPES=slopes is not None, CAP=soft_cap != 0.0,
        PRECISION=precision(exact), EACH=heads // groups, PARTS=parts,
        BLOCK_H=max(16, triton.next_power_of_2(heads // groups)), BLOCK_N=block,
        BLOCK_I=max(16, triton.next_power_of_2(inner)), BLOCK_C=wide, num_warps=4, num_stages=2,
    )  # fmt: skip
    out = q.new_empty(batch, heads, columns)
    lse = q.new_empty(batch, heads, dtype=torch.float32)
    joined[(batch * heads,)](
        acc, *numbers, q if sinks is None else sinks, lengths, out, lse, heads, columns, size * listed,
        SINKS=sinks is not None, PARTS=parts, BLOCK_P=triton.next_power_of_2(parts), BLOCK_C=wide, num_warps=4,
    )  # fmt: skip
    return out, lse


def _serves_decode(q, k_cache, v_cache, lengths, *rest):
    if q.dtype not in FLOATS:
        return f"q is of {q.dtype}, and the kernel takes float32, bfloat16 and float16"
    if k_cache.dtype is not v_cache.dtype or len({None if x is None else x.dim() for x in rest[1:3]}) > 1:
        return "keys and values are not cached in the same way"
    for x in (q, k_cache, v_cache):
        if x.stride(-1) != 1 or columns_of(x) > 256:
            return "columns do not lie side by side, or are more than 256"
    for x in (lengths, *rest[:5]):
        if x is not None and not (
            x.is_contiguous() and x.dtype in (torch.int32, torch.float32, torch.bfloat16)
        ):
            return "lengths, pages, scales, sinks or alibi are not contiguous, or are of float64"
    if q.shape[1] // v_cache.shape[2] > 64:
        return f"{q.shape[1] // v_cache.shape[2]} heads share a key, and the kernel takes at most 64"
    return None


FORMS = {"attention_decode": GpuForm(_serves_decode, _decode)}
