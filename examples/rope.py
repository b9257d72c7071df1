"""Rotary position embedding, in the half-rotated form of Llama and its kin.

Every layer turns queries and keys by an angle that depends on position. Eager torch slices, negates,
concatenates and multiplies, writing five tensors of the size of q to compute one; a fused kernel reads q
once and writes the result once.

Run `python examples/rope.py` for a check.
"""

import torch

import kernelwright as kw


@kw.task(
    q="float32[batch, heads, seq, 2 * half]",
    cos="float32[seq, half] uniform(-1, 1)",
    sin="float32[seq, half] uniform(-1, 1)",
    workloads=[
        {"batch": 1, "heads": 32, "seq": 512, "half": 64},
        {"batch": 8, "heads": 8, "seq": 512, "half": 32},
    ],
)
def rope(q, cos, sin):
    first, second = q.chunk(2, dim=-1)
    rotated = torch.cat((-second, first), dim=-1)
    return q * torch.cat((cos, cos), dim=-1) + rotated * torch.cat((sin, sin), dim=-1)


if __name__ == "__main__":
    angle = torch.rand(16, 32)
    q = torch.randn(1, 2, 16, 64)
    turned = rope(q, torch.cos(angle), torch.sin(angle))
    print(
        "a rotation keeps lengths; largest difference:",
        float((turned.norm(dim=-1) - q.norm(dim=-1)).abs().max()),
    )
