"""Writes into a tensor that it makes for each call."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.softmax(x, -1, out=torch.empty_like(x))
