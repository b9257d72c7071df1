"""Small and skinny products, where a library's fixed costs and a second pass for the epilogue show."""

import torch
import torch.nn.functional as F

import kernelwright as kw


@kw.task(
    w="float32[rows, dim]",
    x="float32[dim]",
    workloads=[{"rows": 512, "dim": 512}, {"rows": 3000, "dim": 4096}],
)
def matvec(w, x):
    return w @ x


@kw.task(
    x="float32[batch, inner]", w="float32[outer, inner]", b="float32[outer]",
    workloads=[{"batch": 4, "inner": 512, "outer": 512}, {"batch": 4, "inner": 4096, "outer": 3000}],
)  # fmt: skip
def skinny_linear_gelu(x, w, b):
    return F.gelu(F.linear(x, w, b))


@kw.task(
    x="float32[batch, size, size]", y="float32[batch, size, size]",
    workloads=[{"batch": 64, "size": 16}, {"batch": 8192, "size": 24}],
)  # fmt: skip
def small_batched(x, y):
    return torch.bmm(x, y)
