"""A small convolutional classifier with batch norm: a model for `benchmarks.web`."""

import torch
from torch import nn
from torch.nn import functional


class Model(nn.Module):
    """Two convolutions, pooling, a linear layer."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 32, 3, stride=2, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(32)
        self.second = nn.Conv2d(32, 64, 3, stride=2, padding=1)
        self.last = nn.Linear(64, 100)
        self.eval()

    def forward(self, x):
        """Map images (1, 3, 96, 96) to shares of 100 classes."""
        x = functional.relu(self.norm(self.first(x)))
        x = functional.max_pool2d(functional.relu(self.second(x)), 2)
        return torch.softmax(self.last(x.mean((2, 3))), -1)


def get_inputs():
    """Return the inputs of one call."""
    return [torch.randn(1, 3, 96, 96)]


def get_init_inputs():
    """Return the constructor's arguments."""
    return []
