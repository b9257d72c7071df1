"""A call for each row."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.stack([torch.softmax(row, 0) for row in x])
