import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.first = nn.Linear(dim, dim, bias=False)
        self.register_buffer("mixed", torch.full((dim, dim), 1 / dim))

    def forward(self, x):
        return self.first(x) @ self.mixed.t()


rows = 48
dim = 64


def get_inputs():
    return [torch.randn(rows, dim)]


def get_init_inputs():
    return [dim]


NAIVE_SIZES = {"rows": 128, "dim": 512}
