"""Reductions over inner, outer and middle axes, and over everything."""

import torch

import kernelwright as kw

SIZES = [{"rows": 512, "dim": 512}, {"rows": 4096, "dim": 3000}]
CUBES = [{"batch": 8, "mid": 128, "dim": 256}, {"batch": 32, "mid": 256, "dim": 1400}]


@kw.task(x="float32[rows, dim]", workloads=SIZES)
def sum_rows(x):
    return x.sum(-1)


@kw.task(x="float32[rows, dim]", workloads=SIZES)
def mean_columns(x):
    return x.mean(0)


@kw.task(x="float32[batch, mid, dim]", workloads=CUBES)
def max_middle(x):
    return x.amax(1)


@kw.task(x="float32[batch, mid, dim]", workloads=CUBES)
def argmax_middle(x):
    return torch.argmax(x, dim=1)


@kw.task(x="float32[rows, dim]", workloads=SIZES)
def argmin_rows(x):
    return torch.argmin(x, dim=-1)


@kw.task(x="float32[rows, dim]", workloads=SIZES)
def variance(x):
    return x.var(-1)


@kw.task(x="float32[rows, dim]", workloads=SIZES)
def norm_all(x):
    return torch.linalg.vector_norm(x)


@kw.task(x="float32[rows, dim]", workloads=SIZES)
def logsumexp_rows(x):
    return torch.logsumexp(x, -1)
