"""A state that decays by an input-dependent rate, in the form of prefix sums over a chunk."""

import torch
from torch import nn
from torch.nn import functional as F

BATCH, LENGTH, WIDTH = 4, 512, 128


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.rate, self.gate = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x):
        decay = torch.cumsum(-0.01 * F.softplus(self.rate(x)), dim=1)
        state = torch.exp(decay) * torch.cumsum(torch.exp(-decay) * x, dim=1)
        return state * F.silu(self.gate(x))


def get_inputs():
    return [torch.randn(BATCH, LENGTH, WIDTH)]


def get_init_inputs():
    return [WIDTH]
