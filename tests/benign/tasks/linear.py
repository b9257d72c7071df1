import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, size_in, size_out):
        super().__init__()
        self.linear = nn.Linear(size_in, size_out)

    def forward(self, x):
        return self.linear(x)


rows = 24
size_in = 32
size_out = 40


def get_inputs():
    return [torch.randn(rows, size_in)]


def get_init_inputs():
    return [size_in, size_out]
