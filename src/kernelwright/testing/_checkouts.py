"""Small made-up checkouts of benchmarks, in the layout of the real ones."""

from pathlib import Path

_SOFTMAX = '''"""Made up: a softmax of rows."""

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
_LINEAR = '''"""Made up: a linear layer and what follows it."""

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
_TASK = """# made up
files:
  - {"name": "submission.py", "source": "@SUBMISSION@"}
  - {"name": "utils.py", "source": "../utils.py"}
  - {"name": "reference.py", "source": "reference.py"}
  - {"name": "eval.py", "source": "../eval.py"}
tests:
  - {"size": 17, "seed": 1}
  - {"size": 32, "seed": 2}
benchmarks:
  - {"size": 256, "seed": 3}
ranked_timeout: 60
"""
_UTILS = """import torch


def check(data, output, reference):
    expected = reference(data)
    if not torch.allclose(output, expected):
        return False, "mismatch"
    return True, ""
"""
_ADDITION = """import dataclasses

import torch
from utils import check


@dataclasses.dataclass
class Shift:
    by: torch.Tensor
    size: int


def generate_input(size, seed):
    gen = torch.Generator(device="cuda")
    gen.manual_seed(seed)
    a, b = (torch.randn(size, size, device="cuda", generator=gen) for _ in range(2))
    return a, b, {"scale": 2.0}, Shift(torch.rand(size).cuda(), size)


def ref_kernel(data):
    a, b, config, shift = data
    return a + b * config["scale"] + shift.by * torch.ones(shift.size, device="cuda")


def check_implementation(data, output):
    return check(data, output, ref_kernel)
"""
_DEFINITION = """{"name": "scale_n64", "op_type": "scale",
 "axes": {"rows": {"type": "var"}, "n": {"type": "const", "value": 64}},
 "inputs": {"x": {"shape": ["rows", "n"], "dtype": "float32"}, "w": {"shape": ["n"], "dtype": "float32"}},
 "outputs": {"y": {"shape": ["rows", "n"], "dtype": "float32"}},
 "reference": "import torch\\n\\ndef run(x, w):\\n    return torch.softmax(x, 1) * w\\n"}
"""
_SEEN = """{"definition": "scale_n64", "workload": {"uuid": "a", "axes": {"rows": 4}, "inputs": {}}}
{"definition": "scale_n64", "workload": {"uuid": "b", "axes": {"rows": 32}, "inputs": {}}}
"""
_TESTED = """import torch


def scaled_relu(x, scale=1.0):
    return torch.relu(x) * scale


##################################################################


import torch

# def scaled_relu(x, scale=1.0):


def test_scaled_relu():
    torch.manual_seed(1)
    results = {"first": scaled_relu(torch.randn(4, 8, device='cuda'), scale=2.0)}
    results["second"] = scaled_relu(torch.randn(3, device='cuda'), scale=torch.tensor(3.0))
    print(results["first"].sum().item())
    return results


test_results = test_scaled_relu()
"""
_FILES = {
    "kernelbench": {
        "KernelBench/level1/1_Softmax.py": _SOFTMAX,
        "KernelBench/level2/1_Linear_ReLU.py": _LINEAR,
        "KernelBench/level2/2_Max_Subtract.py": _CONSTANT,
        "KernelBench/level3/README.md": "no problem of this level\n",
    },
    "multikernelbench": {
        "reference/activation/softmax.py": _SOFTMAX,
        "reference/fuse/linear_relu.py": _LINEAR,
        "backends/README.md": "no backend\n",
    },
    "robust-kbench": {
        "tasks/layernorm/func_forward.py": _ROBUST,
        "tasks/layernorm/config_forward.json": _ROBUST_SIZES,
        "tasks/kernelbench/level_1/task_3/func_forward.py": _ROBUST,
        "tasks/kernelbench/level_1/task_3/config_forward.json": _ROBUST_SIZES,
        "robust_kbench/README.md": "no evaluator\n",
    },
    "reference-kernels": {
        "problems/pmpp_v2/addition/task.yml": _TASK,
        "problems/pmpp_v2/addition/reference.py": _ADDITION,
        "problems/pmpp_v2/utils.py": _UTILS,
        "problems/linalg/README.md": "no problem\n",
        "problems/amd/README.md": "no problem\n",
    },
    "flashinfer-bench": {
        "definitions/scale/scale_n64.json": _DEFINITION,
        "workloads/scale/scale_n64.jsonl": _SEEN,
    },
    "tritonbench": {
        "data/TritonBench_T_v1/scaled_relu.py": _TESTED,
        "data/TritonBench_G_v1/README.md": "no kernel\n",
    },
}


def made_up_checkout(suite: str, folder: Path) -> Path:
    """Write a small checkout with problems of our own in the benchmark's layout, and return its folder.

    Args:
        suite: Name of a benchmark; only those that are shipped have one.
        folder: Where to write it.

    Raises:
        KeyError: there is none for the benchmark.
    """
    for path, text in _FILES[suite].items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder
