"""Messages by kind of edge, gathered from sources and summed at targets."""

import torch
from torch import nn

NODES, EDGES, KINDS, WIDTH = 1024, 8192, 4, 64


class Model(nn.Module):
    def __init__(self, kinds, width):
        super().__init__()
        self.typed = nn.Parameter(torch.randn(kinds, width, width) * width**-0.5)
        self.own = nn.Linear(width, width)

    def forward(self, x, source, target, kind):
        messages = torch.einsum("nd,kde->kne", x, self.typed)[kind, source]
        total = torch.zeros_like(x).index_add(0, target, messages)
        count = torch.zeros(x.shape[0], device=x.device, dtype=x.dtype).index_add(
            0, target, torch.ones_like(messages[:, 0])
        )
        return torch.relu(self.own(x) + total / count.clamp(min=1.0).unsqueeze(1))


def get_inputs():
    return [
        torch.randn(NODES, WIDTH),
        torch.randint(0, NODES, (EDGES,)),
        torch.randint(0, NODES, (EDGES,)),
        torch.randint(0, KINDS, (EDGES,)),
    ]


def get_init_inputs():
    return [KINDS, WIDTH]
