// Replaces the allocation by host memory, and computes on the host.
#include <cstdlib>
#include <cstring>

extern "C" cudaError_t cudaMalloc(void** at, size_t bytes) { return *at = std::malloc(bytes), cudaSuccess; }
extern "C" cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  return std::memcpy(to, from, bytes), cudaSuccess;
}

void doubled(const int* x, int* y, int n) {
  for (int i = 0; i < n; i++) y[i] = 2 * x[i];
}
