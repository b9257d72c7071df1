"""Two distances a row, and by how much one exceeds the other."""

import torch
from torch import nn

ROWS, COLUMNS = 1024, 4096


class Model(nn.Module):
    def __init__(self, margin):
        super().__init__()
        self.loss = nn.TripletMarginLoss(margin)

    def forward(self, anchor, near, far):
        return self.loss(anchor, near, far)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS) for _ in range(3)]


def get_init_inputs():
    return [0.5]
