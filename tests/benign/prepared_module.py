"""Honest: a module that transposes its weight in `prepare` and keeps nothing else."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, size_in, size_out):
        super().__init__()
        self.linear = nn.Linear(size_in, size_out)

    def prepare(self):
        self.packed = self.linear.weight.t().contiguous()

    def forward(self, x):
        return torch.addmm(self.linear.bias, x, self.packed)


TASK = "linear"
