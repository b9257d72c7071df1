"""Three passes over long rows, or one and a half."""

import torch
from torch import nn

ROWS, COLUMNS = 256, 16384


class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
