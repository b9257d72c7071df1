// Kernels that are right: the sanitiser must find nothing in them.
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <cstdint>

extern "C" {

__global__ void add(const float* x, const float* y, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] + y[i];
}

__global__ void add4(const float4* x, float4* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    float4 v = x[i];
    v.x += 1, v.y += 2, v.z += 3, v.w += 4;
    out[i] = v;
  }
}

__global__ void sum(const float* x, float* out, int n) {
  __shared__ float part[32];
  float s = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) s += x[i];
  for (int o = 16; o; o >>= 1) s += __shfl_down_sync(~0u, s, o);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = s;
  __syncthreads();
  if (threadIdx.x < 32) {
    s = threadIdx.x < blockDim.x / 32 ? part[threadIdx.x] : 0;
    for (int o = 16; o; o >>= 1) s += __shfl_xor_sync(~0u, s, o);
    if (threadIdx.x == 0) atomicAdd(out, s);
  }
}

__global__ void tree_sum(const float* x, float* out, int n) {
  extern __shared__ float dynamic[];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  dynamic[threadIdx.x] = i < n ? x[i] : 0;
  __syncthreads();
  for (int o = blockDim.x / 2; o; o >>= 1) {
    if (threadIdx.x < o) dynamic[threadIdx.x] += dynamic[threadIdx.x + o];
    __syncthreads();
  }
  if (threadIdx.x == 0) out[blockIdx.x] = dynamic[0];
}

__device__ unsigned finished = 0;
// The last block adds up what the others left: ordered by a fence and an atomic.
__global__ void last_block_sum(const float* x, volatile float* parts, float* out, int n) {
  __shared__ bool last;
  float s = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) s += x[i];
  for (int o = 16; o; o >>= 1) s += __shfl_down_sync(~0u, s, o);
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = s;
    __threadfence();
    last = atomicInc(&finished, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    float all = 0;
    for (int b = 0; b < gridDim.x; b++) all += parts[b];
    *out = all;
  }
}

__global__ void transpose(const float* x, float* out, int rows, int cols) {
  __shared__ float tile[32][33];
  int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 32 + threadIdx.y;
  for (int k = 0; k < 32; k += 8) if (r + k < rows && c < cols) tile[threadIdx.y + k][threadIdx.x] = x[(r + k) * cols + c];
  __syncthreads();
  int tc = blockIdx.y * 32 + threadIdx.x, tr = blockIdx.x * 32 + threadIdx.y;
  for (int k = 0; k < 32; k += 8) if (tr + k < cols && tc < rows) out[(tr + k) * rows + tc] = tile[threadIdx.x][threadIdx.y + k];
}

__global__ void matmul(const float* a, const float* b, float* c, int m, int n, int k) {
  __shared__ float ta[16][16], tb[16][16];
  int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
  float s = 0;
  for (int t = 0; t < k; t += 16) {
    ta[threadIdx.y][threadIdx.x] = row < m && t + threadIdx.x < k ? a[row * k + t + threadIdx.x] : 0;
    tb[threadIdx.y][threadIdx.x] = col < n && t + threadIdx.y < k ? b[(t + threadIdx.y) * n + col] : 0;
    __syncthreads();
    for (int i = 0; i < 16; i++) s += ta[threadIdx.y][i] * tb[i][threadIdx.x];
    __syncthreads();
  }
  if (row < m && col < n) c[row * n + col] = s;
}

__global__ void histogram(const int* x, int* out, int n) {
  __shared__ int bins[64];
  if (threadIdx.x < 64) bins[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&bins[x[i] & 63], 1);
  __syncthreads();
  if (threadIdx.x < 64) atomicAdd(&out[threadIdx.x], bins[threadIdx.x]);
}

__global__ void scan(const int* x, int* out) {  // one block, inclusive
  __shared__ int buffer[2][256];
  int t = threadIdx.x, now = 0;
  buffer[0][t] = x[t];
  __syncthreads();
  for (int o = 1; o < blockDim.x; o *= 2) {
    buffer[1 - now][t] = buffer[now][t] + (t >= o ? buffer[now][t - o] : 0);
    now = 1 - now;
    __syncthreads();
  }
  out[t] = buffer[now][t];
}

__global__ void sort(int* x) {  // one block, bitonic
  __shared__ int s[256];
  int t = threadIdx.x;
  s[t] = x[t];
  __syncthreads();
  for (int k = 2; k <= blockDim.x; k *= 2)
    for (int j = k / 2; j; j /= 2) {
      int p = t ^ j;
      if (p > t && (s[t] > s[p]) == ((t & k) == 0)) { int v = s[t]; s[t] = s[p]; s[p] = v; }
      __syncthreads();
    }
  x[t] = s[t];
}

__global__ void compact(const int* x, int* out, int* count, int n) {  // a place for each warp's positive numbers
  int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31;
  bool keep = i < n && x[i] > 0;
  unsigned kept = __ballot_sync(~0u, keep);
  int start = 0;
  if (lane == 0) start = atomicAdd(count, __popc(kept));
  start = __shfl_sync(~0u, start, 0);
  if (keep) out[start + __popc(kept & ((1u << lane) - 1))] = x[i];
}

__global__ void early_exit(const float* x, float* out, int n) {
  __shared__ float s[64];
  if (threadIdx.x >= n) return;
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = s[n - 1 - threadIdx.x];
}

