"""Widen, filter each channel, weigh the channels by their means, narrow, add."""

import torch
from torch import nn
from torch.nn import functional as F

BATCH, CHANNELS, HEIGHT, WIDTH = 8, 16, 56, 56


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        wide = 4 * channels
        self.widen, self.narrow = nn.Conv2d(channels, wide, 1), nn.Conv2d(wide, channels, 1)
        self.depthwise = nn.Conv2d(wide, wide, 3, padding=1, groups=wide)
        self.squeeze, self.excite = nn.Linear(wide, channels), nn.Linear(channels, wide)

    def forward(self, x):
        y = F.relu6(self.depthwise(F.relu6(self.widen(x))))
        weights = torch.sigmoid(self.excite(torch.relu(self.squeeze(y.mean(dim=(2, 3))))))
        return x + self.narrow(y * weights[:, :, None, None])


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH)]


def get_init_inputs():
    return [CHANNELS]
