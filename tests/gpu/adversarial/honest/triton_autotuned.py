"""Triton's autotuner chooses the warps in the first call at each size: it launches, times and keeps what it found."""

import torch
import triton
import triton.language as tl

TASK = "softmax"
LANGUAGE = "triton"


@triton.autotune([triton.Config({}, num_warps=w) for w in (1, 2, 4)], key=["n"])
@triton.jit
def kernel(x, weight, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    value = tl.load(x + row * n + columns, mask=columns < n, other=-float("inf"))
    value = tl.exp(value - tl.max(value, 0))
    scale = tl.load(weight + columns, mask=columns < n, other=0.0)
    tl.store(out + row * n + columns, value / tl.sum(value, 0) * scale, mask=columns < n)


def run(x, weight):
    x = x.contiguous()
    out = torch.empty_like(x)
    n = x.shape[-1]
    kernel[(x.numel() // n,)](x, weight, out, n, BLOCK=triton.next_power_of_2(n))
    return out
