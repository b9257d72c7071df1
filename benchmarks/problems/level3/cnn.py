"""Two convolutions with pooling, then two linear layers."""

import torch
from torch import nn
from torch.nn import functional as F

BATCH, CLASSES = 64, 10


class Model(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 6, 5), nn.Conv2d(6, 16, 5)
        self.hidden, self.last = nn.Linear(16 * 5 * 5, 120), nn.Linear(120, classes)

    def forward(self, x):
        y = F.max_pool2d(torch.relu(self.first(x)), 2)
        y = F.max_pool2d(torch.relu(self.second(y)), 2)
        return self.last(torch.relu(self.hidden(y.flatten(1))))


def get_inputs():
    return [torch.randn(BATCH, 1, 32, 32)]


def get_init_inputs():
    return [CLASSES]
