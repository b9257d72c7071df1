import torch
import torch.nn as nn


class Model(nn.Module):
    """A parameter of ones and one of zeros, which a kernel must not be able to skip."""

    def __init__(self, width):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(width))
        self.beta = nn.Parameter(torch.zeros(width))

    def forward(self, x, residual):
        return (x - x.mean(-1, keepdim=True)) * self.gamma + self.beta + residual


rows = 16384
width = 4096


def get_inputs():
    return [torch.randn(rows, width), torch.randn(rows, width)]


def get_init_inputs():
    return [width]
