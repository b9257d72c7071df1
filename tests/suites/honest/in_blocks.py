"""Maximum and sum by blocks of columns, as an online softmax has them."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        most = torch.full_like(x[:, :1], -float("inf"))
        total = torch.zeros_like(most)
        for block in x.split(512, dim=1):
            now = torch.maximum(most, block.max(-1, keepdim=True).values)
            total = total * torch.exp(most - now) + torch.exp(block - now).sum(-1, keepdim=True)
            most = now
        return torch.exp(x - most) / total
