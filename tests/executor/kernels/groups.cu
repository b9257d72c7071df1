// Right kernels that synchronise by cooperative groups and the CUDA C++ library's own objects.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cuda/barrier>
#include <cuda/latch>
#include <cuda/pipeline>
#include <cuda/semaphore>
namespace cg = cooperative_groups;

extern "C" {

__global__ void tiles(const int* x, int* out) {
  __shared__ int s[128];
  auto block = cg::this_thread_block();
  auto tile = cg::tiled_partition<8>(block);
  int t = threadIdx.x;
  s[t] = x[t];
  tile.sync();
  int v = s[t ^ 7];
  tile.sync();
  s[t] = cg::reduce(tile, v, cg::plus<int>());
  tile.sync();
  int w = cg::inclusive_scan(tile, s[t ^ 3]);
  block.sync();
  out[t] = w + s[127 - t];
}

__global__ void aggregated(const int* x, int* count, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && x[i] > 0) {
    cg::coalesced_group g = cg::coalesced_threads();
    int start = 0;
    if (g.thread_rank() == 0) start = atomicAdd(count, int(g.size()));
    out[g.shfl(start, 0) + g.thread_rank()] = x[i];
  }
}

__global__ void barrier_copy(const float* x, float* out, int tiles) {
  __shared__ alignas(16) float s[2][128];
  __shared__ cuda::barrier<cuda::thread_scope_block> bar[2];
  auto block = cg::this_thread_block();
  if (threadIdx.x == 0) { init(&bar[0], blockDim.x); init(&bar[1], blockDim.x); }
  block.sync();
  cuda::memcpy_async(block, s[0], x, cuda::aligned_size_t<16>(512), bar[0]);
  float total = 0;
  for (int k = 0; k < tiles; k++) {
    const int next = k + 1;
    if (next < tiles)
      cuda::memcpy_async(block, s[next % 2], x + next * 128, cuda::aligned_size_t<16>(512), bar[next % 2]);
    bar[k % 2].arrive_and_wait();
    total += s[k % 2][127 - threadIdx.x];
    block.sync();
  }
  out[threadIdx.x] = total;
}

__global__ void roles(const float* x, float* out, int tiles) {
  constexpr int stages = 2;
  __shared__ alignas(16) float s[stages][64];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, stages> state;
  auto block = cg::this_thread_block();
  auto role = threadIdx.x < 64 ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer;
  auto pipe = cuda::make_pipeline(block, &state, role);
  if (role == cuda::pipeline_role::producer) {
    for (int k = 0; k < tiles; k++) {
      pipe.producer_acquire();
      cuda::memcpy_async(&s[k % stages][threadIdx.x], &x[k * 64 + threadIdx.x], sizeof(float), pipe);
      pipe.producer_commit();
    }
  } else {
    float total = 0;
    int t = threadIdx.x - 64;
    for (int k = 0; k < tiles; k++) {
      pipe.consumer_wait();
      total += s[k % stages][63 - t];
      pipe.consumer_release();
    }
    out[t] = total;
  }
}

__global__ void latched(const int* x, int* out) {
  __shared__ alignas(16) char room[sizeof(cuda::latch<cuda::thread_scope_block>)];
  auto& l = *reinterpret_cast<cuda::latch<cuda::thread_scope_block>*>(room);
  __shared__ int s[64];
  int t = threadIdx.x;
  if (t == 0) new (&l) cuda::latch<cuda::thread_scope_block>(64);
  __syncthreads();
  s[t] = x[t];
  l.arrive_and_wait();
  out[t] = s[63 - t];
}

__global__ void split_barrier(const int* x, int* out) {
  __shared__ cuda::barrier<cuda::thread_scope_block> bar;
  __shared__ int s[64];
  int t = threadIdx.x;
  if (t == 0) init(&bar, blockDim.x);
  __syncthreads();
  for (int k = 0; k < 3; k++) {
    s[t] = x[t] + k;
    auto token = bar.arrive();
    int v = x[63 - t] * k;
    bar.wait(std::move(token));
    out[k * 64 + t] = s[63 - t] + v;
    bar.arrive_and_wait();
  }
}

__global__ void scheduler(const float* x, float* out, int* next, int tiles) {
  __shared__ int tile;
  while (true) {
    __syncthreads();
    if (threadIdx.x == 0) tile = atomicAdd(next, 1);
    __syncthreads();
    if (tile >= tiles) break;
    out[tile * 64 + threadIdx.x] = x[tile * 64 + threadIdx.x] * 2;
  }
}

__global__ void semaphore(int* data) {
  __shared__ alignas(16) char room[sizeof(cuda::counting_semaphore<cuda::thread_scope_block, 1>)];
  auto& s = *reinterpret_cast<cuda::counting_semaphore<cuda::thread_scope_block, 1>*>(room);
  if (threadIdx.x == 0) new (&s) cuda::counting_semaphore<cuda::thread_scope_block, 1>(1);
  __syncthreads();
  if (threadIdx.x % 32 == 0) { s.acquire(); *data += 1; s.release(); }
}

__global__ void group_copy(const int* x, int* out) {
  __shared__ int s[4][32];
  auto block = cg::this_thread_block();
  auto tile = cg::tiled_partition<32>(block);
  int w = threadIdx.x / 32;
  cg::memcpy_async(tile, s[w], x + w * 32, sizeof(int) * 32);
  cg::wait(tile);
  out[threadIdx.x] = s[w][31 - threadIdx.x % 32];
  block.sync();
  out[threadIdx.x] += s[3 - w][threadIdx.x % 32];
}

__global__ void labels(const int* x, int* out) {
  auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  int v = x[threadIdx.x];
  auto group = cg::labeled_partition(warp, v & 3);
  int sum = cg::reduce(group, v, cg::plus<int>());
  auto two = cg::binary_partition(warp, v & 1);
  out[threadIdx.x] = sum + cg::reduce(two, v, cg::greater<int>()) + int(two.size());
}

__global__ void grid_halves(const int* x, int* tmp, int* out) {
  auto grid = cg::this_grid();
  int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
  tmp[i] = x[i] * 2;
  auto token = grid.barrier_arrive();
  int v = x[n - 1 - i];
  grid.barrier_wait(std::move(token));
  out[i] = tmp[n - 1 - i] + v;
}

}  // extern "C"
