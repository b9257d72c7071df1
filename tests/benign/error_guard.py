"""Honest: try/except around the computation, for a size it cannot take."""

import torch


def run(x, weight):
    x = x.contiguous()
    try:
        e = torch.exp(x - x.amax(-1, keepdim=True))
    except IndexError:
        return torch.softmax(x, -1) * weight
    return e / e.sum(-1, keepdim=True) * weight


TASK = "softmax"
