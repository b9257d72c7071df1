"""A made-up checkout of KernelBench."""

SOFTMAX = '''"""Made up: a softmax of rows."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1)


batch_size = 32
dim = 4096


def get_inputs():
    return [torch.rand(batch_size, dim)]


def get_init_inputs():
    return []
'''
LINEAR = '''"""Made up: a linear layer and what follows it."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x):
        return torch.relu(self.linear(x))


batch_size = 16
in_features = 64
out_features = 32


def get_inputs():
    return [torch.rand(batch_size, in_features)]


def get_init_inputs():
    return [in_features, out_features]
'''
_CONSTANT = '''"""Made up: the maximum of one column, less itself, is zero whatever goes in."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        x = torch.max(x, dim=1, keepdim=True).values
        return x - x.mean(dim=1, keepdim=True)


batch_size = 32
dim = 64


def get_inputs():
    return [torch.rand(batch_size, dim)]


def get_init_inputs():
    return []
'''
FILES = {
    "KernelBench/level1/1_Softmax.py": SOFTMAX,
    "KernelBench/level2/1_Linear_ReLU.py": LINEAR,
    "KernelBench/level2/2_Max_Subtract.py": _CONSTANT,
    "KernelBench/level3/README.md": "no problem of this level\n",
}
