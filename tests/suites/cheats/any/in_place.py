"""Answers in place of its input."""

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        x.copy_(honest(x))
        return x
