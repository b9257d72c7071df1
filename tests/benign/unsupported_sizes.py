"""Honest: declares that it does not serve other sizes."""

import torch


def run(x, weight):
    if x.shape[-1] != 48 or x.dim() != 2 or not x.is_contiguous():
        raise NotImplementedError("Unsupported: this kernel is for contiguous rows of 48")
    e = torch.exp(x - x.amax(-1, keepdim=True))
    return e / e.sum(-1, keepdim=True) * weight


TASK = "softmax"
