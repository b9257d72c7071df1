"""A separable convolution: one filter a channel, then a product."""

import torch
from torch import nn

BATCH, IN_CHANNELS, OUT_CHANNELS, HEIGHT, WIDTH = 8, 32, 64, 56, 56


class Model(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.depthwise = nn.Conv2d(in_channels, in_channels, 3, padding=1, groups=in_channels)
        self.pointwise = nn.Conv2d(in_channels, out_channels, 1)

    def forward(self, x):
        return torch.relu(self.pointwise(torch.relu(self.depthwise(x))))


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, HEIGHT, WIDTH)]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS]
