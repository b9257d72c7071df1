"""Honest: a prefix sum by a triangular matrix product, in float64."""

import torch


def run(x):
    if not x.isfinite().all():
        return torch.cumsum(x, -1)
    n = x.shape[-1]
    return (x.double() @ torch.ones(n, n, dtype=torch.float64).triu()).float()


TASK = "cumsum"
