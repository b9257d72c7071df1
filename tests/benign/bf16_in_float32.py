"""Honest: a bfloat16 task computed in float32."""

import torch


def run(x, weight):
    y = x.float().contiguous()
    y = y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-5)
    return (y * weight.float()).to(x.dtype)


TASK = "bf16_norm"
