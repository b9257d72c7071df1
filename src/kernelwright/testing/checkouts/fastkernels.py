"""A made-up checkout of FastKernels: one architecture, whose operators are in files of their levels."""

_LINEAR = '''"""Made up: a linear layer."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Linear(nn.Module):
    def __init__(self, features: int, results: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(results, features))
        self.bias = nn.Parameter(torch.empty(results))

    def forward(self, x):
        return F.linear(x, self.weight, self.bias)
'''
_MLP = '''"""Made up: linear layers in a row."""

from __future__ import annotations

import torch
import torch.nn as nn

from ..L1.linear import Linear


class MLP(nn.Module):
    def __init__(self, sizes: list[int]):
        super().__init__()
        self.layers = nn.ModuleList(Linear(a, b) for a, b in zip(sizes, sizes[1:]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x
'''
_MODEL = '''"""Made up: a model that ranks."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn as nn

from ..L2.mlp import MLP


@dataclass
class DLRMv2Config:
    num_embeddings_per_feature: list[int]
    embedding_dim: int
    bottom_mlp_dims: list[int]
    top_mlp_dims: list[int]


class DLRMv2(nn.Module):
    def __init__(self, config: DLRMv2Config):
        super().__init__()
        self.table = nn.Embedding(config.num_embeddings_per_feature[0], config.embedding_dim)
        self.bottom = MLP([13, *config.bottom_mlp_dims])
        self.top = MLP([config.embedding_dim, *config.top_mlp_dims])

    def forward(self, dense: torch.Tensor, sparse: list[torch.Tensor]) -> torch.Tensor:
        found = sum(self.table(one).sum(1) for one in sparse)
        return self.top(self.bottom(dense) + found)
'''
_HOME = "fastkernels/tasks/baseline"
FILES = {
    f"{_HOME}/L1/linear.py": _LINEAR,
    f"{_HOME}/L2/mlp.py": _MLP,
    f"{_HOME}/L4/dlrmv2.py": _MODEL,
    f"{_HOME}/L4/served_on_gpus.py": "import no_such_package\n",
    "fastkernels/bench.py": "no benchmark\n",
}
