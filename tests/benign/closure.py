"""Honest: the entry is a closure over a configuration."""

import torch


def make(axis):
    def kernel(x, weight):
        return torch.softmax(x, axis) * weight

    return kernel


run = make(-1)

TASK = "softmax"
