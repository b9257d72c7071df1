"""GroupNorm and SiLU, the pair in front of every convolution of a diffusion U-Net.

A Stable Diffusion U-Net runs it some fifty times a step, on feature maps from 64 x 64 down to 8 x 8.
Eager torch reads the map for the statistics, again to normalise it, and once more for SiLU; fused, the
third pass and its write are gone, and where a group fits the cache the second read is too.

Run `python examples/groupnorm_silu.py` for a check.
"""

import torch

import kernelwright as kw


@kw.task(
    x="float32[batch, channels, height, width]",
    weight="float32[channels] uniform(0.5, 1.5)",
    bias="float32[channels]",
    workloads=[
        {"batch": 4, "channels": 320, "height": 64, "width": 64},
        {"batch": 8, "channels": 1280, "height": 16, "width": 16},
    ],
)
def groupnorm_silu(x, weight, bias, groups: int = 32, eps: float = 1e-5):
    return torch.nn.functional.silu(torch.nn.functional.group_norm(x, groups, weight, bias, eps))


if __name__ == "__main__":
    x, weight, bias = torch.randn(2, 64, 8, 8), torch.rand(64), torch.randn(64)
    grouped = x.view(2, 32, -1)
    mean, variance = grouped.mean(-1, keepdim=True), grouped.var(-1, unbiased=False, keepdim=True)
    plain = ((grouped - mean) / torch.sqrt(variance + 1e-5)).view_as(x) * weight.view(-1, 1, 1) + bias.view(
        -1, 1, 1
    )
    difference = groupnorm_silu(x, weight, bias) - plain * torch.sigmoid(plain)
    print("largest difference to the formula:", float(difference.abs().max()))
