"""Scans: each element needs those before it; the rows are independent."""

import torch

import kernelwright as kw

SIZES = [{"rows": 128, "dim": 2000}, {"rows": 2048, "dim": 5000}]


@kw.task(x="float32[rows, dim]", workloads=SIZES)
def cumsum(x):
    return torch.cumsum(x, 1)


@kw.task(x="float32[rows, dim] uniform(0.9, 1.1)", workloads=SIZES)
def cumprod(x):
    return torch.cumprod(x, 1)


@kw.task(x="float32[rows, dim]", workloads=SIZES)
def reverse_cumsum(x):
    return torch.cumsum(x.flip(1), 1).flip(1)


@kw.task(x="float32[rows, dim]", mask="bool[rows, dim] bernoulli(0.5)", workloads=SIZES)
def masked_cumsum(x, mask):
    return torch.cumsum(x * mask, 1)
