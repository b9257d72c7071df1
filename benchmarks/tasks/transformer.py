"""What a transformer block does between its matrix products: gates and rotary positions."""

import torch
import torch.nn.functional as F

import kernelwright as kw

SIZES = [{"rows": 128, "dim": 1376}, {"rows": 2048, "dim": 2752}]
HEADS = [
    {"batch": 1, "heads": 8, "length": 128, "dim": 64},
    {"batch": 2, "heads": 32, "length": 1024, "dim": 128},
]


@kw.task(gate="float32[rows, dim]", up="float32[rows, dim]", workloads=SIZES)
def swiglu(gate, up):
    return F.silu(gate) * up


@kw.task(gate="float32[rows, dim]", up="float32[rows, dim]", workloads=SIZES)
def geglu(gate, up):
    return F.gelu(gate) * up


@kw.task(x="float32[rows, 2*dim]", workloads=SIZES)
def glu_chunk(x):
    gate, up = x.chunk(2, dim=-1)
    return F.silu(gate) * up


@kw.task(
    x="float32[batch, heads, length, dim]",
    cos="float32[length, dim]",
    sin="float32[length, dim]",
    workloads=HEADS,
)
def rope_half(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-b, a), dim=-1) * sin


@kw.task(
    x="float32[batch, heads, length, dim]", cos="float32[length, dim // 2]", sin="float32[length, dim // 2]",
    workloads=HEADS,
)  # fmt: skip
def rope_interleaved(x, cos, sin):
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2)
