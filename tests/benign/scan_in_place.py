"""Honest: a doubling scan in a buffer of its own."""

import torch


def run(x):
    out, step = x.clone(memory_format=torch.contiguous_format), 1
    while step < x.shape[-1]:
        before = out.clone()
        out[..., step:] += before[..., :-step]
        step *= 2
    return out


TASK = "cumsum"
