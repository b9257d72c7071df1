"""Two square matrices: bound by arithmetic."""

import torch
from torch import nn

SIZE = 768


class Model(nn.Module):
    def forward(self, a, b):
        return a @ b


def get_inputs():
    return [torch.randn(SIZE, SIZE), torch.randn(SIZE, SIZE)]


def get_init_inputs():
    return []
