"""Attention on a GPU: tiles of keys stream past tiles of rows, those that no row of a tile sees are not read.

A mask is some ranges of keys for each row. What lies between the largest begin and the least end of a tile's rows is
seen by all of them and not masked. Where nothing is masked or changed, GPUs from compute capability 9.0 on run cuDNN's.
"""

from functools import cache

import torch
import triton
import triton.language as tl

from .._core.gpu import FLOATS, GpuForm, precision

_MOST_RANGES = 4
_LONG = 128
"""Rows and keys from which cuDNN is asked."""
_LOG2E = tl.constexpr(1.4426950408889634)
_LN2 = tl.constexpr(0.6931471805599453)


@triton.jit
def changed(s, scale, cap, slope, apart, CAP: tl.constexpr, SLOPES: tl.constexpr):
    """Return scores of products, in units of which powers of two are taken."""
    s *= scale
    if CAP:
        s = cap * (2.0 * tl.sigmoid(2.0 * s / cap) - 1.0)
    if SLOPES:
        s -= slope * tl.abs(apart).to(tl.float32)
    return s * _LOG2E


@triton.jit
def with_odd(acc, p, seen, values):
    """Add what rows see of values that are no finite numbers, times their weights; a weight of zero makes them NaN.

    One product counts all three kinds: of 64 keys at most 64 are infinite, fewer than 128, and 128 times that for each
    that is less than zero, and 16384 times for each that is NaN.
    """
    kind = tl.where(values == float("inf"), 1.0, tl.where(values == float("-inf"), 128.0, 16384.0))
    kind = tl.where((values - values) != 0.0, kind, 0.0).to(values.dtype)
    by = tl.where(seen, tl.where(p > 0.0, 1.0, 16384.0), 0.0).to(values.dtype)
    summed = tl.dot(by, kind)
    count = summed.to(tl.int32)
    acc += tl.where((count & 127) > 0, float("inf"), 0.0)
    acc += tl.where((count & 16256) > 0, float("-inf"), 0.0)
    return tl.where(summed >= 16384.0, float("nan"), acc)


@triton.jit
def stream(acc, total, high, left, k, v, ranges, begin, end, first, last, position, keys, inner, columns, k_row, v_row,
           scale, cap, slope, MASKED: tl.constexpr, SLOT: tl.constexpr, CAP: tl.constexpr, SLOPES: tl.constexpr,
           PRECISION: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_I: tl.constexpr, BLOCK_C: tl.constexpr):  # fmt: skip
    """Fold keys from `first` up to `last` into rows; with MASKED those that a row sees and no earlier range has.

    SLOT is the number of ranges before this one, -1 where nothing is hidden but what is not there.
    """
    i, c = tl.arange(0, BLOCK_I), tl.arange(0, BLOCK_C)
    for start in range(first, last, BLOCK_N):
        key = start + tl.arange(0, BLOCK_N)
        right = tl.load(
            k + key[None, :].to(tl.int64) * k_row + i[:, None],
            mask=(key < keys)[None, :] & (i < inner)[:, None], other=0.0,
        )  # fmt: skip
        s = tl.dot(left, right, input_precision=PRECISION)
        s = changed(s, scale, cap, slope, position[:, None] - key[None, :], CAP, SLOPES)
        if MASKED:
            seen = (key[None, :] >= begin[:, None]) & (key[None, :] < end[:, None])
            for other in tl.static_range(SLOT):
                low = tl.load(ranges + 2 * other)[:, None]
                up = tl.load(ranges + 2 * other + 1)[:, None]
                seen = seen & ((key[None, :] < low) | (key[None, :] >= up))
            s = tl.where(seen, s, float("-inf"))
        higher = tl.maximum(high, tl.max(s, 1))
        safe = tl.where(higher == float("-inf"), 0.0, higher)
        p = tl.exp2(s - safe[:, None])
        fade = tl.exp2(high - safe)
        total = total * fade + tl.sum(p, 1)
        values = tl.load(
            v + key[:, None].to(tl.int64) * v_row + c[None, :],
            mask=(key < keys)[:, None] & (c < columns)[None, :], other=0.0,
        )  # fmt: skip
        acc = acc * fade[:, None]
        if MASKED and SLOT >= 0:  # what is hidden adds nothing, be it infinite; what is seen is added apart
            odd = (values - values) != 0.0
            if tl.max(odd.to(tl.int32)) > 0:
                acc = with_odd(acc, p, seen, values)
            values = tl.where(odd, 0.0, values)
        acc = tl.dot(p.to(values.dtype), values, acc, input_precision=PRECISION)
        high = higher
    return acc, total, high


