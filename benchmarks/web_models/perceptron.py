"""Two linear layers around GELU, on 64 tokens: a model for `benchmarks.web`."""

import torch
from torch import nn
from torch.nn import functional


class Model(nn.Module):
    """Two linear layers around GELU."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(256, 1024), nn.Linear(1024, 256)

    def forward(self, x):
        """Map (64, 256) to (64, 256)."""
        return self.down(functional.gelu(self.up(x)))


def get_inputs():
    """Return the inputs of one call."""
    return [torch.randn(64, 256)]


def get_init_inputs():
    """Return the constructor's arguments."""
    return []
