"""Softmax over short, long and strided axes."""

import torch

import kernelwright as kw

SIZES = [{"rows": 256, "dim": 1024}, {"rows": 512, "dim": 20000}]


@kw.task(x="float32[rows, dim]", workloads=SIZES)
def softmax(x):
    return torch.softmax(x, -1)


@kw.task(x="float32[rows, dim]", workloads=SIZES)
def log_softmax(x):
    return torch.log_softmax(x, -1)


@kw.task(x="float32[rows, dim]", mask="float32[dim]", workloads=SIZES)
def masked_softmax(x, mask):
    return torch.softmax(x * 0.125 + mask, -1)


@kw.task(
    x="float32[batch, classes, side]",
    workloads=[{"batch": 4, "classes": 64, "side": 1024}, {"batch": 16, "classes": 128, "side": 5000}],
)
def softmax_channels(x):
    return torch.softmax(x, 1)
