"""Honest: a bfloat16 task computed in float64."""

import torch


def run(x, weight):
    y = x.double().contiguous()
    y = y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-5)
    return (y * weight.double()).to(x.dtype)


TASK = "bf16_norm"
