import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.mix = nn.Linear(dim, dim, bias=False)
        nn.init.eye_(self.mix.weight)

    def forward(self, x):
        return self.mix(x)


rows = 48
dim = 64


def get_inputs():
    return [torch.randn(rows, dim)]


def get_init_inputs():
    return [dim]


NAIVE_SIZES = {"rows": 128, "dim": 256}
