"""A made-up checkout of AutoKernel: two types of kernel, and a kernel that was extracted at its model's sizes."""

_BENCH = '''"""Made up: two types of kernel."""

import torch


def gen_scaled_inputs(size: dict, dtype: torch.dtype, device: str, seed: int = 42) -> dict:
    torch.manual_seed(seed)
    x = torch.randn(size["rows"], size["cols"], device=device, dtype=dtype)
    return {"x": x, "weight": torch.randn(size["cols"], device=device, dtype=dtype)}


def gen_product_inputs(size: dict, dtype: torch.dtype, device: str, seed: int = 42) -> dict:
    torch.manual_seed(seed)
    A = torch.randn(size["M"], size["K"], device=device, dtype=dtype)
    return {"A": A, "B": torch.randn(size["K"], size["M"], device=device, dtype=dtype)}


def _ref_scaled(inputs: dict) -> torch.Tensor:
    import reference
    return reference.scaled_ref(inputs["x"], inputs["weight"])


def _ref_product(inputs: dict) -> torch.Tensor:
    import reference
    return reference.product_ref(inputs["A"], inputs["B"])


KERNEL_CONFIGS = {
    "scaled": {
        "test_sizes": [("small", {"rows": 8, "cols": 32}), ("large", {"rows": 64, "cols": 128})],
        "test_dtypes": [torch.float16, torch.float32],
        "tolerances": {
            torch.float16: {"atol": 1e-3, "rtol": 1e-3},
            torch.float32: {"atol": 1e-5, "rtol": 1e-5},
        },
        "flops_fn": lambda s: s["rows"] * s["cols"],
        "input_generator": gen_scaled_inputs,
        "reference_fn": _ref_scaled,
        "edge_sizes": [("edge_33", {"rows": 7, "cols": 33}), ("edge_huge", {"rows": 4097, "cols": 4097})],
    },
    "product": {
        "test_sizes": [("small", {"M": 16, "K": 16}), ("large", {"M": 48, "K": 32})],
        "test_dtypes": [torch.float32],
        "tolerances": {torch.float32: {"atol": 1e-4, "rtol": 1e-4}},
        "input_generator": gen_product_inputs,
        "reference_fn": _ref_product,
        "edge_sizes": [("edge_17", {"M": 17, "K": 9})],
    },
}
'''
_REFERENCE = '''"""Made up: what kernels are compared with."""

import torch


def scaled_ref(x, weight):
    return torch.tanh(x) * weight


def product_ref(A, B):
    return A @ B
'''
_KERNEL = '''"""Made up."""

KERNEL_TYPE = "NAMED"

import torch


def kernel_fn(x, weight):
    return torch.tanh(x) * weight
'''
_EXTRACTED = _KERNEL.replace("NAMED", "scaled").replace(
    "import torch\n", 'MODEL_SHAPES = {"rows": 24, "cols": 40}\n\nimport torch\n', 1
)
FILES = {
    "bench.py": _BENCH,
    "reference.py": _REFERENCE,
    "program.md": "no agent\n",
    "kernels/scaled.py": _KERNEL.replace("NAMED", "scaled"),
    "workspace/kernel_scaled_1.py": _EXTRACTED,
    "workspace/kernel_unknown_2.py": _KERNEL.replace("NAMED", "unknown"),
}
