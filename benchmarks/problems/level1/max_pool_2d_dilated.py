"""Windows with holes."""

import torch
from torch import nn
from torch.nn import functional as F

BATCH, CHANNELS, HEIGHT, WIDTH = 8, 64, 96, 96


class Model(nn.Module):
    def forward(self, x):
        return F.max_pool2d(x, kernel_size=3, stride=1, padding=1, dilation=2)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH)]


def get_init_inputs():
    return []
