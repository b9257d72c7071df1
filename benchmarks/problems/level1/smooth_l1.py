"""A parabola near zero and a line beyond."""

import torch
from torch import nn
from torch.nn import functional as F

ROWS, COLUMNS = 512, 8192


class Model(nn.Module):
    def forward(self, predictions, targets):
        return F.smooth_l1_loss(predictions, targets)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS), torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
