import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.least = 1.0

    def forward(self, x, mask):
        return (x * mask).sum() / mask.sum().clamp(min=self.least)


rows = 256
dim = 1024


def get_inputs():
    return [torch.rand(rows, dim), torch.ones(rows, dim)]


def get_init_inputs():
    return []


NAIVE_SIZES = {"rows": 256, "dim": 2048}
