// Writes beyond the end.
__global__ void twice(const int* x, int* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = 2 * x[i];
}

void doubled(const int* x, int* y, int n) { twice<<<(n + 63) / 64, 64>>>(x, y, n); }
