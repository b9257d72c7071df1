"""Honest: a module that packs its weight, following loads and in-place changes."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, size_in, size_out):
        super().__init__()
        self.linear = nn.Linear(size_in, size_out)
        self.version, self.packed = None, None

    def forward(self, x):
        weight = self.linear.weight
        if self.version != (weight.data_ptr(), weight._version):
            self.version, self.packed = (weight.data_ptr(), weight._version), weight.t().contiguous()
        return torch.addmm(self.linear.bias, x, self.packed)


TASK = "linear"
