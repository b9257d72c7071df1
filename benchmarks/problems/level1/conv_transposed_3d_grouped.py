"""Groups of channels spread over windows of another size in every direction, with one more row at the end."""

import torch
from torch import nn

BATCH, CHANNELS, GROUPS, DEPTH, HEIGHT, WIDTH = 4, 24, 3, 10, 20, 40
WINDOW, STRIDE, PADDING, MORE = (3, 5, 3), (2, 2, 3), (1, 2, 0), (1, 0, 2)


class Model(nn.Module):
    def __init__(self, channels, groups):
        super().__init__()
        self.conv = nn.ConvTranspose3d(channels, channels, WINDOW, STRIDE, PADDING, MORE, groups, bias=False)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, DEPTH, HEIGHT, WIDTH)]


def get_init_inputs():
    return [CHANNELS, GROUPS]
