"""A volume spread out, another added, and an activation times its input."""

import torch
from torch import nn
from torch.nn import functional as F

BATCH, IN_CHANNELS, OUT_CHANNELS, DEPTH, HEIGHT, WIDTH = 2, 16, 16, 16, 32, 32


class Model(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.conv = nn.ConvTranspose3d(in_channels, out_channels, 2, stride=2)

    def forward(self, x, other):
        y = self.conv(x) + other
        return y * F.hardswish(y)


def get_inputs():
    return [
        torch.randn(BATCH, IN_CHANNELS, DEPTH, HEIGHT, WIDTH),
        torch.randn(BATCH, OUT_CHANNELS, 2 * DEPTH, 2 * HEIGHT, 2 * WIDTH),
    ]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS]
