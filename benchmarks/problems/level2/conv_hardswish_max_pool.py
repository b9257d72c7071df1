"""An activation and a pooling window."""

import torch
from torch import nn
from torch.nn import functional as F

BATCH, IN_CHANNELS, OUT_CHANNELS, HEIGHT, WIDTH = 8, 16, 32, 64, 64


class Model(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, 3, padding=1)

    def forward(self, x):
        return F.max_pool2d(F.hardswish(self.conv(x) - 0.5), 2)


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, HEIGHT, WIDTH)]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS]
