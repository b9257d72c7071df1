"""Scores through ReLU in the place of softmax: no row needs its maximum."""

import torch
from torch import nn

BATCH, HEADS, LENGTH, WIDTH = 4, 4, 256, 64


class Model(nn.Module):
    def forward(self, q, k, v):
        return torch.relu(q @ k.transpose(-1, -2) * WIDTH**-0.5) @ v / LENGTH


def get_inputs():
    return [
        torch.randn(BATCH, HEADS, LENGTH, WIDTH),
        torch.randn(BATCH, HEADS, LENGTH, WIDTH),
        torch.randn(BATCH, HEADS, LENGTH, WIDTH),
    ]


def get_init_inputs():
    return []
