"""Convolution, group norm, SiLU."""

import torch
from torch import nn
from torch.nn import functional as F

BATCH, IN_CHANNELS, OUT_CHANNELS, GROUPS, HEIGHT, WIDTH = 8, 16, 32, 4, 56, 56


class Model(nn.Module):
    def __init__(self, in_channels, out_channels, groups):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, 3, padding=1)
        self.norm = nn.GroupNorm(groups, out_channels)

    def forward(self, x):
        return F.silu(self.norm(self.conv(x)))


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, HEIGHT, WIDTH)]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS, GROUPS]
