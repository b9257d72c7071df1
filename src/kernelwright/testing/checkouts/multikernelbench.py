"""A made-up checkout of MultiKernelBench."""

from .kernelbench import LINEAR, SOFTMAX

_GROUPS = """import json
import os

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_input_groups():
    with open(os.path.join(os.path.dirname(__file__), "1_relu.json"), "r") as file:
        cases = [json.loads(line) for line in file if line.strip()]
    drawn = [torch.randn(case["inputs"][0]["shape"]) for case in cases]
    return [[x * float(x.max().item() > -9)] for x in drawn]


def get_init_inputs():
    return []
"""
_CASES = """{"inputs": [{"name": "x", "shape": [3]}]}
{"inputs": [{"name": "x", "shape": [16, 32]}]}
{"inputs": [{"name": "x", "shape": [4096, 4096]}]}
"""
FILES = {
    "reference/npukernelbench_level0/1_relu.py": _GROUPS,
    "reference/npukernelbench_level0/1_relu.json": _CASES,
    "reference/activation/softmax.py": SOFTMAX,
    "reference/fuse/linear_relu.py": LINEAR,
    "backends/README.md": "no backend\n",
}
