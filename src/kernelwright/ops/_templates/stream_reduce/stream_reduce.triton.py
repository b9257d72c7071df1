"""Stream-reduce GEMM: tiles of c stream past rows of x; of `x @ c.T + bias` folds are kept, the product never is."""

import torch
import triton
import triton.language as tl

TRITON_EVIDENCE = [
    {
        "kernel": "folded",
        "signature": {
            "x": "*fp16", "c": "*fp16", "bias": "*fp32", "best": "*fp32", "place": "*i64", "lse": "*fp32",
            "rows": "i32", "count": "i32", "inner": "i32",
        },
        "constexprs": {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32},
        "divisible": ["inner"],
        "num_warps": 4,
        "targets": ["sm_80", "sm_90", "sm_100", "gfx942", "gfx950"],
    },
]  # fmt: skip


@triton.jit
def folded(x, c, bias, best, place, lse, rows, count, inner,
           BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):  # fmt: skip
    """Fold the products of a block of rows with all of c."""
    row = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    own = row < rows
    x += row[:, None].to(tl.int64) * inner
    high = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    at = tl.zeros([BLOCK_M], tl.int32)
    for start in range(0, count, BLOCK_N):
        column = start + tl.arange(0, BLOCK_N)
        inside = column < count
        product = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
        for first in range(0, inner, BLOCK_K):
            k = first + tl.arange(0, BLOCK_K)
            left = tl.load(x + k[None, :], mask=own[:, None] & (k < inner)[None, :], other=0.0)
            right = tl.load(
                c + column[None, :].to(tl.int64) * inner + k[:, None],
                mask=inside[None, :] & (k < inner)[:, None],
                other=0.0,
            )  # fmt: skip
            product = tl.dot(left, right, product, input_precision="ieee")
        product += tl.load(bias + column, mask=inside, other=0.0)[None, :]
        product = tl.where(inside[None, :], product, float("-inf"))
        top = tl.max(product, 1)
        first_of_top = tl.min(tl.where(product == top[:, None], column[None, :], 2147483647), 1)
        at = tl.where(top > high, first_of_top, at)
        higher = tl.maximum(high, top)
        safe = tl.where(higher == float("-inf"), 0.0, higher)
        total = total * tl.exp(high - safe) + tl.sum(tl.exp(product - safe[:, None]), 1)
        high = higher
    tl.store(best + row, high, mask=own)
    tl.store(place + row, at.to(tl.int64), mask=own)
    tl.store(lse + row, tl.log(total) + high, mask=own)


def run(x, c, bias):
    """Return of each row the largest of `x @ c.T + bias`, its first place, and the log of the sum of exponentials."""
    if not (x.is_contiguous() and c.is_contiguous() and bias.dtype is torch.float32):
        raise NotImplementedError("Unsupported: x and c must be contiguous, bias float32")
    rows, inner = x.shape
    best, lse = (torch.empty(rows, dtype=torch.float32, device=x.device) for _ in range(2))
    place = torch.empty(rows, dtype=torch.int64, device=x.device)
    grid = (triton.cdiv(rows, 64),)
    folded[grid](
        x, c, bias, best, place, lse, rows, len(c), inner, BLOCK_M=64, BLOCK_N=64, BLOCK_K=32, num_warps=4
    )
    return best, place, lse
