"""Every row to length one."""

import torch
from torch import nn
from torch.nn import functional as F

ROWS, FEATURES = 2048, 2048


class Model(nn.Module):
    def forward(self, x):
        return F.normalize(x, dim=-1)


def get_inputs():
    return [torch.randn(ROWS, FEATURES)]


def get_init_inputs():
    return []
