"""Segment plan and reduce: where each key's entries lie in sorted order, and the sum of their rows, in that order."""

import torch
import triton
import triton.language as tl

TRITON_EVIDENCE = [
    {
        "kernel": "begins",
        "signature": {"keys": "*i64", "offsets": "*i64", "n": "i32", "groups": "i32", "steps": "i32"},
        "constexprs": {"BLOCK": 256},
        "num_warps": 4,
        "targets": ["sm_80", "sm_90", "sm_100", "gfx942", "gfx950"],
    },
    {
        "kernel": "summed",
        "signature": {"x": "*fp16", "order": "*i64", "offsets": "*i64", "out": "*fp16", "columns": "i32"},
        "constexprs": {"BLOCK": 256},
        "divisible": ["columns"],
        "num_warps": 4,
        "targets": ["sm_80", "sm_90", "sm_100", "gfx942", "gfx950"],
    },
]


@triton.jit
def begins(keys, offsets, n, groups, steps, BLOCK: tl.constexpr):
    """Find where each group's keys begin among sorted ones."""
    group = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    low = tl.zeros([BLOCK], tl.int32)
    high = tl.zeros([BLOCK], tl.int32) + n
    for _ in range(steps):
        middle = (low + high) // 2
        unknown = low < high
        less = tl.load(keys + middle, mask=unknown, other=0) < group
        low = tl.where(unknown & less, middle + 1, low)
        high = tl.where(unknown & (less == 0), middle, high)
    tl.store(offsets + group, low.to(tl.int64), mask=group <= groups)


@triton.jit
def summed(x, order, offsets, out, columns, BLOCK: tl.constexpr):
    """Sum a block of columns of a group's rows, in their order."""
    group = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < columns
    total = tl.zeros([BLOCK], tl.float32)
    for entry in range(tl.load(offsets + group), tl.load(offsets + group + 1)):
        row = tl.load(order + entry)
        total += tl.load(x + row * columns + column, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + group * columns + column, total.to(out.dtype.element_ty), mask=inside)


def run(x, keys, groups):
    """Return the order of entries, where each group's begin, and the sums of their rows; other keys are no group's."""
    if not x.is_contiguous():
        raise NotImplementedError("Unsupported: x must be contiguous")
    n, columns = x.shape
    known, order = torch.where((keys < 0) | (keys >= groups), groups, keys).sort(stable=True)
    offsets = torch.empty(groups + 1, dtype=torch.int64, device=x.device)
    begins[(triton.cdiv(groups + 1, 256),)](
        known, offsets, n, groups, max(1, n).bit_length() + 1, BLOCK=256, num_warps=4
    )
    out = torch.empty(groups, columns, dtype=x.dtype, device=x.device)
    if columns:
        summed[(groups, triton.cdiv(columns, 256))](x, order, offsets, out, columns, BLOCK=256, num_warps=4)
    return order, offsets, out
