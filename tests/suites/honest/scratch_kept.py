"""Keeps scratch space between calls, and returns a new tensor."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.scratch = None

    def forward(self, x):
        if self.scratch is None or self.scratch.shape != x.shape:
            self.scratch = torch.empty_like(x)
        torch.sub(x, x.max(-1, keepdim=True).values, out=self.scratch)
        self.scratch.exp_()
        return self.scratch / self.scratch.sum(-1, keepdim=True)
