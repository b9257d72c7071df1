"""A residual block's second half, statistics running."""

import torch
from torch import nn
from torch.nn import functional as F

BATCH, CHANNELS, HEIGHT, WIDTH = 8, 32, 56, 56


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels)
        self.norm.running_mean.normal_()
        self.norm.running_var.uniform_(0.5, 2.0)

    def forward(self, x):
        n, y = self.norm, self.conv(x)
        y = F.batch_norm(y, n.running_mean, n.running_var, n.weight, n.bias, training=False)
        return torch.relu(y + x)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH)]


def get_init_inputs():
    return [CHANNELS]
