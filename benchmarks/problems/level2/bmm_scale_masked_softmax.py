"""Scores of attention under a causal mask."""

import torch
from torch import nn

BATCH, LENGTH, WIDTH = 32, 256, 64


class Model(nn.Module):
    def forward(self, q, k):
        scores = torch.bmm(q, k.transpose(1, 2)) / WIDTH**0.5
        later = torch.ones(q.shape[1], k.shape[1], dtype=torch.bool, device=q.device).triu(1)
        return torch.softmax(scores.masked_fill(later, float("-inf")), dim=-1)


def get_inputs():
    return [torch.randn(BATCH, LENGTH, WIDTH), torch.randn(BATCH, LENGTH, WIDTH)]


def get_init_inputs():
    return []
