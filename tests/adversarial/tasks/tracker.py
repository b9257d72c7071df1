import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.register_buffer("average", torch.zeros(dim))

    def forward(self, x):
        self.average.lerp_(x.square().mean(0), 0.1)
        return torch.relu(x)


rows = 48
dim = 64


def get_inputs():
    return [torch.randn(rows, dim)]


def get_init_inputs():
    return [dim]


NAIVE_SIZES = {"rows": 8192, "dim": 64}
