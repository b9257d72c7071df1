"""A chain of five steps after a transposed convolution."""

import torch
from torch import nn

BATCH, IN_CHANNELS, OUT_CHANNELS, HEIGHT, WIDTH = 8, 32, 16, 32, 32


class Model(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.conv = nn.ConvTranspose2d(in_channels, out_channels, 3, stride=2, padding=1, output_padding=1)
        self.bias = nn.Parameter(torch.randn(out_channels, 1, 1))

    def forward(self, x):
        y = torch.clamp(self.conv(x) + self.bias, 0.0, 1.0) * 2.0
        return torch.clamp(y, 0.0, 1.0) / 2.0


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, HEIGHT, WIDTH)]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS]
