"""Statistics over groups of channels."""

import torch
from torch import nn

BATCH, CHANNELS, GROUPS, LENGTH = 16, 64, 8, 4096


class Model(nn.Module):
    def __init__(self, groups, channels):
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, LENGTH)]


def get_init_inputs():
    return [GROUPS, CHANNELS]
