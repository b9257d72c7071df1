"""The reduced axis lies between two others."""

import torch
from torch import nn

BATCH, LENGTH, FEATURES = 64, 256, 256


class Model(nn.Module):
    def forward(self, x):
        return x.sum(dim=1, keepdim=True)


def get_inputs():
    return [torch.randn(BATCH, LENGTH, FEATURES)]


def get_init_inputs():
    return []
