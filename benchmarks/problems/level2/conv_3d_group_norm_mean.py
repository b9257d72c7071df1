"""Normalised volumes, averaged away except for what the affine part adds."""

import torch
from torch import nn
from torch.nn import functional as F

BATCH, IN_CHANNELS, OUT_CHANNELS, GROUPS, DEPTH, HEIGHT, WIDTH = 4, 3, 24, 8, 16, 24, 24


class Model(nn.Module):
    def __init__(self, in_channels, out_channels, groups):
        super().__init__()
        self.conv = nn.Conv3d(in_channels, out_channels, 3)
        self.norm = nn.GroupNorm(groups, out_channels)

    def forward(self, x):
        return F.hardtanh(self.norm(self.conv(x)), 0.0, 1.0).mean(dim=(1, 2, 3, 4))


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, DEPTH, HEIGHT, WIDTH)]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS, GROUPS]
