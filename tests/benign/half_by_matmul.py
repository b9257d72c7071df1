"""Honest: a mean by a matrix product, in float32."""

import torch


def run(x):
    return (x.float() @ torch.full((x.shape[-1],), 1 / x.shape[-1])).half()


TASK = "half_sum"
