"""A few steps of a gated unit, unrolled."""

import torch
from torch import nn

BATCH, STEPS, IN_FEATURES, HIDDEN = 64, 6, 128, 256


class Model(nn.Module):
    def __init__(self, in_features, hidden):
        super().__init__()
        self.cell = nn.GRUCell(in_features, hidden)

    def forward(self, x, h):
        for step in range(x.shape[1]):
            h = self.cell(x[:, step], h)
        return h


def get_inputs():
    return [torch.randn(BATCH, STEPS, IN_FEATURES), torch.randn(BATCH, HIDDEN)]


def get_init_inputs():
    return [IN_FEATURES, HIDDEN]
