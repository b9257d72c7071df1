"""Pooling windows: every input is read by a few outputs."""

import torch.nn.functional as F

import kernelwright as kw

IMAGES = [{"batch": 1, "channels": 32, "side": 64}, {"batch": 8, "channels": 64, "side": 150}]
LINES = [{"batch": 4, "channels": 32, "length": 1024}, {"batch": 32, "channels": 64, "length": 5000}]


@kw.task(x="float32[batch, channels, side, side]", workloads=IMAGES)
def max_pool_2d(x):
    return F.max_pool2d(x, 3, stride=2, padding=1)


@kw.task(x="float32[batch, channels, side, side]", workloads=IMAGES)
def avg_pool_2d(x):
    return F.avg_pool2d(x, 3, stride=1, padding=1)


@kw.task(x="float32[batch, channels, side, side]", workloads=IMAGES)
def global_avg_pool(x):
    return F.adaptive_avg_pool2d(x, 1)


@kw.task(x="float32[batch, channels, length]", workloads=LINES)
def max_pool_1d(x):
    return F.max_pool1d(x, 4, stride=2)


@kw.task(x="float32[batch, channels, length]", workloads=LINES)
def avg_pool_1d(x):
    return F.avg_pool1d(x, 4, stride=2, padding=1)
