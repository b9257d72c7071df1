"""From kernel to kernel: a LayerNorm somebody wrote in C++, and the function that says what is right.

`layernorm.cpp` is correct and slow: one thread, three passes over each row, one element at a time. The
search starts from it (`Task.start`), the judge compares with the function below, and what comes out is a
kernel for the same signature.

    kernelwright optimize examples/kernel_to_kernel
    kernelwright judge examples/kernel_to_kernel examples/kernel_to_kernel/layernorm.cpp

Run `python examples/kernel_to_kernel/task.py` for a check of the reference.
"""

import torch

import kernelwright as kw


@kw.task(
    x="float32[rows, dim]",
    weight="float32[dim] uniform(0.5, 1.5)",
    bias="float32[dim]",
    workloads=[{"rows": 1024, "dim": 1024}, {"rows": 128, "dim": 4096}],
)
def layernorm(x, weight, bias, eps: float = 1e-5):
    return torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias, eps)


if __name__ == "__main__":
    y = layernorm(torch.randn(4, 512), torch.ones(512), torch.zeros(512))
    print("largest row mean:", float(y.mean(-1).abs().max()), "largest row variance less one:",
          float((y.var(-1, unbiased=False) - 1).abs().max()))  # fmt: skip
