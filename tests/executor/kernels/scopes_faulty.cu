// Each kernel holds one fault of scopes, barriers that count, asynchronous copies, or lanes that meet in part.
#include <cooperative_groups.h>
#include <cuda/atomic>
#include <cuda/ptx>
#include <cuda_pipeline.h>

#include <cstdint>
namespace cg = cooperative_groups;
namespace ptx = cuda::ptx;

extern "C" {

__device__ unsigned done1 = 0;
__global__ void block_fence(const float* x, float* parts, float* out) {
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = x[blockIdx.x];
    __threadfence_block();
    if (atomicInc(&done1, gridDim.x - 1) == gridDim.x - 1) {
      __threadfence();
      float all = 0;
      for (int b = 0; b < gridDim.x; b++) all += parts[b];
      *out = all;
    }
  }
}

__global__ void block_atomic(const float* x, float* out) {
  atomicAdd_block(out, x[blockIdx.x * blockDim.x + threadIdx.x]);
}

__global__ void block_scope_flag(int* flags, int* data, int* out) {
  int b = blockIdx.x;
  if (threadIdx.x == 0) {
    int v = 1;
    if (b > 0) {
      cuda::atomic_ref<int, cuda::thread_scope_block> before(flags[b - 1]);
      while (before.load(cuda::memory_order_acquire) == 0) {}
      v = data[b - 1] + 1;
    }
    data[b] = v;
    cuda::atomic_ref<int, cuda::thread_scope_block> mine(flags[b]);
    mine.store(1, cuda::memory_order_release);
    out[b] = v;
  }
}

__global__ void ldg_after_write(const float* x, float* tmp, float* out) {
  int t = threadIdx.x;
  tmp[t] = 2 * x[t];
  __syncthreads();
  out[t] = __ldg(&tmp[blockDim.x - 1 - t]);
}

__global__ void barrier_counts(const int* x, int* out) {
  __shared__ int s[32];
  int lane = threadIdx.x & 31;
  if (threadIdx.x < 32) {
    s[lane] = x[lane];
    asm volatile("bar.arrive 1, 96;" ::: "memory");
  } else {
    asm volatile("bar.sync 1, 64;" ::: "memory");
    out[lane] = s[31 - lane];
  }
}

__global__ void init_without_sync(const int* x, int* out) {
  __shared__ uint64_t full;
  __shared__ int place[32];
  int lane = threadIdx.x & 31;
  if (threadIdx.x == 0) ptx::mbarrier_init(&full, 32);
  if (threadIdx.x < 32) {
    __syncwarp();
    place[lane] = x[lane];
    ptx::mbarrier_arrive(&full);
  } else {
    while (!ptx::mbarrier_try_wait_parity(&full, 0)) {}
    out[lane] = place[31 - lane];
  }
}

__global__ void shuffle_unnamed(const int* x, int* out) {
  int t = threadIdx.x, v = x[t];
  if (t < 16) out[t] = __shfl_sync(0xffff, v, t + 8);
}

__global__ void one_waits_all_read(int* flag, int* data, int* out) {
  int t = threadIdx.x;
  if (blockIdx.x == 0) {
    data[t] = t;
    __syncthreads();
    if (t == 0) { __threadfence(); atomicExch(flag, 1); }
  } else {
    if (t == 0) { while (atomicAdd(flag, 0) == 0) {} __threadfence(); }
    if (t >= 32) for (int k = 0; k < 200; k++) __nanosleep(1);  // the first warp has long seen the flag
    out[t] = data[t];
  }
}

__global__ void read_wait_only(const float* x, float* y, float* out) {
  __shared__ alignas(128) float s[64];
  int t = threadIdx.x;
  s[t] = x[t];
  ptx::fence_proxy_async(ptx::space_shared);
  __syncthreads();
  if (t == 0) {
    ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, y, s, 256);
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());
  }
  __syncthreads();
  out[t] = y[63 - t];
}

