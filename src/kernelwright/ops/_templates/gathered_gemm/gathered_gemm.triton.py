"""Gathered and scattered GEMM: `out[scatter[i]] += weights[scatter[i]] * (x[gather[i]] @ w[group of i].T)`."""

import torch
import triton
import triton.language as tl

TRITON_EVIDENCE = [
    {
        "kernel": "grouped",
        "signature": {
            "x": "*fp16", "w": "*fp16", "offsets": "*i64", "tiles": "*i64", "gather": "*i64", "scatter": "*i64",
            "weights": "*fp32", "out": "*fp32", "inner": "i32", "columns": "i32",
        },
        "constexprs": {"BLOCK_M": 32, "BLOCK_N": 64, "BLOCK_K": 32},
        "divisible": ["inner", "columns"],
        "num_warps": 4,
        "targets": ["sm_80", "sm_90", "sm_100", "gfx942", "gfx950"],
    },
]  # fmt: skip


@triton.jit
def grouped(x, w, offsets, tiles, gather, scatter, weights, out, inner, columns,
            BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):  # fmt: skip
    """Multiply a tile of a group's entries with a block of columns of its weight, and add it to their rows."""
    group = tl.load(tiles + 2 * tl.program_id(0))
    entry = tl.load(tiles + 2 * tl.program_id(0) + 1) + tl.arange(0, BLOCK_M)
    own = entry < tl.load(offsets + group + 1)
    column = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = column < columns
    source = tl.load(gather + entry, mask=own, other=0)
    total = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for first in range(0, inner, BLOCK_K):
        k = first + tl.arange(0, BLOCK_K)
        left = tl.load(
            x + source[:, None] * inner + k[None, :], mask=own[:, None] & (k < inner)[None, :], other=0.0
        )
        right = tl.load(
            w + (group * columns + column)[None, :] * inner + k[:, None],
            mask=inside[None, :] & (k < inner)[:, None],
            other=0.0,
        )  # fmt: skip
        total = tl.dot(left, right, total, input_precision="ieee")
    to = tl.load(scatter + entry, mask=own, other=0)
    total *= tl.load(weights + to, mask=own, other=0.0)[:, None]
    tl.atomic_add(out + to[:, None] * columns + column[None, :], total, mask=own[:, None] & inside[None, :])


def run(x, w, offsets, gather, scatter, weights):
    """Return (rows, columns) of x's dtype; groups' entries lie between their offsets."""
    if not (x.is_contiguous() and w.is_contiguous()):
        raise NotImplementedError("Unsupported: x and w must be contiguous")
    groups, columns, inner = w.shape
    counts = (offsets.diff() + 31) // 32
    group = torch.arange(groups, device=x.device).repeat_interleave(counts)
    before = counts.cumsum(0) - counts
    first = offsets[group] + (torch.arange(len(group), device=x.device) - before[group]) * 32
    out = torch.zeros(len(weights), columns, dtype=torch.float32, device=x.device)
    if len(group) and columns:
        tiles = torch.stack((group, first), 1).contiguous()
        grid = (len(group), triton.cdiv(columns, 64))
        grouped[grid](x, w, offsets, tiles, gather, scatter, weights, out, inner, columns,
                      BLOCK_M=32, BLOCK_N=64, BLOCK_K=32, num_warps=4)  # fmt: skip
    return out.to(x.dtype)
