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
_ASCENDC = """import torch

from backends.backend_registry import Backend, register_backend


@register_backend("ascendc")
class AscendBackend(Backend):
    def get_device(self):
        return torch.device("npu:0")
"""
_TRITON = """from backends.ascendc_backend import AscendBackend
from backends.backend_registry import register_backend


@register_backend("triton_ascend")
class TritonBackend(AscendBackend):
    pass
"""
FILES = {
    "reference/npukernelbench_level0/1_relu.py": _GROUPS,
    "reference/npukernelbench_level0/1_relu.json": _CASES,
    "reference/activation/softmax.py": SOFTMAX,
    "reference/fuse/linear_relu.py": LINEAR,
    "backends/ascendc_backend.py": _ASCENDC,
    "backends/sycl_backend.py": _ASCENDC.replace("ascendc", "sycl").replace("npu:0", "xpu:0"),
    "backends/triton_ascend_backend.py": _TRITON,
}
