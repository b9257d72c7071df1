import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.power = 2

    def forward(self, x):
        return torch.sqrt(torch.relu(x) ** self.power)


rows = 32
dim = 128


def get_inputs():
    return [torch.rand(rows, dim)]


def get_init_inputs():
    return []


NAIVE_SIZES = {"rows": 256, "dim": 2048}
