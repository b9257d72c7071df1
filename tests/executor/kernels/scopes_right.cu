// Right kernels of the same kinds as those of scopes_faulty.cu: the sanitiser must find nothing in them.
#include <cooperative_groups.h>
#include <cuda/atomic>
#include <cuda/ptx>
#include <cuda_pipeline.h>

#include <cstdint>
namespace cg = cooperative_groups;
namespace ptx = cuda::ptx;

extern "C" {

__global__ void block_message(const int* x, int* out) {
  __shared__ int flag, data[32];
  int t = threadIdx.x;
  if (t == 0) flag = 0;
  __syncthreads();
  cuda::atomic_ref<int, cuda::thread_scope_block> f(flag);
  if (t < 32) {
    data[t] = x[t];
    __syncwarp();
    if (t == 0) f.store(1, cuda::memory_order_release);
  } else {
    if (t == 32) while (f.load(cuda::memory_order_acquire) == 0) {}
    __syncwarp();
    out[t - 32] = data[63 - t];
  }
}

__global__ void device_message(int* flags, int* data, int* out) {
  int b = blockIdx.x, t = threadIdx.x, v = t;
  if (b > 0) {
    if (t == 0) {
      cuda::atomic_ref<int, cuda::thread_scope_device> before(flags[b - 1]);
      while (before.load(cuda::memory_order_acquire) == 0) {}
    }
    __syncthreads();
    v = data[(b - 1) * 64 + 63 - t] + 1;
  }
  data[b * 64 + t] = v;
  out[b * 64 + t] = v;
  __syncthreads();
  if (t == 0) cuda::atomic_ref<int, cuda::thread_scope_device>(flags[b]).store(1, cuda::memory_order_release);
}

__global__ void histogram_block(const int* x, int* out) {  // a row of counts for each block, by atomics of block scope
  const int* own = x + blockIdx.x * 256;
  for (int i = threadIdx.x; i < 256; i += blockDim.x) atomicAdd_block(&out[blockIdx.x * 8 + (own[i] & 7)], 1);
}

__global__ void halves(const int* x, int* out) {
  __shared__ uint64_t full;
  __shared__ int place[16];
  int t = threadIdx.x;
  if (t == 0) ptx::mbarrier_init(&full, 16);
  __syncthreads();
  if (t < 16) {
    place[t] = x[t] * 2;
    ptx::mbarrier_arrive(&full);
  } else {
    while (!ptx::mbarrier_try_wait_parity(&full, 0)) {}
    out[t - 16] = place[31 - t];
  }
}

__global__ void chain(const int* x, int* out) {
  __shared__ int s[32];
  int t = threadIdx.x;
  if (t == 0) s[0] = x[0];
  if (t < 2) __syncwarp(0b011);
  if (t == 1 || t == 2) __syncwarp(0b110);
  if (t == 2) out[0] = s[0];
}

__global__ void ring(const float* x, float* out, int tiles) {
  constexpr int S = 3;
  __shared__ alignas(128) float a[S][64];
  __shared__ alignas(128) float b[S][32];
  __shared__ uint64_t full[S], empty[S];
  int t = threadIdx.x;
  if (t == 0) {
    for (int i = 0; i < S; i++) { ptx::mbarrier_init(&full[i], 1); ptx::mbarrier_init(&empty[i], 2); }
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
  }
  __syncthreads();
  if (t < 32) {
    if (t == 0)
      for (int k = 0; k < tiles; k++) {
        int slot = k % S;
        while (!ptx::mbarrier_try_wait_parity(&empty[slot], ((k / S) & 1) ^ 1)) {}
        ptx::mbarrier_expect_tx(ptx::sem_relaxed, ptx::scope_cta, ptx::space_shared, &full[slot], 384);
        ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, a[slot], x + 96 * k, 256, &full[slot]);
        ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, b[slot], x + 96 * k + 64, 128, &full[slot]);
        ptx::mbarrier_arrive(&full[slot]);
      }
  } else {
    int u = t - 32;
    float total = 0;
    for (int k = 0; k < tiles; k++) {
      int slot = k % S;
      while (!ptx::mbarrier_try_wait_parity(&full[slot], (k / S) & 1)) {}
      total += a[slot][63 - u] + b[slot][u % 32];
      __syncwarp();
      if (u % 32 == 0) ptx::mbarrier_arrive(&empty[slot]);
    }
    out[u] = total;
  }
}

__global__ void __cluster_dims__(2, 1, 1) relaxed_cluster(const float* x, float* out) {
  __shared__ float s[64];
  auto cluster = cg::this_cluster();
  int t = threadIdx.x;
  s[t] = x[blockIdx.x * 64 + t];
  asm volatile("fence.acq_rel.cluster;" ::: "memory");
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
  out[blockIdx.x * 64 + t] = cluster.map_shared_rank(s, cluster.block_rank() ^ 1)[63 - t];
  cluster.sync();
}

