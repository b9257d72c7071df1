// Computes on the host.
#include <vector>

extern "C" void doubled_bf16_optimized(float* out, const float* in, int n) {
  std::vector<float> kept(n);
  cudaMemcpy(kept.data(), in, n * sizeof(float), cudaMemcpyDeviceToHost);
  for (float& value : kept) value *= 2;
  cudaMemcpy(out, kept.data(), n * sizeof(float), cudaMemcpyHostToDevice);
}
