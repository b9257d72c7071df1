"""A linear layer as a task, and a right candidate for it."""

LAYER = """
import torch
import torch.nn as nn

rows, width = 16, 32

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(width, width)

    def forward(self, x):
        return torch.relu(self.mix(x))

def get_inputs():
    return [torch.randn(rows, width)]

def get_init_inputs():
    return []
"""

LINEAR = "def run(x, w, b):\n    return torch.relu(torch.nn.functional.linear(x, w, b))\n"
