// Adds shared memory that nobody has written.
__global__ void twice(const int* x, int* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  __shared__ int never[64];
  if (i < n) y[i] = 2 * x[i] + (never[threadIdx.x] == 123456789);
}

void doubled(const int* x, int* y, int n) { twice<<<(n + 63) / 64, 64>>>(x, y, n); }
