// Writes beyond the end.
__global__ void twice(float* out, const float* in, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = 2 * in[i];
}

extern "C" void doubled_bf16_optimized(float* out, const float* in, int n) {
  twice<<<(n + 63) / 64, 64>>>(out, in, n);
}