@triton.jit
def finish(acc, total, high, sink, lse, out, place, own, columns, SINKS: tl.constexpr, BLOCK_C: tl.constexpr):
    """Write what rows have folded; those that saw no key are zero, and -inf."""
    c = tl.arange(0, BLOCK_C)
    if SINKS:
        more = tl.load(sink) * _LOG2E
        higher = tl.maximum(high, more)
        safe = tl.where(higher == float("-inf"), 0.0, higher)
        fade = tl.exp2(high - safe)
        total = total * fade + tl.exp2(more - safe)
        acc = acc * fade[:, None]
        high = higher
    dead = total == 0.0  # not of a row with NaN, which may have no largest score
    tl.store(lse + place, tl.where(dead, high, (high + tl.log2(total)) * _LN2), mask=own)
    acc /= tl.where(dead, 1.0, total)[:, None]
    tl.store(
        out + place[:, None] * columns + c[None, :], acc.to(out.dtype.element_ty),
        mask=own[:, None] & (c < columns)[None, :],
    )  # fmt: skip


@triton.jit
def forward(q, k, v, ranges, sinks, slopes, out, lse, q_item, q_head, q_row, k_item, k_head, k_row, v_item, v_head,
            v_row, r_item, r_head, heads, each, rows, keys, inner, columns, scale, cap, MANY: tl.constexpr,
            SINKS: tl.constexpr, SLOPES: tl.constexpr, CAP: tl.constexpr, PRECISION: tl.constexpr,
            BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_I: tl.constexpr, BLOCK_C: tl.constexpr):  # fmt: skip
    """Compute a tile of rows of a head; the last tiles, which see most of a causal mask, begin first."""
    tile = tl.num_programs(0) - 1 - tl.program_id(0)
    head, item = tl.program_id(1) % heads, (tl.program_id(1) // heads).to(tl.int64)
    row = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    own = row < rows
    i = tl.arange(0, BLOCK_I)
    left = tl.load(
        q + item * q_item + head.to(tl.int64) * q_head + row[:, None].to(tl.int64) * q_row + i[None, :],
        mask=own[:, None] & (i < inner)[None, :], other=0.0,
    )  # fmt: skip
    k += item * k_item + (head // each).to(tl.int64) * k_head
    v += item * v_item + (head // each).to(tl.int64) * v_head
    slope = 0.0
    if SLOPES:
        slope = tl.load(slopes + head)
    position = row + keys - rows
    high = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, BLOCK_C], tl.float32)
    if MANY == 0:
        whole = keys // BLOCK_N * BLOCK_N
        acc, total, high = stream(acc, total, high, left, k, v, ranges, row, row, 0, whole, position, keys, inner,
                                  columns, k_row, v_row, scale, cap, slope, False, 0, CAP, SLOPES, PRECISION, BLOCK_N,
                                  BLOCK_I, BLOCK_C)  # fmt: skip
        acc, total, high = stream(acc, total, high, left, k, v, ranges, row * 0, row * 0 + keys, whole, keys, position,
                                  keys, inner, columns, k_row, v_row, scale, cap, slope, True, -1, CAP, SLOPES,
                                  PRECISION, BLOCK_N, BLOCK_I, BLOCK_C)  # fmt: skip
    mine = (
        ranges
        + item * r_item
        + head.to(tl.int64) * r_head
        + tl.minimum(row, rows - 1).to(tl.int64) * (2 * MANY)
    )
    for slot in tl.static_range(MANY):
        begin = tl.maximum(tl.load(mine + 2 * slot), 0)
        end = tl.minimum(tl.load(mine + 2 * slot + 1), keys)
        live = begin < end
        first = tl.min(tl.where(live, begin, keys), 0) // BLOCK_N * BLOCK_N
        last = tl.max(tl.where(live, end, 0), 0)
        middle, until = first, first
        if slot == 0:
            middle = (tl.max(begin, 0) + BLOCK_N - 1) // BLOCK_N * BLOCK_N
            until = tl.maximum(tl.min(end, 0) // BLOCK_N * BLOCK_N, middle)
            acc, total, high = stream(acc, total, high, left, k, v, mine, begin, end, first, tl.minimum(middle, last),
                                      position, keys, inner, columns, k_row, v_row, scale, cap, slope, True, 0, CAP,
                                      SLOPES, PRECISION, BLOCK_N, BLOCK_I, BLOCK_C)  # fmt: skip
            acc, total, high = stream(acc, total, high, left, k, v, mine, begin, end, middle, until, position, keys,
                                      inner, columns, k_row, v_row, scale, cap, slope, False, 0, CAP, SLOPES, PRECISION,
                                      BLOCK_N, BLOCK_I, BLOCK_C)  # fmt: skip
        acc, total, high = stream(acc, total, high, left, k, v, mine, begin, end, until, last, position, keys, inner,
                                  columns, k_row, v_row, scale, cap, slope, True, slot, CAP, SLOPES, PRECISION, BLOCK_N,
                                  BLOCK_I, BLOCK_C)  # fmt: skip
    place = (item * heads + head) * rows + row
    finish(acc, total, high, sinks + head, lse, out, place, own, columns, SINKS, BLOCK_C)


def _sizes(inner, columns, exact):
    """Return the tile of a head size."""
    wide = max(inner, columns)
    if exact:
        tile, warps, stages = (64, 32) if wide <= 64 else (32, 32), 4, 2 if wide <= 128 else 1
    elif wide <= 64:
        tile, warps, stages = (128, 64), 8, 3
    else:
        tile, warps, stages = (128, 64) if wide <= 128 else (128, 32), 8, 3 if wide <= 128 else 2
    return {
        "BLOCK_M": tile[0], "BLOCK_N": tile[1], "BLOCK_I": max(16, triton.next_power_of_2(inner)),
        "BLOCK_C": max(16, triton.next_power_of_2(columns)), "PRECISION": precision(exact), "num_warps": warps,
        "num_stages": stages,
    }  # fmt: skip


@cache
def _has_hopper(device):
    return torch.cuda.get_device_capability(device) >= (9, 0) and torch.backends.cudnn.is_available()


def _is_cudnns(q, k, v, ranges, sinks, slopes, soft_cap):
    """Tell whether cuDNN, which is faster there, computes the same: rows see every key, and nothing is changed."""
    plain = ranges is None and sinks is None and slopes is None and soft_cap == 0.0
    fits = q.shape[3] == v.shape[3] and q.shape[3] in (64, 128) and min(q.shape[2], k.shape[2]) >= _LONG
    return plain and fits and q.dtype is not torch.float32 and q.is_cuda and _has_hopper(q.device)


def _by_cudnn(q, k, v, scale):
    found = torch.ops.aten._scaled_dot_product_cudnn_attention(
        q, k, v, None, True, 0.0, False, False, scale=scale
    )
    return found[0].contiguous(), found[1].reshape(q.shape[:3]).contiguous()


def _attention(q, k, v, ranges, sinks, slopes, scale, soft_cap):
    if _is_cudnns(q, k, v, ranges, sinks, slopes, soft_cap):
        return _by_cudnn(q, k, v, scale)
    batch, heads, rows, inner = q.shape
    groups, keys, columns = v.shape[1:]
    out = q.new_empty(batch, heads, rows, columns)
    lse = q.new_empty(batch, heads, rows, dtype=torch.float32)
    sizes = _sizes(inner, columns, q.dtype is torch.float32)
    strides = [t.stride(i) for t in (q, k, v) for i in range(3)]
    among = (0, 0)
    if ranges is not None:
        among = tuple(ranges.stride(i) if ranges.shape[i] > 1 else 0 for i in range(2))
    forward[(triton.cdiv(rows, sizes["BLOCK_M"]), batch * heads)](
        q, k, v, *(q if t is None else t for t in (ranges, sinks, slopes)), out, lse, *strides, *among, heads,
        heads // groups, rows, keys, inner, columns, scale, soft_cap, MANY=0 if ranges is None else ranges.shape[3],
        SINKS=sinks is not None, SLOPES=slopes is not None, CAP=soft_cap != 0.0, **sizes,
    )  # fmt: skip
    return out, lse


def _serves(q, k, v, ranges, sinks, slopes, *_):
    if q.dtype not in FLOATS:
        return f"q is of {q.dtype}, and the kernel takes float32, bfloat16 and float16"
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.stride(3) != 1 and x.shape[3] != 1:
            return f"{name} does not have its columns side by side"
        most = 128 if q.dtype is torch.float32 else 256
        if x.shape[3] > most:
            return f"{name} has {x.shape[3]} columns, and the kernel takes at most {most} of {q.dtype}"
    for x in (ranges, sinks, slopes):
        if x is not None and not (x.is_contiguous() and x.dtype in (torch.int32, torch.float32)):
            return "ranges, sinks or alibi are not contiguous float32"
    if ranges is not None and ranges.shape[3] > _MOST_RANGES:
        return f"a row has {ranges.shape[3]} ranges of keys, and the kernel takes at most {_MOST_RANGES}"
    if q.shape[0] * q.shape[1] > 65535:
        return f"there are {q.shape[0] * q.shape[1]} heads of items, and the kernel takes at most 65535"
    return None


FORMS = {"attention": GpuForm(_serves, _attention)}
