"""Elementwise and broadcast chains: read once, write once; nothing to reuse."""

import torch
import torch.nn.functional as F

import kernelwright as kw

SIZES = [{"rows": 256, "dim": 1024}, {"rows": 8192, "dim": 1280}]


@kw.task(x="float32[rows, dim]", bias="float32[dim]", workloads=SIZES)
def gelu_bias(x, bias):
    return F.gelu(x + bias)


@kw.task(x="float32[rows, dim]", y="float32[rows, dim]", workloads=SIZES)
def add_relu(x, y):
    return torch.relu(x + y)


@kw.task(x="float32[rows, dim]", y="float32[rows, dim]", workloads=SIZES)
def sigmoid_gate(x, y):
    return x * torch.sigmoid(y)


@kw.task(x="float32[rows, dim]", workloads=SIZES)
def mish(x):
    return F.mish(x)


@kw.task(x="float32[rows, dim]", workloads=SIZES)
def hardswish(x):
    return F.hardswish(x)


@kw.task(x="float32[rows, dim]", y="float32[rows, dim]", gamma="float32[dim]", workloads=SIZES)
def layer_scale(x, y, gamma):
    return x + gamma * y


@kw.task(x="float32[rows, dim]", scale="float32[rows, 1]", shift="float32[1, dim]", workloads=SIZES)
def scale_shift_clamp(x, scale, shift):
    return torch.clamp(x * scale + shift, -1.0, 1.0)


@kw.task(x="float32[rows, dim]", workloads=SIZES)
def softsign_square(x):
    y = x / (1 + x.abs())
    return y * y