__global__ void stale_parity(const int* x, int* out, int rounds) {
  __shared__ uint64_t full, empty;
  __shared__ int place[32];
  int lane = threadIdx.x & 31, total = 0;
  if (threadIdx.x == 0) { ptx::mbarrier_init(&full, 32); ptx::mbarrier_init(&empty, 32); }
  __syncthreads();
  for (int r = 0; r < rounds; r++) {
    if (threadIdx.x < 32) {
      if (r) while (!ptx::mbarrier_try_wait_parity(&empty, (r - 1) & 1)) {}
      place[lane] = x[r * 32 + lane];
      ptx::mbarrier_arrive(&full);
    } else {
      while (!ptx::mbarrier_try_wait_parity(&full, 0)) {}
      total += place[31 - lane];
      ptx::mbarrier_arrive(&empty);
    }
  }
  if (threadIdx.x >= 32) out[lane] = total;
}

__global__ void count_too_small(const int* x, int* out) {
  __shared__ uint64_t full;
  __shared__ int place[64];
  int t = threadIdx.x;
  if (t == 0) ptx::mbarrier_init(&full, 32);
  __syncthreads();
  if (t < 64) { place[t] = x[t]; ptx::mbarrier_arrive(&full); }
  else { while (!ptx::mbarrier_try_wait_parity(&full, 0)) {} out[t - 64] = place[t - 64] + place[t - 32]; }
}

__global__ void no_empty_wait(const float* x, float* out, int tiles) {
  __shared__ alignas(128) float s[2][32];
  __shared__ uint64_t full[2];
  int lane = threadIdx.x & 31;
  if (threadIdx.x == 0) ptx::mbarrier_init(&full[0], 1), ptx::mbarrier_init(&full[1], 1);
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int k = 0; k < tiles; k++) {
      int slot = k % 2;
      if (k >= 2) while (!ptx::mbarrier_try_wait_parity(&full[slot], (k / 2 - 1) & 1)) {}
      ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full[slot], 128);
      ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, s[slot], x + 32 * k, 128, &full[slot]);
    }
  } else if (threadIdx.x >= 32) {
    float total = 0;
    for (int k = 0; k < tiles; k++) {
      while (!ptx::mbarrier_try_wait_parity(&full[k % 2], (k / 2) & 1)) {}
      total += s[k % 2][lane];
    }
    out[lane] = total;
  }
}

__global__ void early_release(const int* x, int* out, int rounds) {
  __shared__ uint64_t full, empty;
  __shared__ int place[32];
  int lane = threadIdx.x & 31, total = 0;
  if (threadIdx.x == 0) { ptx::mbarrier_init(&full, 32); ptx::mbarrier_init(&empty, 32); }
  __syncthreads();
  for (int r = 0; r < rounds; r++) {
    if (threadIdx.x < 32) {
      if (r) while (!ptx::mbarrier_try_wait_parity(&empty, (r - 1) & 1)) {}
      place[lane] = x[r * 32 + lane];
      ptx::mbarrier_arrive(&full);
    } else {
      while (!ptx::mbarrier_try_wait_parity(&full, r & 1)) {}
      ptx::mbarrier_arrive(&empty);
      total += place[31 - lane];
    }
  }
  if (threadIdx.x >= 32) out[lane] = total;
}

__global__ void tile_sync_too_small(const int* x, int* out) {
  __shared__ int s[32];
  auto tile = cg::tiled_partition<16>(cg::this_thread_block());
  int t = threadIdx.x;
  s[t] = x[t];
  tile.sync();
  out[t] = s[31 - t];
}

__global__ void stale_volatile_lock(int* lock, int* total) {
  if (threadIdx.x == 0) {
    while (atomicCAS(lock, 0, 1) != 0) {}
    __threadfence();
    *total += 1;
    *(volatile int*)lock = 0;  // no fence before
  }
}

__global__ void one_group(const float* x, float* out, int tiles) {
  __shared__ float4 s[2][32];
  int t = threadIdx.x;
  const float4* from = reinterpret_cast<const float4*>(x);
  float total = 0;
  __pipeline_memcpy_async(&s[0][t], &from[t], 16);
  for (int k = 0; k < tiles; k++) {
    if (k + 1 < tiles) __pipeline_memcpy_async(&s[(k + 1) % 2][t], &from[(k + 1) * 32 + t], 16);
    __pipeline_commit();
    __pipeline_wait_prior(1);
    __syncthreads();
    total += s[k % 2][31 - t].x;
    __syncthreads();
  }
  __pipeline_wait_prior(0);
  out[t] = total;
}

}  // extern "C"
