"""SwiGLU, the gate of Llama's feed-forward layer: silu(gate) * up, from one projection that holds both.

The projection's output comes as one tensor, gate and up side by side. Eager torch makes two views, writes
silu(gate) to memory and reads it back; a fused kernel reads each half once and writes the product.

Run `python examples/swiglu.py` for a check.
"""

import torch

import kernelwright as kw


@kw.task(
    projected="float32[tokens, 2 * width]",
    workloads=[{"tokens": 512, "width": 5632}, {"tokens": 256, "width": 14336}],
)
def swiglu(projected):
    gate, up = projected.chunk(2, dim=-1)
    return torch.nn.functional.silu(gate) * up


if __name__ == "__main__":
    projected = torch.randn(4, 256)
    gate, up = projected[:, :128], projected[:, 128:]
    difference = swiglu(projected) - gate / (1 + torch.exp(-gate)) * up
    print("largest difference to gate * sigmoid(gate) * up:", float(difference.abs().max()))
