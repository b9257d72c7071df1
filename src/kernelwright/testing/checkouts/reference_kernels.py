"""A made-up checkout of reference-kernels."""

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
FILES = {
    "problems/pmpp_v2/addition/task.yml": _TASK,
    "problems/pmpp_v2/addition/reference.py": _ADDITION,
    "problems/pmpp_v2/utils.py": _UTILS,
    "problems/linalg/README.md": "no problem\n",
    "problems/amd/README.md": "no problem\n",
}
