// Each kernel holds one fault that a test looks for.
#include <cuda_pipeline.h>

extern "C" {

__global__ void no_tail_mask(const float* x, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = x[i] + 1;
}

__global__ void one_too_far(const float* x, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i <= n) out[i] = x[i] + 1;
}

__global__ void before_start(const float* x, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i - 1];
}

__global__ void no_barrier(const float* x, float* out) {
  __shared__ float s[128];
  s[threadIdx.x] = x[threadIdx.x];
  out[threadIdx.x] = s[127 - threadIdx.x];
}

__global__ void no_second_barrier(const float* x, float* out) {  // a tile is overwritten while others read it
  __shared__ float s[128];
  float total = 0;
  for (int k = 0; k < 4; k++) {
    s[threadIdx.x] = x[k * 128 + threadIdx.x];
    __syncthreads();
    total += s[127 - threadIdx.x];
  }
  out[threadIdx.x] = total;
}

__global__ void barrier_outside_loop(const float* x, float* out) {
  __shared__ float s[128];
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  for (int o = 64; o; o >>= 1)
    if (threadIdx.x < o) s[threadIdx.x] += s[threadIdx.x + o];
  if (threadIdx.x == 0) *out = s[0];
}

__global__ void warp_without_sync(const int* x, int* out) {
  __shared__ int s[32];
  s[threadIdx.x] = x[threadIdx.x];
  out[threadIdx.x] = s[threadIdx.x ^ 1];
}

__global__ void uninitialised_shared(const float* x, float* out, int n) {
  __shared__ float s[128];
  if (threadIdx.x < n) s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = s[threadIdx.x];
}

__global__ void uninitialised_global(float* out, int n) {
  int i = threadIdx.x;
  out[i] += 1;
}

__global__ void barrier_in_branch(const float* x, float* out) {
  __shared__ float s[32];
  s[threadIdx.x] = x[threadIdx.x];
  if (threadIdx.x < 16) {
    __syncthreads();
    s[threadIdx.x] += 1;
  }
  out[threadIdx.x] = s[threadIdx.x];
}

__global__ void barrier_by_turns(float* out) {
  if (threadIdx.x % 2) {
    out[threadIdx.x] = 1;
    __syncthreads();
  } else {
    out[threadIdx.x] = 2;
    asm volatile("bar.sync 0;" ::: "memory");
    out[threadIdx.x] = 3;
  }
}

__global__ void deadlock(float* out) {  // nobody else comes to this barrier
  if (threadIdx.x < 32) asm volatile("bar.sync 2, 128;" ::: "memory");
  out[threadIdx.x] = 1;
}

__global__ void copy_without_wait(const float* x, float* out) {
  __shared__ float4 s[32];
  __pipeline_memcpy_async(&s[threadIdx.x], &reinterpret_cast<const float4*>(x)[threadIdx.x], 16);
  __pipeline_commit();
  __syncthreads();
  out[threadIdx.x] = s[31 - threadIdx.x].x;
  __pipeline_wait_prior(0);
}

__global__ void copy_waits_too_little(const float* x, float* out, int tiles) {
  __shared__ float4 s[2][32];
  int t = threadIdx.x;
  const float4* from = reinterpret_cast<const float4*>(x);
  float total = 0;
  __pipeline_memcpy_async(&s[0][t], &from[t], 16);
  __pipeline_commit();
  for (int k = 0; k < tiles; k++) {
    __pipeline_wait_prior(1);
    __syncthreads();
    total += s[k % 2][31 - t].x;
    __syncthreads();
    if (k + 1 < tiles) __pipeline_memcpy_async(&s[(k + 1) % 2][t], &from[(k + 1) * 32 + t], 16);
    __pipeline_commit();
  }
  __pipeline_wait_prior(0);
  out[t] = total;
}

__global__ void copy_without_barrier(const float* x, float* out) {
  __shared__ float4 s[64];
  __pipeline_memcpy_async(&s[threadIdx.x], &reinterpret_cast<const float4*>(x)[threadIdx.x], 16);
  __pipeline_commit();
  __pipeline_wait_prior(0);
  out[threadIdx.x] = s[63 - threadIdx.x].x;
}

__global__ void copy_left(const float* x, float* out) {
  __shared__ float4 s[32];
  __pipeline_memcpy_async(&s[threadIdx.x], &reinterpret_cast<const float4*>(x)[threadIdx.x], 16);
  __pipeline_commit();
  out[threadIdx.x] = 1;
}

__global__ void mbarrier_without_wait(const int* x, int* out) {
  __shared__ unsigned long long full;
  __shared__ int place[32];
  int lane = threadIdx.x & 31;
  unsigned at = (unsigned)__cvta_generic_to_shared(&full);
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 32;" ::"r"(at) : "memory");
  __syncthreads();
  if (threadIdx.x < 32) {
    place[lane] = x[lane];
    asm volatile("{ .reg .b64 t; mbarrier.arrive.shared.b64 t, [%0]; }" ::"r"(at) : "memory");
  } else {
    out[lane] = place[31 - lane];
  }
}

__global__ void misaligned(const float* x, float* out) {
  float4 v = *reinterpret_cast<const float4*>(x + 1 + threadIdx.x * 4);
  out[threadIdx.x] = v.x + v.y + v.z + v.w;
}

__global__ void blocks_add(const float* x, float* out) { *out += x[blockIdx.x]; }

__device__ unsigned finished = 0;
__global__ void no_fence(const float* x, float* parts, float* out) {
  parts[blockIdx.x] = x[blockIdx.x];
  if (atomicInc(&finished, gridDim.x - 1) == gridDim.x - 1) {
    float all = 0;
    for (int b = 0; b < gridDim.x; b++) all += parts[b];
    *out = all;
  }
}

__global__ void shared_too_far(const float* x, float* out) {
  __shared__ float s[32];
  s[threadIdx.x + 1] = x[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = s[threadIdx.x];
}

__global__ void dynamic_too_small(const float* x, float* out) {
  extern __shared__ float d[];
  d[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = d[threadIdx.x];
}

__global__ void local_too_far(const int* at, int* out) {
  int local[8];
  for (int i = 0; i < 8; i++) local[i] = i * at[i % 4];
  out[threadIdx.x] = local[at[threadIdx.x]];
}

__global__ void mask_lacks_lanes(const int* x, int* out) { out[threadIdx.x] = __shfl_down_sync(0xffff, x[threadIdx.x], 1); }

__global__ void mask_names_too_many(const int* x, int* out) {
  int v = x[threadIdx.x];
  if (threadIdx.x < 16) v = __shfl_down_sync(~0u, v, 1);
  out[threadIdx.x] = v;
}

__global__ void same_place(const float* x, float* out) { out[threadIdx.x / 2] = x[threadIdx.x]; }

__global__ void forever(int* out) {
  volatile int* wait = out;
  while (*wait == 0) {}
  out[1] = 1;
}

__global__ void without_end(int* out, int step) {
  int i = 0;
  while (i != 1) i += step;
  out[0] = i;
}

__global__ void writes_input(float* x) { x[threadIdx.x] = 1; }

__global__ void traps(int* out) {
  if (out[threadIdx.x] > 5) asm volatile("trap;");
  out[threadIdx.x] = 1;
}

}  // extern "C"
