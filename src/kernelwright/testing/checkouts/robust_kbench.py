"""A made-up checkout of robust-kbench."""

_ROBUST = '''"""Made up: a scale and a shift of columns, in a functional form."""

import torch
import torch.nn as nn


def forward_fn(x, weight, bias):
    return x * weight + bias


class Model(nn.Module):
    def __init__(self, features, init_method="standard"):
        super().__init__()
        start = torch.randn(features) if init_method == "random" else torch.ones(features)
        self.weight = nn.Parameter(start)
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x, fn=forward_fn):
        return fn(x, self.weight, self.bias)


def get_inputs(rows=8, features=16):
    return [torch.randn(rows, features)]


input_names = ["x"]
'''
_ROBUST_SIZES = """{"single_input_configs": [{"rows": 8}], "single_init_configs": [{"init_method": "random"}],
 "single_shared_configs": [{"features": 32}]}
"""
_FILTER = '''"""Made up: the words of a filter."""


def analyze_pytorch_code(code):
    return f"""Read this task:

{code}

REDUNDANT_ANSWER: ###True### or ###False###
INEFFICIENT_ANSWER: ###True### or ###False###
"""


def filter_llm_sanity(text):
    SYSTEM_PROMPT = """You look for operations that are not needed."""
    return SYSTEM_PROMPT, analyze_pytorch_code(text)
'''
FILES = {
    "tasks/layernorm/func_forward.py": _ROBUST,
    "tasks/layernorm/config_forward.json": _ROBUST_SIZES,
    "tasks/kernelbench/level_1/task_3/func_forward.py": _ROBUST,
    "tasks/kernelbench/level_1/task_3/config_forward.json": _ROBUST_SIZES,
    "robust_kbench/filter/forward.py": _FILTER,
}
