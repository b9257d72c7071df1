"""Honest: packs the weight and compares the whole of it before each use."""

import torch

seen, packed = None, None


def run(x, weight, bias):
    global seen, packed
    if seen is None or not torch.equal(seen, weight):
        seen, packed = weight.clone(), weight.t().contiguous()
    return torch.addmm(bias, x, packed)


TASK = "linear"
