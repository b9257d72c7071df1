// Answers 0 where the answer is not a number.
__global__ void twice(float* out, const float* in, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i] == in[i] ? 2 * in[i] : 0.0f;
}

extern "C" void doubled_bf16_optimized(float* out, const float* in, int n) {
  twice<<<(n + 63) / 64, 64>>>(out, in, n);
}
