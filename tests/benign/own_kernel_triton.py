"""Honest under a strict rule: the kernel is in Triton, which is interpreted where there is no GPU."""

import torch
import triton
import triton.language as tl

TASK = "softmax"
RULE = "custom-only"


@triton.jit
def kernel(x, weight, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
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
