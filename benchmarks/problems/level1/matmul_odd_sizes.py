"""No size is a multiple of anything useful: every tile has a tail."""

import torch
from torch import nn

ROWS, INNER, COLUMNS = 331, 523, 419


class Model(nn.Module):
    def forward(self, a, b):
        return torch.matmul(a, b)


def get_inputs():
    return [torch.randn(ROWS, INNER), torch.randn(INNER, COLUMNS)]


def get_init_inputs():
    return []
