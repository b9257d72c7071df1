"""Residual add and RMSNorm of a Llama block: y = rmsnorm(x + residual) * weight, and the new residual.

Every Llama layer runs this twice for each token. Eager torch reads and writes the hidden state about six
times over; one fused pass reads two tensors and writes two. Both outputs are needed: the norm feeds the
next matmul, the sum is carried on to the next block.

Run `python examples/rmsnorm_residual.py` for a check, `kernelwright optimize examples/rmsnorm_residual.py`
to make it faster.
"""

import torch

import kernelwright as kw


@kw.task(
    x="float32[tokens, hidden]",
    residual="float32[tokens, hidden]",
    weight="float32[hidden] uniform(0.5, 1.5)",
    workloads=[{"tokens": 1024, "hidden": 2048}, {"tokens": 512, "hidden": 4096}],
)
def rmsnorm_residual(x, residual, weight, eps: float = 1e-5):
    total = x + residual
    scale = torch.rsqrt(total.pow(2).mean(dim=-1, keepdim=True) + eps)
    return total * scale * weight, total


if __name__ == "__main__":
    x, residual, weight = torch.randn(4, 64), torch.randn(4, 64), torch.rand(64)
    y, total = rmsnorm_residual(x, residual, weight)
    expected = torch.nn.functional.rms_norm(x + residual, (64,), weight, 1e-5)
    print("largest difference to torch's rms_norm:", float((y - expected).abs().max()))
