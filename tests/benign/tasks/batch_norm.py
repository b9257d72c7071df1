import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.BatchNorm1d(channels)

    def forward(self, x):
        return self.norm(x)


rows = 24
channels = 32


def get_inputs():
    return [torch.randn(rows, channels)]


def get_init_inputs():
    return [channels]
