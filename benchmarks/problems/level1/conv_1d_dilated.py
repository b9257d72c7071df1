"""A line under a filter with holes and a stride."""

import torch
from torch import nn

BATCH, IN_CHANNELS, OUT_CHANNELS, LENGTH = 8, 32, 64, 2048


class Model(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.conv = nn.Conv1d(in_channels, out_channels, 3, stride=2, dilation=3)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, LENGTH)]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS]
