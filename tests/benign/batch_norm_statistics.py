"""Honest: batch norm by its own statistics, taken in float64, and the running ones updated in place."""

import torch


def run(x, weight, bias, running_mean, running_var, count):
    wide = x.double()
    variance, mean = torch.var_mean(wide, 0)
    biased = variance * ((len(x) - 1) / len(x))
    running_mean.lerp_(mean.float(), 0.1)
    running_var.lerp_(variance.float(), 0.1)
    count.add_(1)
    return ((wide - mean) * torch.rsqrt(biased + 1e-5) * weight + bias).float()


TASK = "batch_norm"
