"""Averages of boxes, the padding counted."""

import torch
from torch import nn
from torch.nn import functional as F

BATCH, CHANNELS, DEPTH, HEIGHT, WIDTH = 4, 32, 16, 40, 40


class Model(nn.Module):
    def forward(self, x):
        return F.avg_pool3d(x, kernel_size=3, stride=2, padding=1)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, DEPTH, HEIGHT, WIDTH)]


def get_init_inputs():
    return []
