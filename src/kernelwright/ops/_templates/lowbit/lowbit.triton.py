"""Packed low-bit tile: codes of four bits, two a byte, unpacked, scaled and multiplied; no weight is stored whole."""

import torch
import triton
import triton.language as tl

TRITON_EVIDENCE = [
    {
        "kernel": "linear",
        "signature": {
            "x": "*fp16", "codes": "*u8", "scales": "*fp32", "zeros": "*u8", "out": "*fp16", "rows": "i32",
            "columns": "i32", "inner": "i32", "group": "i32",
        },
        "constexprs": {"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 32},
        "divisible": ["inner", "columns", "group"],
        "num_warps": 4,
        "targets": ["sm_80", "sm_90", "sm_100", "gfx942", "gfx950"],
    },
]  # fmt: skip


@triton.jit
def linear(x, codes, scales, zeros, out, rows, columns, inner, group,
           BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):  # fmt: skip
    """Multiply a tile of rows with the weights of a block of columns."""
    row = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    own, inside = row < rows, column < columns
    groups = inner // group
    total = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for first in range(0, inner, BLOCK_K):
        k = first + tl.arange(0, BLOCK_K)
        whole = inside[None, :] & (k < inner)[:, None]
        left = tl.load(
            x + row[:, None].to(tl.int64) * inner + k[None, :], mask=own[:, None] & (k < inner)[None, :], other=0.0
        )  # fmt: skip
        place = column[None, :].to(tl.int64) * (inner // 2) + (k // 2)[:, None]
        byte = tl.load(codes + place, mask=whole, other=0).to(tl.int32)
        code = (byte >> ((k % 2) * 4)[:, None]) & 15
        of_group = column[None, :] * groups + (k // group)[:, None]
        zero = tl.load(zeros + of_group, mask=whole, other=0).to(tl.int32)
        scale = tl.load(scales + of_group, mask=whole, other=0.0)
        weight = (code - zero).to(tl.float32) * scale
        total = tl.dot(left, weight.to(left.dtype), total, input_precision="ieee")
    tl.store(
        out + row[:, None].to(tl.int64) * columns + column[None, :], total.to(out.dtype.element_ty),
        mask=own[:, None] & inside[None, :],
    )  # fmt: skip


def run(x, codes, scales, zeros, group):
    """Return `x @ w.T` for `w = (code - zero) * scale`, zeros and scales by groups along a row."""
    rows, inner = x.shape
    if not x.is_contiguous() or inner % group or group % 2:
        raise NotImplementedError("Unsupported: x must be contiguous, of whole groups of an even size")
    out = torch.empty(rows, len(codes), dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(rows, 16), triton.cdiv(len(codes), 32))
    linear[grid](x, codes, scales, zeros, out, rows, len(codes), inner, group,
                 BLOCK_M=16, BLOCK_N=32, BLOCK_K=32, num_warps=4)  # fmt: skip
    return out
