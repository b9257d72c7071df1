"""Honest under a strict rule: torch makes and moves memory, a kernel of its own computes."""

import torch

TASK = "softmax"
RULE = "custom-only"
CPP = """
#include <cmath>
#include "kernelwright.h"

KW_KERNEL(softmax) {
  auto x = args.tensor<const float>(0), w = args.tensor<const float>(1);
  auto out = args.tensor<float>(2);
  const int64_t n = w.numel(), rows = n ? x.numel() / n : 0;
  for (int64_t r = 0; r < rows; ++r) {
    const float* in = x.data() + r * n;
    float most = -INFINITY;
    for (int64_t i = 0; i < n; ++i) most = std::fmax(most, in[i]);
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += std::exp(double(in[i]) - most);
    for (int64_t i = 0; i < n; ++i)
      out.data()[r * n + i] = std::isnan(sum) ? NAN : std::exp(double(in[i]) - most) / sum * w.data()[i];
  }
}
"""


def run(x, weight):
    out = torch.empty(x.shape)
    kernels.softmax(x.contiguous(), weight, out)
    return out.clone()
