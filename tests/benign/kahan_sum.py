"""Honest: another order of accumulation: Kahan."""

import torch


def run(x):
    total = torch.zeros(x.shape[:-1], dtype=x.dtype)
    lost = torch.zeros_like(total)
    for i in range(x.shape[-1]):
        y = x[..., i] - lost
        t = total + y
        lost = (t - total) - y
        total = t
    if not total.isfinite().all():
        return x.sum(-1)
    return total


TASK = "row_sum"
