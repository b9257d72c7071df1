"""Honest: both outputs lie in one new buffer."""

import torch


def run(x):
    both = torch.empty(2, *x.shape[:-1], dtype=x.dtype)
    torch.mean(x, -1, out=both[0])
    both[1] = x.var(-1)
    return both[0], both[1]


TASK = "moments"
