"""Honest: the entry is an object that counts its calls."""

import torch


class Kernel:
    def __init__(self):
        self.calls = 0

    def __call__(self, x, weight):
        self.calls += 1
        return torch.softmax(x, -1) * weight


run = Kernel()

TASK = "softmax"