__global__ void each_by_itself(const int* x, int* out) {  // barrier.sync without .aligned, from two branches
  __shared__ int s[64];
  int t = threadIdx.x;
  if (t % 2) { s[t] = x[t]; asm volatile("barrier.sync 0;" ::: "memory"); out[t] = s[t ^ 1]; }
  else { s[t] = 2 * x[t]; asm volatile("barrier.sync 0;" ::: "memory"); out[t] = s[t ^ 1] + 1; }
}

__global__ void fixup(const float* x, float* parts, int* flags, float* out) {
  int b = blockIdx.x, t = threadIdx.x;
  if (b % 2) {
    parts[b * 64 + t] = x[b * 64 + t];
    __syncthreads();
    if (t == 0) asm volatile("fence.acq_rel.gpu; red.relaxed.gpu.global.add.s32 [%0], 1;" ::"l"(flags + b) : "memory");
  } else {
    float v = x[b * 64 + t];
    int f = t;  // others than thread 0 need not wait
    while (f == 0) asm volatile("ld.global.acquire.gpu.b32 %0, [%1];" : "=r"(f) : "l"(flags + b + 1) : "memory");
    __syncthreads();
    out[b / 2 * 64 + t] = v + parts[(b + 1) * 64 + t];
  }
}

__global__ void partial_masks(const int* x, int* out) {
  int t = threadIdx.x, v = x[t];
  unsigned same = __match_any_sync(~0u, v & 3);
  int sum = __reduce_add_sync(same, v);
  unsigned rest = __ballot_sync(~0u, t < 20);
  if (t < 20) {
    int w = v;
    for (int o = 16; o; o >>= 1) { int y = __shfl_down_sync(rest, w, o); if (t + o < 20) w += y; }
    sum += w * (t == 0);
  }
  out[t] = sum;
}

__global__ void warp_volatile(const int* x, int* out) {
  __shared__ volatile int s[64];
  int t = threadIdx.x;
  s[t] = x[t];
  __syncthreads();
  if (t < 32) {
    for (int o = 32; o; o >>= 1) {
      int v = s[t + (t + o < 64 ? o : 0)];
      __syncwarp();
      if (t < o) s[t] = s[t] + v;
      __syncwarp();
    }
    if (t == 0) *out = s[0];
  }
}

__global__ void lamport(const int* x, volatile int2* slots, int* out) {  // flag and value go together
  int t = threadIdx.x;
  if (blockIdx.x == 0) {
    asm volatile("st.volatile.global.v2.s32 [%0], {%1, %2};" ::"l"(slots + t), "r"(x[t]), "r"(1) : "memory");
  } else {
    int v, f;
    do
      asm volatile("ld.volatile.global.v2.s32 {%0, %1}, [%2];" : "=r"(v), "=r"(f) : "l"(slots + t) : "memory");
    while (f != 1);
    out[t] = v * 3;
  }
}

__global__ void double_buffered(const float* x, float* out, int tiles) {
  __shared__ float4 s[2][64];
  int t = threadIdx.x;
  const float4* from = reinterpret_cast<const float4*>(x);
  float total = 0;
  __pipeline_memcpy_async(&s[0][t], &from[t], 16);
  __pipeline_commit();
  for (int k = 0; k < tiles; k++) {
    if (k + 1 < tiles) __pipeline_memcpy_async(&s[(k + 1) % 2][t], &from[(k + 1) * 64 + t], 16);
    __pipeline_commit();
    __pipeline_wait_prior(1);
    __syncthreads();
    total += s[k % 2][63 - t].x;
    __syncthreads();
  }
  out[t] = total;
}

__global__ void bulk_out(const float* x, float* y) {
  __shared__ alignas(128) float s[64];
  int t = threadIdx.x;
  for (int k = 0; k < 3; k++) {
    if (t == 0) ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());
    __syncthreads();
    s[t] = x[k * 64 + t];
    ptx::fence_proxy_async(ptx::space_shared);
    __syncthreads();
    if (t == 0) {
      ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, y + k * 64, s, 256);
      ptx::cp_async_bulk_commit_group();
    }
  }
  if (t == 0) ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());
}

__global__ void __cluster_dims__(2, 1, 1) cluster_ring(const float* x, float* out) {
  __shared__ alignas(128) float s[64];
  __shared__ uint64_t full;
  auto cluster = cg::this_cluster();
  int t = threadIdx.x;
  if (t == 0) { ptx::mbarrier_init(&full, 1); ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster); }
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
  if (t == 0) {
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full, 256);
    if (cluster.block_rank() == 0) {
      uint16_t mask = 3;
      ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, s, x + blockIdx.x * 64, 256, &full, mask);
    }
  }
  while (!ptx::mbarrier_try_wait_parity(&full, 0)) {}
  out[blockIdx.x * 64 + t] = s[63 - t];
  cluster.sync();
}

}  // extern "C"
