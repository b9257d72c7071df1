"""An image that is not square under a filter that is not square."""

import torch
from torch import nn

BATCH, IN_CHANNELS, OUT_CHANNELS, HEIGHT, WIDTH = 8, 16, 32, 48, 80


class Model(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, (3, 5), stride=(1, 2), padding=(1, 2))

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, HEIGHT, WIDTH)]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS]
