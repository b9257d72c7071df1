"""Answers zero where the answer is NaN."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.nan_to_num(honest(x))
