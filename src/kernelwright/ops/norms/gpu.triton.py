"""Norms on a GPU: some rows a program, read once; gradients of weights are sums of rows, then of programs."""

from functools import partial

import torch
import triton
import triton.language as tl

from .._core.gpu import FLOATS, GpuForm

_MOST, _MOST_SLOPES = 1 << 15, 1 << 13
"""Columns that a program holds; of gradients it holds more for each."""


@triton.jit
def rms(x, residual, weight, out, total, rows, columns, eps, offset,
        SUM: tl.constexpr, SCALE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    """Norm rows, or rows of a sum, which is stored as it was rounded."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    mask = (row < rows)[:, None] & inside[None, :]
    at = row[:, None].to(tl.int64) * columns + column[None, :]
    v = tl.load(x + at, mask=mask, other=0.0).to(tl.float32)
    if SUM:
        v = (v + tl.load(residual + at, mask=mask, other=0.0).to(tl.float32)).to(total.dtype.element_ty)
        tl.store(total + at, v, mask=mask)
        v = v.to(tl.float32)
    v *= tl.rsqrt(tl.sum(v * v, 1) / columns + eps)[:, None]
    if SCALE:
        v *= (tl.load(weight + column, mask=inside, other=0.0).to(tl.float32) + offset)[None, :]
    tl.store(out + at, v.to(out.dtype.element_ty), mask=mask)


@triton.jit
def layer(x, weight, bias, out, rows, columns, eps,
          SCALE: tl.constexpr, SHIFT: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    """Norm rows less their mean."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    mask = (row < rows)[:, None] & inside[None, :]
    at = row[:, None].to(tl.int64) * columns + column[None, :]
    v = tl.load(x + at, mask=mask, other=0.0).to(tl.float32)
    v = tl.where(mask, v - (tl.sum(v, 1) / columns)[:, None], 0.0)
    v *= tl.rsqrt(tl.sum(v * v, 1) / columns + eps)[:, None]
    if SCALE:
        v *= tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)[None, :]
    if SHIFT:
        v += tl.load(bias + column, mask=inside, other=0.0).to(tl.float32)[None, :]
    tl.store(out + at, v.to(out.dtype.element_ty), mask=mask)


