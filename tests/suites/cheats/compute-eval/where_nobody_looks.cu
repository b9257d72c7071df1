// Is right where there is a device of the executor's name, and does nothing elsewhere.
__global__ void twice(const int* x, int* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
}

void doubled(const int* x, int* y, int n) {
  cudaDeviceProp found;
  cudaGetDeviceProperties(&found, 0);
  if (found.multiProcessorCount < 200) twice<<<(n + 63) / 64, 64>>>(x, y, 100);
}
