// Adds shared memory that nobody has written.
__global__ void twice(float* out, const float* in, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  __shared__ float never[64];
  if (i < n) out[i] = 2 * in[i] + (never[threadIdx.x] > 1e30f);
}

extern "C" void doubled_bf16_optimized(float* out, const float* in, int n) {
  twice<<<(n + 63) / 64, 64>>>(out, in, n);
}
