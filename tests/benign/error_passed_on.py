"""Honest under a strict rule: try and except around the kernel, but the error is passed on."""

import torch

TASK = "relu"
RULE = "custom-only"
CPP = """
#include "kernelwright.h"

KW_KERNEL(relu) {
  auto x = args.tensor<const float>(0);
  auto out = args.tensor<float>(1);
  for (int64_t i = 0; i < x.numel(); ++i) out.data()[i] = x.data()[i] < 0 ? 0 : x.data()[i];
}
"""


def run(x):
    out = torch.empty(x.shape)
    try:
        kernels.relu(x.contiguous(), out)
    except RuntimeError as error:
        raise RuntimeError(f"relu of {tuple(x.shape)}: {error}") from error
    return out
