"""One matrix against the last axis of a tensor with four axes."""

import torch
from torch import nn

BATCH, HEIGHT, WIDTH, INNER, COLUMNS = 8, 32, 32, 128, 192


class Model(nn.Module):
    def forward(self, a, b):
        return torch.einsum("bijl,lk->bijk", a, b)


def get_inputs():
    return [torch.randn(BATCH, HEIGHT, WIDTH, INNER), torch.randn(INNER, COLUMNS)]


def get_init_inputs():
    return []
