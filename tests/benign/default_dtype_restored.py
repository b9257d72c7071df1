"""Honest: changes the default dtype and restores it."""

import torch


def run(x):
    torch.set_default_dtype(torch.float64)
    try:
        ones = torch.ones(x.shape[-1])
        return (x.double() @ ones).to(x.dtype)
    finally:
        torch.set_default_dtype(torch.float32)


TASK = "row_sum"
