"""Honest: another order of accumulation: pairwise."""

import torch


def run(x):
    while x.shape[-1] > 1:
        if x.shape[-1] % 2:
            x = torch.nn.functional.pad(x, (0, 1))
        x = x[..., ::2] + x[..., 1::2]
    return x.sum(-1)


TASK = "row_sum"
