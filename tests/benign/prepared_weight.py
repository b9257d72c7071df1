"""Honest: transposes the weight in `prepare`, which is called again where the weight changes."""

import torch


def prepare(weights):
    weight, bias = weights.values()
    return weight.t().contiguous(), bias


def run(x, packed):
    return torch.addmm(packed[1], x, packed[0])


TASK = "linear"
