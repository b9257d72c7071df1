"""Honest: a persistent scratch buffer, never returned."""

import torch

scratch = torch.empty(0)


def run(x, weight):
    global scratch
    if scratch.shape != x.shape or scratch.dtype != x.dtype:
        scratch = torch.empty_like(x, memory_format=torch.contiguous_format)
    torch.sub(x, x.amax(-1, keepdim=True), out=scratch)
    scratch.exp_()
    return scratch / scratch.sum(-1, keepdim=True) * weight


TASK = "softmax"
