"""Answers in place of its input."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        x.copy_(torch.softmax(x, -1))
        return x
