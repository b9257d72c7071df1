"""Rotary embedding on a GPU: q and k in one launch, a program for some heads of a position."""

import triton
import triton.language as tl

from .._core.gpu import FLOATS, GpuForm


@triton.jit
def turned(x, out, item, place, head, heads, c, s, size, pairs, item_stride, head_stride, place_stride,
           out_item, out_head, out_place, NEAR: tl.constexpr, REST: tl.constexpr, HEADS: tl.constexpr,
           PAIRS: tl.constexpr):  # fmt: skip
    """Turn the pairs of some heads at a position, and copy what is beyond them."""
    head += tl.arange(0, HEADS)
    pair = tl.arange(0, PAIRS)
    mask = (head < heads)[:, None] & (pair < pairs)[None, :]
    x += item * item_stride + place * place_stride + head[:, None].to(tl.int64) * head_stride
    out += item * out_item + place * out_place + head[:, None].to(tl.int64) * out_head
    first, second = pair, pair + pairs
    if NEAR:
        first, second = 2 * pair, 2 * pair + 1
    a = tl.load(x + first[None, :], mask=mask, other=0.0).to(tl.float32)
    b = tl.load(x + second[None, :], mask=mask, other=0.0).to(tl.float32)
    kind = out.dtype.element_ty
    tl.store(out + first[None, :], (a * c[None, :] - b * s[None, :]).to(kind), mask=mask)
    tl.store(out + second[None, :], (b * c[None, :] + a * s[None, :]).to(kind), mask=mask)
    if REST:
        for start in range(2 * pairs, size, PAIRS):
            beyond = start + pair
            rest = (head < heads)[:, None] & (beyond < size)[None, :]
            tl.store(out + beyond[None, :], tl.load(x + beyond[None, :], mask=rest), mask=rest)


@triton.jit
def rotate(q, k, cos, sin, positions, q_out, k_out, length, q_heads, k_heads, size, pairs, table, blocks,
           q_item, q_head, q_place, k_item, k_head, k_place, qo_item, qo_head, qo_place, ko_item, ko_head, ko_place,
           GIVEN: tl.constexpr, INVERSE: tl.constexpr, NEAR: tl.constexpr, REST: tl.constexpr, HEADS: tl.constexpr,
           PAIRS: tl.constexpr):  # fmt: skip
    """Turn a block of heads of q, or behind its `blocks` of k, at one position of an item."""
    item = (tl.program_id(0) // length).to(tl.int64)
    place = (tl.program_id(0) % length).to(tl.int64)
    row = place
    if GIVEN:
        row = tl.load(positions + tl.program_id(0))
    pair = tl.arange(0, PAIRS)
    at = row * pairs + pair  # beyond the table's rows it is beyond the table
    there = (at >= 0) & (at < table * pairs) & (pair < pairs)
    c = tl.load(cos + at, mask=there, other=float("nan")).to(tl.float32)
    s = tl.load(sin + at, mask=there, other=float("nan")).to(tl.float32)
    if INVERSE:
        s = -s
    block = tl.program_id(1)
    if block < blocks:
        turned(q, q_out, item, place, block * HEADS, q_heads, c, s, size, pairs, q_item, q_head, q_place,
               qo_item, qo_head, qo_place, NEAR, REST, HEADS, PAIRS)  # fmt: skip
    else:
        turned(k, k_out, item, place, (block - blocks) * HEADS, k_heads, c, s, size, pairs, k_item, k_head, k_place,
               ko_item, ko_head, ko_place, NEAR, REST, HEADS, PAIRS)  # fmt: skip


def _rope(q, k, cos, sin, positions, interleaved, heads_first, inverse):
    outs = q.new_empty(q.shape), k.new_empty(k.shape)
    order = (0, 1, 2) if heads_first else (0, 2, 1)
    strides = [t.stride(i) for t in (q, k, *outs) for i in order]
    heads, length = [t.shape[order[1]] for t in (q, k)], q.shape[order[2]]
    pairs, size = cos.shape[1], q.shape[3]
    wide = max(16, triton.next_power_of_2(pairs))
    some = max(1, min(triton.next_power_of_2(max(heads)), 2048 // wide))
    blocks = triton.cdiv(heads[0], some)
    rotate[(q.shape[0] * length, blocks + triton.cdiv(heads[1], some))](
        q, k, cos, sin, q if positions is None else positions, *outs, length, *heads, size, pairs, len(cos), blocks,
        *strides, GIVEN=positions is not None, INVERSE=inverse, NEAR=interleaved, REST=size > 2 * pairs, HEADS=some,
        PAIRS=wide, num_warps=max(1, min(8, some * wide // 256)),
    )  # fmt: skip
    return outs


def _serves(q, k, cos, sin, positions, *_):
    for x in (q, cos):
        if x.dtype not in FLOATS:
            return f"a tensor is of {x.dtype}, and the kernel takes float32, bfloat16 and float16"
    if (q.shape[3] > 1 and q.stride(3) != 1) or (k.shape[3] > 1 and k.stride(3) != 1):
        return "the elements of a head are not side by side"
    if not (cos.is_contiguous() and sin.is_contiguous() and (positions is None or positions.is_contiguous())):
        return "cos, sin or positions are not contiguous"
    if cos.shape[1] > 2048:
        return f"cos has {cos.shape[1]} pairs, and the kernel takes at most 2048"
    return None


FORMS = {"rope": GpuForm(_serves, _rope)}
