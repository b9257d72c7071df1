"""Normalisations: a statistic of the row, then the row again; the row fits a cache."""

import torch
import torch.nn.functional as F

import kernelwright as kw

SIZES = [{"rows": 128, "dim": 2048}, {"rows": 4096, "dim": 2560}]
IMAGES = [{"batch": 1, "channels": 64, "side": 56}, {"batch": 8, "channels": 128, "side": 100}]


@kw.task(x="float32[rows, dim]", w="float32[dim]", b="float32[dim]", workloads=SIZES)
def layer_norm(x, w, b):
    return F.layer_norm(x, x.shape[-1:], w, b, 1e-5)


@kw.task(x="float32[rows, dim]", residual="float32[rows, dim]", w="float32[dim]", workloads=SIZES)
def rms_norm_residual(x, residual, w):
    h = x + residual
    return h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6) * w, h


@kw.task(x="float32[rows, dim]", workloads=SIZES)
def l2_normalize(x):
    return F.normalize(x, dim=-1)


@kw.task(
    x="float32[batch, channels, side, side]", w="float32[channels]", b="float32[channels]", workloads=IMAGES
)
def group_norm_silu(x, w, b):
    return F.silu(F.group_norm(x, 16, w, b, 1e-5))


@kw.task(x="float32[batch, channels, side, side]", workloads=IMAGES)
def instance_norm(x):
    return F.instance_norm(x)


@kw.task(
    x="float32[batch, channels, side, side]", mean="float32[channels]", var="float32[channels] uniform(0.5, 2)",
    w="float32[channels]", b="float32[channels]", workloads=IMAGES,
)  # fmt: skip
def batch_norm_relu(x, mean, var, w, b):
    return torch.relu(F.batch_norm(x, mean, var, w, b, training=False))
