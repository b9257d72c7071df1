"""Experts on a GPU: two grouped products over tokens sorted by expert, without a number read back, and one sum.

Weights lie as for processors, in panels of 32 columns: an inner element of a panel is 32 numbers side by side.
"""

import torch
import triton
import triton.language as tl

from .._core.gpu import FLOATS, GpuForm


@triton.jit
def multiply(x, panels, offsets, tiles, gather, scatter, weights, out, columns, inner, many,
             GATHER: tl.constexpr, SCATTER: tl.constexpr, WEIGHTS: tl.constexpr, GATED: tl.constexpr,
             FEW: tl.constexpr, EXACT: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
             BLOCK_K: tl.constexpr):  # fmt: skip
    """Multiply a tile of a group's entries with a block of columns of its panels.

    With GATED a panel's 32 columns are 16 gates and 16 ups, and `silu(gate) * up` is stored. Rows of x of entry i are
    those of `gather[i] // FEW`.
    """
    group = tl.load(tiles + 2 * tl.program_id(1)).to(tl.int64)
    if group < 0:
        return
    entry = tl.load(tiles + 2 * tl.program_id(1) + 1) + tl.arange(0, BLOCK_M)
    own = entry < tl.load(offsets + group + 1)
    source = entry
    if GATHER:
        source = tl.load(gather + entry, mask=own, other=0) // FEW
    column = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    panel = column // 32
    left = x + source[:, None].to(tl.int64) * inner
    right = panels + ((group * many + panel) * inner * 32 + column % 32)[None, :]
    there = (panel < many)[None, :]
    total = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for first in range(0, inner, BLOCK_K):
        k = first + tl.arange(0, BLOCK_K)
        a = tl.load(left + k[None, :], mask=own[:, None] & (k < inner)[None, :], other=0.0)
        b = tl.load(right + k[:, None] * 32, mask=there & (k < inner)[:, None], other=0.0)
        total = tl.dot(a, b, total, input_precision="ieee" if EXACT else None)
    to = entry
    if SCATTER:
        to = tl.load(scatter + entry, mask=own, other=0)
    if WEIGHTS:
        total *= tl.load(weights + to, mask=own, other=0.0)[:, None]
    if GATED:
        halves = tl.permute(tl.reshape(total, [BLOCK_M, BLOCK_N // 32, 2, 16]), [0, 1, 3, 2])
        gate, up = tl.split(halves)
        total = tl.reshape(gate * tl.sigmoid(gate) * up, [BLOCK_M, BLOCK_N // 2])
        column = tl.program_id(0) * (BLOCK_N // 2) + tl.arange(0, BLOCK_N // 2)
    tl.store(
        out + to[:, None].to(tl.int64) * columns + column[None, :], total.to(out.dtype.element_ty),
        mask=own[:, None] & (column < columns)[None, :],
    )  # fmt: skip


@triton.jit
def added(parts, ids, out, columns, experts, CHOSEN: tl.constexpr, BLOCK: tl.constexpr):
    """Add up a token's entries, in their order; those of no expert were not written."""
    token = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for i in range(CHOSEN):
        which = tl.load(ids + token * CHOSEN + i)
        until = tl.where((which >= 0) & (which < experts), columns, 0)
        at = (token * CHOSEN + i) * columns + column
        total += tl.load(parts + at, mask=column < until, other=0.0).to(tl.float32)
    tl.store(out + token * columns + column, total.to(out.dtype.element_ty), mask=column < columns)


def _plan(keys, groups):
    ascending, order = torch.where((keys >= 0) & (keys < groups), keys, groups).sort(stable=True)
    return order, torch.searchsorted(ascending, torch.arange(groups + 1, device=keys.device))


def _tiles(offsets, entries, height):
    """Return group and first entry of each tile of `height` entries, group -1 of those that are too many."""
    groups = len(offsets) - 1
    ends = ((offsets.diff() + height - 1) // height).cumsum(0)
    number = torch.arange(triton.cdiv(entries, height) + min(groups, entries), device=offsets.device)
    group = torch.searchsorted(ends, number, right=True)
    inside = group.clamp(max=groups - 1)
    before = ends[inside] - (offsets[inside + 1] - offsets[inside] + height - 1) // height
    first = offsets[inside] + (number - before) * height
    return torch.stack((torch.where(group < groups, group, -1), first), 1)


def _sizes(entries, groups, wide):
    """Return the tile: as high as a group's entries are on average."""
    height = max(16, min(128, triton.next_power_of_2(triton.cdiv(entries, groups))))
    if wide:
        return {"BLOCK_M": min(height, 64), "BLOCK_N": 64, "BLOCK_K": 32, "num_warps": 4, "EXACT": True}
    return {
        "BLOCK_M": height,
        "BLOCK_N": 256 if height == 128 else 128,
        "BLOCK_K": 64,
        "num_warps": 8 if height == 128 else 4,
        "EXACT": False,
    }


def _product(x, panels, offsets, tiles, out, columns, sizes, *, gather=None, scatter=None, weights=None, gated=False,
             few=1):  # fmt: skip
    many, inner = panels.shape[1:3]
    grid = (triton.cdiv(many * 32, sizes["BLOCK_N"]), len(tiles))
    multiply[grid](
        x, panels, offsets, tiles, *(offsets if t is None else t for t in (gather, scatter)),
        x if weights is None else weights, out, columns, inner, many, GATHER=gather is not None,
        SCATTER=scatter is not None, WEIGHTS=weights is not None, GATED=gated, FEW=few, **sizes,
    )  # fmt: skip


def _experts(x, ups, downs, weights, ids):
    groups, chosen = len(ups), ids.shape[1]
    order, offsets = _plan(ids.view(-1), groups)
    sizes = _sizes(ids.numel(), groups, x.dtype is torch.float32)
    tiles = _tiles(offsets, ids.numel(), sizes["BLOCK_M"])
    width = ups.shape[1] * 16
    hidden = x.new_empty(ids.numel(), width)
    _product(x, ups, offsets, tiles, hidden, width, sizes, gather=order, gated=True, few=chosen)
    parts = x.new_empty(ids.numel(), x.shape[1], dtype=torch.float32)
    _product(hidden, downs, offsets, tiles, parts, x.shape[1], sizes, scatter=order, weights=weights.view(-1))
    out = torch.empty_like(x)
    block = max(128, min(1024, triton.next_power_of_2(x.shape[1])))
    added[(len(x), triton.cdiv(x.shape[1], block))](
        parts, ids, out, x.shape[1], groups, CHOSEN=chosen, BLOCK=block, num_warps=4
    )
    return out


def _serves_experts(x, ups, downs, weights, ids):
    if x.dtype not in FLOATS:
        return f"x is of {x.dtype}, and the kernel takes float32, bfloat16 and float16"
    if not all(t.is_contiguous() for t in (x, ups, downs, weights, ids)):
        return "a tensor is not contiguous"
    return None


FORMS = {
    "moe_experts": GpuForm(_serves_experts, _experts),
    "moe_plan": GpuForm(lambda keys, groups: None, _plan),  # noqa: ARG005
}
