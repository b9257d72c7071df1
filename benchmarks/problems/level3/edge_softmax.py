"""Attention over a graph: a softmax among the edges of each target."""

import torch
from torch import nn
from torch.nn import functional as F

NODES, EDGES, WIDTH = 1024, 8192, 64


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.project = nn.Linear(width, width, bias=False)
        self.left, self.right = nn.Parameter(torch.randn(width)), nn.Parameter(torch.randn(width))

    def forward(self, x, source, target):
        h = self.project(x)
        score = F.leaky_relu((h @ self.left)[source] + (h @ self.right)[target], 0.2)
        top = torch.full_like(h[:, 0], -1e9).scatter_reduce(0, target, score, "amax")
        weight = torch.exp(score - top[target])
        total = torch.zeros_like(top).index_add(0, target, weight)
        messages = h[source] * (weight / total[target]).unsqueeze(1)
        return torch.zeros_like(h).index_add(0, target, messages)


def get_inputs():
    return [torch.randn(NODES, WIDTH), torch.randint(0, NODES, (EDGES,)), torch.randint(0, NODES, (EDGES,))]


def get_init_inputs():
    return [WIDTH]
