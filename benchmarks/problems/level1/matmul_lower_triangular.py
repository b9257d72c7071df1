"""Product of two lower triangular matrices, kept lower triangular."""

import torch
from torch import nn

SIZE = 640


class Model(nn.Module):
    def forward(self, a, b):
        return torch.tril(a @ b)


def get_inputs():
    return [torch.tril(torch.randn(SIZE, SIZE)), torch.tril(torch.randn(SIZE, SIZE))]


def get_init_inputs():
    return []
