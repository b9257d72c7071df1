"""Honest: batch norm by its own statistics, and the running ones updated in place."""

import torch


def run(x, weight, bias, running_mean, running_var, count):
    variance, mean = torch.var_mean(x, 0)
    biased = variance * ((len(x) - 1) / len(x))
    running_mean.lerp_(mean, 0.1)
    running_var.lerp_(variance, 0.1)
    count.add_(1)
    return (x - mean) * (weight * torch.rsqrt(biased + 1e-5)) + bias


TASK = "batch_norm"
