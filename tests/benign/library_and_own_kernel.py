"""Honest where libraries are allowed: torch's product, then a kernel of its own for the bias."""

import torch

TASK = "linear"
RULE = "library-allowed"
CPP = """
#include "kernelwright.h"

KW_KERNEL(add) {
  auto out = args.tensor<float>(0);
  auto bias = args.tensor<const float>(1);
  const int64_t n = bias.numel();
  for (int64_t i = 0; i < out.numel(); ++i) out.data()[i] += bias.data()[i % n];
}
"""


def run(x, weight, bias):
    out = torch.mm(x.reshape(-1, x.shape[-1]), weight.t()).view(*x.shape[:-1], weight.shape[0])
    kernels.add(out, bias)
    return out
