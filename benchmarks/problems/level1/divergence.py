"""Two distributions a row, and one number that says how far they are apart."""

import torch
from torch import nn
from torch.nn import functional as F

ROWS, CLASSES = 1024, 4096


class Model(nn.Module):
    def forward(self, guessed, wanted):
        return F.kl_div(guessed.log(), wanted, reduction="batchmean")


def get_inputs():
    return [torch.rand(ROWS, CLASSES).softmax(-1), torch.rand(ROWS, CLASSES).softmax(-1)]


def get_init_inputs():
    return []
