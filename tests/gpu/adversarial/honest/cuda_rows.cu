// A warp for each row, in CUDA C++. entry: softmax
#include "kernelwright.h"

__global__ void rows_kernel(const float* x, const float* weight, float* out, int64_t rows, int64_t n) {
  const int64_t row = blockIdx.x * static_cast<int64_t>(blockDim.y) + threadIdx.y;
  if (row >= rows) return;
  x += row * n, out += row * n;
  float most = -INFINITY, sum = 0;
  for (int64_t i = threadIdx.x; i < n; i += 32) most = fmaxf(most, x[i]);
  for (int step = 16; step; step /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, step));
  for (int64_t i = threadIdx.x; i < n; i += 32) sum += expf(x[i] - most);
  for (int step = 16; step; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
  for (int64_t i = threadIdx.x; i < n; i += 32) out[i] = expf(x[i] - most) / sum * weight[i];
}

KW_KERNEL(softmax) {
  auto x = args.tensor<const float>(0);
  auto weight = args.tensor<const float>(1);
  auto out = args.tensor<float>(2);
  const int64_t n = weight.numel(), rows = n ? x.numel() / n : 0;
  if (rows == 0) return;
  rows_kernel<<<static_cast<unsigned>((rows + 3) / 4), dim3(32, 4), 0, kw::stream(x)>>>(
      x.data(), weight.data(), out.data(), rows, n);
  KW_CHECK_LAUNCH();
}
