// Adds twice with nothing that orders the two.
__global__ void twice(const int* x, int* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i]; if (i + 1 < n) y[i + 1] = 2 * x[i + 1]; if (i == 0) y[0] = 0;
}

void doubled(const int* x, int* y, int n) { twice<<<(n + 63) / 64, 64>>>(x, y, n); }