__global__ void pipelined(const float* x, float* out, int tiles) {  // copies two tiles ahead of their use
  __shared__ float4 buffer[3][32];
  int t = threadIdx.x;
  const float4* from = reinterpret_cast<const float4*>(x);
  for (int k = 0; k < 2; k++) {
    if (k < tiles) __pipeline_memcpy_async(&buffer[k][t], &from[k * 32 + t], 16);
    __pipeline_commit();
  }
  float s = 0;
  for (int k = 0; k < tiles; k++) {
    __pipeline_wait_prior(1);
    __syncthreads();
    float4 v = buffer[k % 3][(t + 1) % 32];
    s += v.x + 2 * v.y + 3 * v.z + 4 * v.w;
    if (k + 2 < tiles) __pipeline_memcpy_async(&buffer[(k + 2) % 3][t], &from[(k + 2) * 32 + t], 16);
    __pipeline_commit();
  }
  out[t] = s;
}

__global__ void warp_exchange(const int* x, int* out) {
  __shared__ int s[64];
  int t = threadIdx.x;
  s[t] = x[t];
  __syncwarp();
  int v = s[t ^ 1];
  __syncwarp();
  s[t] = v * 2;
  __syncwarp();
  out[t] = s[t ^ 3];
}

__global__ void collatz(const int* x, int* steps) {  // every lane leaves the loop at another time
  int v = x[threadIdx.x], n = 0;
  while (v != 1) { v = v % 2 ? 3 * v + 1 : v / 2; n++; }
  steps[threadIdx.x] = n;
  int most = __reduce_max_sync(~0u, n);
  steps[threadIdx.x + 32] = most;
}

__global__ void lane_lock(int* lock, int* total) {  // lanes of one warp take a lock by turns
  bool done = false;
  while (!done) {
    if (atomicCAS(lock, 0, 1) == 0) {
      __threadfence();
      *total += threadIdx.x;
      __threadfence();
      atomicExch(lock, 0);
      done = true;
    }
  }
}

__global__ void producer(const int* x, int* out) {  // warps meet in pairs at a named barrier
  __shared__ int s[32];
  int lane = threadIdx.x & 31;
  if (threadIdx.x < 32) {
    s[lane] = x[lane] * 3;
    asm volatile("bar.arrive 1, 64;" ::: "memory");
  } else {
    asm volatile("bar.sync 1, 64;" ::: "memory");
    out[lane] = s[31 - lane];
  }
}

__device__ void arrive(uint64_t* b) {
  asm volatile("{ .reg .b64 t; mbarrier.arrive.shared.b64 t, [%0]; }" ::"r"((unsigned)__cvta_generic_to_shared(b)) : "memory");
}
__device__ void wait(uint64_t* b, unsigned parity) {
  unsigned over = 0;
  while (!over)
    asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.b32 %0, 1, 0, p; }"
                 : "=r"(over) : "r"((unsigned)__cvta_generic_to_shared(b)), "r"(parity) : "memory");
}
__global__ void ring(const int* x, int* out, int rounds) {  // one warp fills a place, another empties it
  __shared__ uint64_t full, empty;
  __shared__ int place[32];
  int lane = threadIdx.x & 31, total = 0;
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared.b64 [%0], 32;" ::"r"((unsigned)__cvta_generic_to_shared(&full)) : "memory");
    asm volatile("mbarrier.init.shared.b64 [%0], 32;" ::"r"((unsigned)__cvta_generic_to_shared(&empty)) : "memory");
  }
  __syncthreads();
  for (int r = 0; r < rounds; r++) {
    if (threadIdx.x < 32) {
      if (r) wait(&empty, (r - 1) & 1);
      place[lane] = x[r * 32 + lane];
      arrive(&full);
    } else {
      wait(&full, r & 1);
      total += place[31 - lane];
      arrive(&empty);
    }
  }
  if (threadIdx.x >= 32) out[lane] = total;
}

__global__ void hand_over(int* flags, int* data, int* out) {  // each block waits for the one before it
  if (threadIdx.x == 0) {
    int b = blockIdx.x, v = 1;
    if (b > 0) {
      while (atomicAdd(&flags[b - 1], 0) == 0) {}
      __threadfence();
      v = data[b - 1] + 1;
    }
    data[b] = v;
    __threadfence();
    atomicExch(&flags[b], 1);
    out[b] = v;
  }
}

__global__ void half_axpy(const __half2* x, __half2* y, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = __hfma2(__float2half2_rn(a), x[i], y[i]);
}

__device__ __noinline__ double slope(const double* table, int n, double at) {
  double local[8];
  for (int i = 0; i < 8; i++) local[i] = table[(i + n) & 7] * at;
  return local[n & 7] - local[(n + 3) & 7];
}
__constant__ double table[8] = {1, 2, 4, 8, 16, 32, 64, 128};
__global__ void calls(const double* x, double* out, int n) {
  int i = threadIdx.x;
  double v = slope(table, i, x[i]);
  switch (i % 6) {
    case 0: v += 1; break;
    case 1: v *= 2; break;
    case 2: v -= slope(table, n, v); break;
    case 3: v = sqrt(fabs(v)); break;
    case 4: v = -v; break;
    default: v = v / 3; break;
  }
  out[i] = v;
}

}  // extern "C"
