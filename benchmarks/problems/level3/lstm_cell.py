"""One step of four gates."""

import torch
from torch import nn

BATCH, IN_FEATURES, HIDDEN = 128, 256, 512


class Model(nn.Module):
    def __init__(self, in_features, hidden):
        super().__init__()
        self.x, self.h = nn.Linear(in_features, 4 * hidden), nn.Linear(hidden, 4 * hidden)

    def forward(self, x, h, c):
        i, f, g, o = (self.x(x) + self.h(h)).chunk(4, dim=1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c


def get_inputs():
    return [torch.randn(BATCH, IN_FEATURES), torch.randn(BATCH, HIDDEN), torch.randn(BATCH, HIDDEN)]


def get_init_inputs():
    return [IN_FEATURES, HIDDEN]
