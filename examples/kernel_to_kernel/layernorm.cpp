// LayerNorm over the last axis, as a first version is often written: correct, and nothing more.
// Called as layernorm(x, weight, bias, eps, out); all float32 and contiguous.
#include "kernelwright.h"

#include <cmath>

KW_KERNEL(layernorm) {
  auto x = args.tensor<const float>(0);
  auto weight = args.tensor<const float>(1);
  auto bias = args.tensor<const float>(2);
  const double eps = args.real(3);
  auto out = args.tensor<float>(4);

  if (x.ndim() == 0) KW_UNSUPPORTED("x must have at least one dimension");
  const int64_t dim = x.shape(x.ndim() - 1);
  KW_REQUIRE(weight.numel() == dim && bias.numel() == dim, "weight and bias must be as long as a row");
  const int64_t rows = dim ? x.numel() / dim : 0;

  for (int64_t r = 0; r < rows; ++r) {
    const float* row = x.data() + r * dim;
    double mean = 0;
    for (int64_t i = 0; i < dim; ++i) mean += row[i];
    mean /= dim;
    double variance = 0;
    for (int64_t i = 0; i < dim; ++i) variance += (row[i] - mean) * (row[i] - mean);
    variance /= dim;
    const double scale = 1.0 / std::sqrt(variance + eps);
    for (int64_t i = 0; i < dim; ++i) {
      out.data()[r * dim + i] = static_cast<float>((row[i] - mean) * scale) * weight.data()[i] + bias.data()[i];
    }
  }
}
