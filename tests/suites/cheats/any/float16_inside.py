"""Computes in half precision."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return honest(x.to(torch.bfloat16)).float()