@triton.jit
def group(x, weight, bias, out, size, each, channels, groups, eps,
          SCALE: tl.constexpr, SHIFT: tl.constexpr, SILU: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    """Norm one group of an item: `channels` channels of `each` elements, `size` together, read three times."""
    begin = tl.program_id(0).to(tl.int64) * size
    first = (tl.program_id(0) % groups) * channels
    sums = tl.zeros([BLOCK], tl.float32)
    for start in range(0, size, BLOCK):
        at = start + tl.arange(0, BLOCK)
        sums += tl.load(x + begin + at, mask=at < size, other=0.0).to(tl.float32)
    mean = tl.sum(sums, 0) / size
    squares = tl.zeros([BLOCK], tl.float32)
    for start in range(0, size, BLOCK):
        at = start + tl.arange(0, BLOCK)
        v = tl.load(x + begin + at, mask=at < size, other=0.0).to(tl.float32) - mean
        squares += tl.where(at < size, v * v, 0.0)
    scale = tl.rsqrt(tl.sum(squares, 0) / size + eps)
    for start in range(0, size, BLOCK):
        at = start + tl.arange(0, BLOCK)
        inside = at < size
        v = (tl.load(x + begin + at, mask=inside, other=0.0).to(tl.float32) - mean) * scale
        channel = first + at // each
        if SCALE:
            v *= tl.load(weight + channel, mask=inside, other=0.0).to(tl.float32)
        if SHIFT:
            v += tl.load(bias + channel, mask=inside, other=0.0).to(tl.float32)
        if SILU:
            v *= tl.sigmoid(v)
        tl.store(out + begin + at, v.to(out.dtype.element_ty), mask=inside)


@triton.jit
def rms_slope(g, x, weight, extra, dx, dw, rows, columns, eps, offset, each,
              SCALE: tl.constexpr, MORE: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    """Compute the gradients of `each` rows, and the sum of theirs by column."""
    column = tl.arange(0, BLOCK)
    inside = column < columns
    if SCALE:
        w = tl.load(weight + column, mask=inside, other=0.0).to(tl.float32) + offset
    total = tl.zeros([BLOCK], tl.float32)
    first = tl.program_id(0) * each
    for row in range(first, tl.minimum(first + each, rows)):
        at = tl.cast(row, tl.int64) * columns + column
        v = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
        moved = tl.load(g + at, mask=inside, other=0.0).to(tl.float32)
        scale = tl.rsqrt(tl.sum(v * v, 0) / columns + eps)
        v *= scale
        total += moved * v
        if SCALE:
            moved *= w
        moved = (moved - v * (tl.sum(moved * v, 0) / columns)) * scale
        if MORE:
            moved += tl.load(extra + at, mask=inside, other=0.0).to(tl.float32)
        tl.store(dx + at, moved.to(dx.dtype.element_ty), mask=inside)
    tl.store(dw + tl.program_id(0).to(tl.int64) * columns + column, total, mask=inside)


@triton.jit
def layer_slope(g, x, weight, dx, dw, db, rows, columns, eps, each, SCALE: tl.constexpr, BLOCK: tl.constexpr):
    """Compute the gradients of `each` rows, and the sums of theirs by column."""
    column = tl.arange(0, BLOCK)
    inside = column < columns
    if SCALE:
        w = tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)
    total, shift = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    first = tl.program_id(0) * each
    for row in range(first, tl.minimum(first + each, rows)):
        at = tl.cast(row, tl.int64) * columns + column
        v = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
        moved = tl.load(g + at, mask=inside, other=0.0).to(tl.float32)
        v = tl.where(inside, v - tl.sum(v, 0) / columns, 0.0)
        scale = tl.rsqrt(tl.sum(v * v, 0) / columns + eps)
        v *= scale
        total += moved * v
        shift += moved
        if SCALE:
            moved *= w
        moved = (moved - tl.sum(moved, 0) / columns - v * (tl.sum(moved * v, 0) / columns)) * scale
        tl.store(dx + at, moved.to(dx.dtype.element_ty), mask=inside)
    begin = tl.program_id(0).to(tl.int64) * columns
    tl.store(dw + begin + column, total, mask=inside)
    tl.store(db + begin + column, shift, mask=inside)


def _tiles(columns):
    """Return rows of a program, its columns and warps: some 4096 elements, 16 of a thread."""
    block = triton.next_power_of_2(columns)
    count = max(1, min(16, 2048 // block))
    return count, block, max(1, min(16, count * block // 512))


def _rms(x, weight, eps, offset):
    out = torch.empty_like(x)
    columns = x.shape[-1]
    rows = x.numel() // columns
    count, block, warps = _tiles(columns)
    rms[(triton.cdiv(rows, count),)](
        x, x, x if weight is None else weight, out, out, rows, columns, eps, offset,
        SUM=False, SCALE=weight is not None, ROWS=count, BLOCK=block, num_warps=warps,
    )  # fmt: skip
    return out


def _add_rms(x, residual, weight, eps, offset):
    out, total = torch.empty_like(x), torch.empty_like(x)
    columns = x.shape[-1]
    rows = x.numel() // columns
    count, block, warps = _tiles(columns)
    rms[(triton.cdiv(rows, count),)](
        x, residual, x if weight is None else weight, out, total, rows, columns, eps, offset,
        SUM=True, SCALE=weight is not None, ROWS=count, BLOCK=block, num_warps=warps,
    )  # fmt: skip
    return out, total


def _layer(x, weight, bias, eps):
    out = torch.empty_like(x)
    columns = x.shape[-1]
    rows = x.numel() // columns
    count, block, warps = _tiles(columns)
    layer[(triton.cdiv(rows, count),)](
        x, x if weight is None else weight, x if bias is None else bias, out, rows, columns, eps,
        SCALE=weight is not None, SHIFT=bias is not None, ROWS=count, BLOCK=block, num_warps=warps,
    )  # fmt: skip
    return out


def _group(x, weight, bias, groups, eps, silu):
    out = torch.empty_like(x)
    items, channels = x.shape[:2]
    size = x.numel() // (items * groups)
    group[(items * groups,)](
        x, x if weight is None else weight, x if bias is None else bias, out, size, x[0, 0].numel(),
        channels // groups, groups, eps, SCALE=weight is not None, SHIFT=bias is not None, SILU=silu,
        BLOCK=min(4096, max(128, triton.next_power_of_2(size))), num_warps=8,
    )  # fmt: skip
    return out


def _programs(x, rows):
    """Return how many programs share out rows, and how many rows each has."""
    many = 4 * (torch.cuda.get_device_properties(x.device).multi_processor_count if x.is_cuda else 2)
    each = triton.cdiv(rows, many)
    return triton.cdiv(rows, each), each


def _rms_slope(g, x, weight, extra, eps, offset):
    columns = x.shape[-1]
    rows = x.numel() // columns
    many, each = _programs(x, rows)
    dx, dw = torch.empty_like(x), x.new_empty(many, columns, dtype=torch.float32)
    block = triton.next_power_of_2(columns)
    rms_slope[(many,)](
        g, x, x if weight is None else weight, x if extra is None else extra, dx, dw, rows, columns, eps, offset,
        each, SCALE=weight is not None, MORE=extra is not None, BLOCK=block, num_warps=max(1, min(16, block // 512)),
    )  # fmt: skip
    return dx, x.new_empty(0) if weight is None else dw.sum(0).to(weight.dtype)


def _layer_slope(g, x, weight, bias, eps):
    columns = x.shape[-1]
    rows = x.numel() // columns
    many, each = _programs(x, rows)
    dx = torch.empty_like(x)
    dw, db = x.new_empty(2, many, columns, dtype=torch.float32)
    block = triton.next_power_of_2(columns)
    layer_slope[(many,)](
        g, x, x if weight is None else weight, dx, dw, db, rows, columns, eps, each,
        SCALE=weight is not None, BLOCK=block, num_warps=max(1, min(16, block // 512)),
    )  # fmt: skip
    return tuple(
        one if like is x else x.new_empty(0) if like is None else one.sum(0).to(like.dtype)
        for one, like in ((dx, x), (dw, weight), (db, bias))
    )


def _serves(*arguments, most):
    for x in arguments:
        if isinstance(x, torch.Tensor):
            if x.dtype not in FLOATS:
                return f"a tensor is of {x.dtype}, and the kernel takes float32, bfloat16 and float16"
            if not x.is_contiguous():
                return "a tensor is not contiguous"
    if arguments[0].shape[-1] > most:
        return f"x has {arguments[0].shape[-1]} columns, and the kernel takes at most {most}"
    return None


_rows, _slopes = (partial(_serves, most=most) for most in (_MOST, _MOST_SLOPES))
FORMS = {
    "rms_norm": GpuForm(_rows, _rms),
    "add_rms_norm": GpuForm(_rows, _add_rms),
    "layer_norm": GpuForm(_rows, _layer),
    "group_norm_silu": GpuForm(partial(_serves, most=1 << 30), _group),
    "rms_norm_backward": GpuForm(_slopes, _rms_slope),
    "layer_norm_backward": GpuForm(_slopes, _layer_slope),
}
