"""A made-up checkout of AgentKernelArena: workspaces that give a module, in the forms that theirs have."""

_CASES = '''"""Made up: a scaled softmax, on cases that a generator yields."""

import torch
import torch.nn as nn


class Helper(nn.Module):
    def forward(self, x):
        return x.exp()


class Scaled(nn.Module):
    def __init__(self, by=1.0):
        super().__init__()
        self.by = by

    def forward(self, x):
        return torch.softmax(x * self.by, -1)


def get_inputs():
    for shape in ([8], [16, 64], [4, 8, 16], [2048, 2048]):
        yield [torch.randn(shape)]


def get_init_inputs():
    return [[], {"by": 2.0}]
'''
_LISTED = '''"""Made up: a linear layer, one case in a list."""

import torch
import torch.nn as nn


class Layer(nn.Module):
    def __init__(self, features, results):
        super().__init__()
        self.linear = nn.Linear(features, results)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x):
        return self.dropout(torch.relu(self.linear(x)))


features, results = 32, 8


def get_inputs():
    return [torch.randn(16, features)]


def get_init_inputs():
    return [features, results]
'''
_CONFIG = "task_type: torch2hip\ntarget_kernel_functions: [forward]\n"


def _workspace(folder: str, module: str, text: str) -> dict[str, str]:
    home = f"tasks/torch2hip/{folder}"
    return {f"{home}/config.yaml": _CONFIG, f"{home}/pytorch_code_module/py_{module}.py": text}


_HALVED = '''"""Made up: halves in float32, a module whose name is `Model`."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return (x.float() * 0.5).to(x.dtype)


def get_inputs():
    return [torch.randn(16, 64, dtype=torch.bfloat16)]


def get_init_inputs():
    return []
'''
FILES = {
    **_workspace("gpumode/12_Scaled", "12_Scaled", _CASES),
    **_workspace("kernelbench/level1/l1n5_Layer_", "l1n5_Layer_", _LISTED),
    "tasks/torch2flydsl/halved_kernel/config.yaml": "task_type: torch2flydsl\n",
    "tasks/torch2flydsl/halved_kernel/model.py": _HALVED,
    "src/README.md": "no evaluator\n",
    "agents/README.md": "no agent\n",
}
