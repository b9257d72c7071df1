"""Honest: looks at the values to choose between two right algorithms."""

import torch


def run(x):
    if x.numel() and (x == 0).float().mean() > 0.9:
        out = torch.zeros(x.shape, dtype=x.dtype)
        out[x > 0] = x[x > 0]
        out[x.isnan()] = float("nan")
        return out
    return torch.relu(x)


TASK = "relu"
