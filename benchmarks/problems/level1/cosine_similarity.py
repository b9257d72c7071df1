"""Three sums of products a row, in one pass."""

import torch
from torch import nn
from torch.nn import functional as F

ROWS, COLUMNS = 1024, 4096


class Model(nn.Module):
    def forward(self, a, b):
        return F.cosine_similarity(a, b, dim=1)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS), torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
