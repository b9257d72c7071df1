"""Operators of common models at sizes of a browser, as tasks for `benchmarks.web`."""

import torch
from torch.nn import functional

import kernelwright as kw


@kw.task(a="float32[m, k]", b="float32[k, n]", workloads=[{"m": 256, "k": 256, "n": 256}])
def matmul(a, b):
    return a @ b


@kw.task(
    a="float32[batch, m, k]", b="float32[batch, k, n]", workloads=[{"batch": 8, "m": 96, "k": 64, "n": 128}]
)
def batched_matmul(a, b):
    return torch.bmm(a, b)


@kw.task(
    x="float32[rows, dim]", w="float32[out, dim]", b="float32[out]",
    workloads=[{"rows": 64, "dim": 256, "out": 512}],
)  # fmt: skip
def linear_gelu(x, w, b):
    return functional.gelu(functional.linear(x, w, b))


@kw.task(x="float32[rows, dim]", workloads=[{"rows": 256, "dim": 1024}])
def softmax(x):
    return torch.softmax(x, dim=-1)


@kw.task(x="float32[rows, dim]", workloads=[{"rows": 256, "dim": 1000}])
def log_softmax(x):
    return torch.log_softmax(x, dim=-1)


@kw.task(x="float32[rows, dim]", w="float32[dim]", b="float32[dim]", workloads=[{"rows": 256, "dim": 768}])
def layer_norm(x, w, b):
    return functional.layer_norm(x, (x.shape[-1],), w, b)


@kw.task(x="float32[rows, dim]", w="float32[dim]", workloads=[{"rows": 256, "dim": 768}])
def rms_norm(x, w):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w


@kw.task(x="float32[rows, dim]", workloads=[{"rows": 256, "dim": 1024}])
def gelu(x):
    return functional.gelu(x)


@kw.task(gate="float32[rows, dim]", up="float32[rows, dim]", workloads=[{"rows": 256, "dim": 1024}])
def swiglu(gate, up):
    return functional.silu(gate) * up


@kw.task(
    x="float32[rows, dim]", y="float32[rows, dim]", b="float32[dim]", workloads=[{"rows": 256, "dim": 1024}]
)
def bias_tanh_residual(x, y, b):
    return torch.tanh(x + b) * 0.5 + y


@kw.task(x="float32[rows, dim]", workloads=[{"rows": 512, "dim": 1024}])
def row_mean(x):
    return x.mean(-1)


@kw.task(
    x="float32[n, c, h, w]", k="float32[o, c, 3, 3]", b="float32[o]",
    workloads=[{"n": 1, "c": 32, "h": 56, "w": 56, "o": 32}],
)  # fmt: skip
def conv3x3_relu(x, k, b):
    return functional.relu(functional.conv2d(x, k, b, padding=1))


@kw.task(
    x="float32[n, c, h, w]", k="float32[o, c, 1, 1]", b="float32[o]",
    workloads=[{"n": 1, "c": 64, "h": 28, "w": 28, "o": 128}],
)  # fmt: skip
def conv1x1(x, k, b):
    return functional.conv2d(x, k, b)


@kw.task(x="float32[n, c, h, w]", k="float32[c, 1, 3, 3]", workloads=[{"n": 1, "c": 64, "h": 56, "w": 56}])
def depthwise_conv(x, k):
    return functional.conv2d(x, k, padding=1, groups=x.shape[1])


@kw.task(x="float32[n, c, h, w]", workloads=[{"n": 1, "c": 64, "h": 112, "w": 112}])
def max_pool(x):
    return functional.max_pool2d(x, 3, 2, 1)


@kw.task(x="float32[n, c, h, w]", workloads=[{"n": 1, "c": 64, "h": 56, "w": 56}])
def average_pool(x):
    return functional.avg_pool2d(x, 2)


@kw.task(
    q="float32[b, h, s, d]", k="float32[b, h, s, d]", v="float32[b, h, s, d]",
    workloads=[{"b": 1, "h": 4, "s": 128, "d": 64}],
)  # fmt: skip
def attention(q, k, v):
    return functional.scaled_dot_product_attention(q, k, v)
