"""Honest: special branch for zero-size tensors."""

import torch


def run(x):
    if 0 in x.shape:
        return torch.zeros(x.shape[:-1], dtype=x.dtype)
    return torch.einsum("...i->...", x)


TASK = "row_sum"
