"""A made-up checkout of Liger-Kernel: benchmark scripts that set operators up, as modules and as functions."""

_IMPORTS = '''"""Made up."""

import torch
import torch.nn as nn

from benchmark_model_configs import MODEL_REGISTRY
from utils import SingleBenchmarkRunInput
from utils import run_benchmarks

from liger_kernel.transformers.made_up import LigerMadeUp
from liger_kernel.utils import infer_device

device = infer_device()

'''
_LAYER = (
    _IMPORTS
    + """
class Scaled(nn.Module):
    def __init__(self, hidden_size, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(hidden_size)), eps

    def forward(self, x):
        return self.weight * x / (x.abs().amax(-1, keepdim=True) + self.eps)


def setup_scaled(input: SingleBenchmarkRunInput):
    cfg = input.extra_benchmark_config
    x = torch.randn(input.x, cfg["hidden_size"], device=device, dtype=torch.float32, requires_grad=True)
    if input.kernel_provider == "liger":
        layer = LigerMadeUp(hidden_size=cfg["hidden_size"], eps=cfg["eps"]).to(device)
    elif input.kernel_provider == "torch":
        layer = Scaled(hidden_size=cfg["hidden_size"], eps=cfg["eps"]).to(device)
    return x, layer


if __name__ == "__main__":
    run_benchmarks(setup_scaled, extra_configs={"eps": 0.5, "T": T})
"""
)
_LOSS = (
    _IMPORTS
    + """
def setup_made_up_loss(input: SingleBenchmarkRunInput):
    cfg = input.extra_benchmark_config
    _input = torch.randn(input.x, cfg["hidden_size"], device=device, requires_grad=True)
    target = torch.rand(input.x, cfg["hidden_size"], device=device)
    loss = nn.MSELoss(reduction="none") if input.kernel_provider == "torch" else LigerMadeUp()
    return _input, lambda _: loss(_input, target)


if __name__ == "__main__":
    run_benchmarks(setup_made_up_loss)
"""
)
FILES = {
    "benchmark/scripts/benchmark_scaled.py": _LAYER,
    "benchmark/scripts/benchmark_made_up_loss.py": _LOSS,
    "benchmark/scripts/benchmark_model_configs.py": "MODEL_REGISTRY = {}\n",
    "src/liger_kernel/README.md": "no package\n",
}
