"""Mean and variance of each row, then a scale and a shift."""

import torch
from torch import nn

ROWS, FEATURES = 2048, 2048


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.randn(ROWS, FEATURES)]


def get_init_inputs():
    return [FEATURES]
