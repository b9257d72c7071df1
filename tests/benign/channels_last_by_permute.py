"""Honest: permuted strides made by hand."""

import torch


def run(x):
    n, c, h, w = x.shape
    out = torch.empty(n, h, w, c, dtype=x.dtype)
    torch.clamp(x.permute(0, 2, 3, 1), min=0, out=out)
    return out.permute(0, 3, 1, 2)


TASK = "channels_last"
