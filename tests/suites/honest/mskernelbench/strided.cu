// Doubles in a loop over the grid.
__global__ void twice(float* out, const float* in, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  for (int at = i; at < n; at += gridDim.x * blockDim.x) out[at] = in[at] + in[at];
}

extern "C" void doubled_bf16_optimized(float* out, const float* in, int n) {
  twice<<<1, 64>>>(out, in, n);
}
