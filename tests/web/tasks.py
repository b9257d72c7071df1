"""Small tasks that between them reach every kernel for the web and its edges: tails, strides, groups, broadcasts."""

import torch
from torch.nn import functional

import kernelwright as kw


@kw.task(x="float32[m, k]", w="float32[n, k]", b="float32[n]", workloads=[{"m": 13, "k": 21, "n": 30}])
def linear_silu(x, w, b):
    return functional.silu(functional.linear(x, w, b))


@kw.task(a="float32[b, m, k]", c="float32[b, k, n]", workloads=[{"b": 2, "m": 9, "k": 8, "n": 12}])
def products(a, c):
    return (a @ c).transpose(1, 2) @ a


@kw.task(x="float32[n, c, w]", y="float32[c, 1]", workloads=[{"n": 3, "c": 5, "w": 37}])
def chain(x, y):
    z = functional.gelu(x) * torch.tanh(x + 1) - torch.exp(-x.abs()) / (x * x + 2)
    return functional.leaky_relu(z, 0.1) + y.clamp(-0.5, 0.5)


@kw.task(x="float32[n, c, h, w]", workloads=[{"n": 2, "c": 3, "h": 5, "w": 7}])
def reductions(x):
    return x.sum(1), x.mean((2, 3), keepdim=True), x.amax(-1), x.pow(2).mean(-1).sqrt()


@kw.task(x="float32[rows, dim]", w="float32[dim]", b="float32[dim]", workloads=[{"rows": 5, "dim": 45}])
def norms(x, w, b):
    scaled = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w
    return functional.layer_norm(scaled, (x.shape[-1],), w, b), torch.softmax(x, -1), torch.log_softmax(x, -1)


@kw.task(
    x="float32[n, c, h, w]", k="float32[o, c, 3, 3]", g="float32[o, 1, 3, 3]", b="float32[o]",
    workloads=[{"n": 2, "c": 3, "h": 11, "w": 14, "o": 6}],
)  # fmt: skip
def convolutions(x, k, g, b):
    x = functional.relu(functional.conv2d(x, k, b, stride=2, padding=1))
    return functional.conv2d(x, g, padding=2, dilation=2, groups=6)


@kw.task(x="float32[n, c, h, w]", k="float32[c, c, 1, 1]", workloads=[{"n": 1, "c": 6, "h": 12, "w": 13}])
def pools(x, k):
    x = torch.tanh(functional.conv2d(x, k))
    return functional.max_pool2d(x, 3, 2, 1), functional.avg_pool2d(x, 2), functional.max_pool2d(x, 3, 1, 1)


@kw.task(
    q="float32[b, h, s, d]", k="float32[b, h, t, d]", v="float32[b, h, t, d]",
    workloads=[{"b": 1, "h": 2, "s": 10, "t": 13, "d": 8}],
)  # fmt: skip
def attentions(q, k, v):
    plain = functional.scaled_dot_product_attention(q, k, v)
    return plain, functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3)


@kw.task(x="float32[b, s, d]", y="float32[b, s, d]", workloads=[{"b": 2, "s": 6, "d": 10}])
def moved(x, y):
    left, right = x.chunk(2, dim=-1)
    turned = torch.cat((-right, left), dim=-1)
    return turned.permute(2, 0, 1), torch.cat((x[:, 1:], y[:, :1]), 1), x[:, ::2] * y[0, 0].expand(2, 3, 10)


@kw.task(x="float32[rows, dim]", w="float32[dim, dim]", workloads=[{"rows": 4, "dim": 12}])
def twice(x, w):
    return torch.softmax(torch.softmax(x, -1) @ w, -1) @ w


@kw.task(x="float32[rows, dim]", workloads=[{"rows": 4, "dim": 12}])
def sorted_rows(x):
    return torch.sort(x, -1)[0]
