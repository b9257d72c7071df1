// Doubles through shared memory.
__global__ void twice(const int* x, int* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  __shared__ int kept[64];
  if (i < n) kept[threadIdx.x] = x[i];
  __syncthreads();
  if (i < n) y[i] = 2 * kept[threadIdx.x];
}

void doubled(const int* x, int* y, int n) { twice<<<(n + 63) / 64, 64>>>(x, y, n); }
