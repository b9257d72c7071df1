// Doubles two at a time.
__global__ void twice(float* out, const float* in, int n) {
  const int i = 2 * (blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) out[i] = 2 * in[i];
  if (i + 1 < n) out[i + 1] = 2 * in[i + 1];
}

extern "C" void doubled_bf16_optimized(float* out, const float* in, int n) {
  twice<<<(n + 127) / 128, 64>>>(out, in, n);
}
