"""Small models that every test of models can use."""

import textwrap

import pytest

SMALL = """
import torch
from torch import nn


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(16))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(Norm() for _ in range(3))
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(3))

    def forward(self, x, scale: float = 1.0):
        for norm, layer in zip(self.norms, self.layers):
            x = x + layer(norm(x)) * scale
        return x


def build():
    torch.manual_seed(0)
    return Small().eval(), (torch.randn(4, 16),)
"""


@pytest.fixture
def small(tmp_path):
    """The path of a model of three equal layers."""
    return written(tmp_path, "small.py", SMALL)


def written(folder, name, text):
    """Write a file of that text and return its path."""
    path = folder / name
    path.write_text(textwrap.dedent(text))
    return path
