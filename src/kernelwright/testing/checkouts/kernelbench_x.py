"""A made-up checkout of KernelBench-X."""

_LINE = "#" * 146
_TESTED = f"""import torch


def shifted_relu(x, shift=0.0):
    return torch.relu(x + shift)

{_LINE}

import os
import sys
sys.path.append(os.path.abspath(os.path.join(os.path.dirname(__file__), "../../../utils")))
from data_utils import rand_tensor


def test_shifted_relu():
    results = {{"corner": shifted_relu(rand_tensor((3,)), shift=1.0)}}
    results["large"] = [shifted_relu(rand_tensor((16, 32)), shift=0.5) for _ in range(2)]
    return results


test_results = test_shifted_relu()
"""
_DRAWS = """import torch


def rand_tensor(shape, *, dtype=torch.float32, device="cuda"):
    return torch.randn(*shape, device=device, dtype=dtype)
"""
_COARSE = _TESTED.replace("shifted_relu", "relu_w8a8")
FILES = {
    "data/kernelbenchx/Activation/shifted_relu.py": _TESTED,
    "data/kernelbenchx/Quantization/relu_w8a8.py": _COARSE,
    "data/kernelbenchx_v1.json": '[{"file": "Activation/shifted_relu.py"}, {"file": "Quantization/relu_w8a8.py", '
    '"precision_thresholds": {"cosine_sim": 0.95, "l1_relative": 0.05, "rmse": 0.1}}]',
    "utils/data_utils.py": _DRAWS,
}
