import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.weight


rows = 16
dim = 512


def get_inputs():
    return [torch.randn(rows, dim)]


def get_init_inputs():
    return [dim]


NAIVE_SIZES = {"rows": 8, "dim": 65536}
