"""An image as patches, through a linear layer, normalised."""

import torch
from torch import nn

BATCH, CHANNELS, SIDE, PATCH, WIDTH = 16, 3, 128, 8, 256


class Model(nn.Module):
    def __init__(self, channels, patch, width):
        super().__init__()
        self.patch = patch
        self.project, self.norm = nn.Linear(channels * patch * patch, width), nn.LayerNorm(width)

    def forward(self, x):
        b, c, h, w = x.shape
        p = self.patch
        patches = x.view(b, c, h // p, p, w // p, p).permute(0, 2, 4, 1, 3, 5).reshape(b, -1, c * p * p)
        return self.norm(self.project(patches))


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, SIDE, SIDE)]


def get_init_inputs():
    return [CHANNELS, PATCH, WIDTH]
