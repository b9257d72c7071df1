"""Two products of the same rows, one a gate for the other."""

import torch
from torch import nn
from torch.nn import functional as F

ROWS, IN_FEATURES, OUT_FEATURES = 512, 512, 1024


class Model(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.gate = nn.Linear(in_features, out_features, bias=False)
        self.up = nn.Linear(in_features, out_features, bias=False)

    def forward(self, x):
        return F.silu(self.gate(x)) * self.up(x)


def get_inputs():
    return [torch.randn(ROWS, IN_FEATURES)]


def get_init_inputs():
    return [IN_FEATURES, OUT_FEATURES]
