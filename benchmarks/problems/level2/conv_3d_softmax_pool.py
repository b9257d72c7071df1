"""Channels through softmax, then the largest of each box."""

import torch
from torch import nn
from torch.nn import functional as F

BATCH, IN_CHANNELS, OUT_CHANNELS, DEPTH, HEIGHT, WIDTH = 4, 3, 16, 16, 32, 32


class Model(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.conv = nn.Conv3d(in_channels, out_channels, 3, padding=1)

    def forward(self, x):
        return F.max_pool3d(torch.softmax(self.conv(x), dim=1), 2)


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, DEPTH, HEIGHT, WIDTH)]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS]
