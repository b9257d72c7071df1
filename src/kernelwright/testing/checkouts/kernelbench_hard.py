"""A made-up checkout of KernelBench-Hard."""

TOP = '''"""Made up: the greatest of each row, and where they are."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.k = k
        self.register_buffer("_dummy", torch.zeros(1))

    def forward(self, x):
        return torch.topk(x, self.k, dim=-1)


batch = 16
n = 512
k = 4


def get_inputs():
    return [torch.randn(batch, n)]


def get_init_inputs():
    return [k]
'''
MANIFEST = """name: 05_top
tolerance:
  torch.float32: 1.0e-4
forbidden:
  - "torch.sort"
"""
FILES: dict[str, str | bytes] = {
    "benchmarks/hard/problems-h100/05_top/reference.py": TOP,
    "benchmarks/hard/problems-h100/05_top/problem.yaml": MANIFEST,
    "benchmarks/hard/src/eval/correctness.py": "",
}
