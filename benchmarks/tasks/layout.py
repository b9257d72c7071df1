"""Copies that change the order of the axes."""

import kernelwright as kw


@kw.task(x="float32[rows, dim]", workloads=[{"rows": 512, "dim": 512}, {"rows": 3000, "dim": 3500}])
def transpose(x):
    return x.t().contiguous()


@kw.task(
    x="float32[batch, channels, side, side]",
    workloads=[{"batch": 1, "channels": 64, "side": 64}, {"batch": 8, "channels": 96, "side": 112}],
)
def to_channels_last(x):
    return x.permute(0, 2, 3, 1).contiguous()
