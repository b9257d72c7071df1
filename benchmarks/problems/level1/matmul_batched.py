"""Many small products at once."""

import torch
from torch import nn

BATCH, ROWS, INNER, COLUMNS = 64, 128, 96, 160


class Model(nn.Module):
    def forward(self, a, b):
        return torch.bmm(a, b)


def get_inputs():
    return [torch.randn(BATCH, ROWS, INNER), torch.randn(BATCH, INNER, COLUMNS)]


def get_init_inputs():
    return []
