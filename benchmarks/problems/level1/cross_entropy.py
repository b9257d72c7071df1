"""A log-sum-exp of each row, less the entry at its label."""

import torch
from torch import nn
from torch.nn import functional as F

ROWS, CLASSES = 4096, 1024


class Model(nn.Module):
    def forward(self, logits, labels):
        return F.cross_entropy(logits, labels)


def get_inputs():
    return [torch.randn(ROWS, CLASSES), torch.randint(0, CLASSES, (ROWS,))]


def get_init_inputs():
    return []
