// Kernels of hopper.py that need sm_90, and matrices. F plants a fault, as in blocks.cu.
#include <cooperative_groups.h>
#include <cuda.h>
#include <cuda/ptx>
#include <cuda_pipeline.h>
#include <mma.h>
namespace cg = cooperative_groups;
namespace ptx = cuda::ptx;
#define SYNC(k) if constexpr (F != k) __syncthreads()
constexpr int B = 64;

// Products of 16 x 16 tiles by one warp, through shared memory.
template <class T, int F> __device__ void pieces(const T* a, const T* b, float* c, int k) {
  using namespace nvcuda;
  __shared__ __align__(32) T s[16 * 16];
  wmma::fragment<wmma::matrix_a, 16, 16, 16, T, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, T, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
  wmma::fill_fragment(fc, 0.0f);
  for (int x = 0; x < k; x += 16) {
    for (int i = threadIdx.x; i < 256; i += 32) s[i] = a[(blockIdx.x * 16 + i / 16) * k + x + i % 16];
    if constexpr (F != 1) __syncwarp();
    wmma::load_matrix_sync(fa, s, 16);
    wmma::load_matrix_sync(fb, b + x + (F == 3 ? 16 : 0), k);
    wmma::mma_sync(fc, fa, fb, fc);
    if constexpr (F != 2) __syncwarp();
  }
  wmma::store_matrix_sync(c + blockIdx.x * 256, fc, 16, wmma::mem_row_major);
}
// Sums of tiles that are copied two ahead by cp.async.
template <class T, int F> __device__ void pipeline(const T* x, T* out, int tiles) {
  __shared__ T s[3][B];
  const int t = threadIdx.x;
  x += blockIdx.x * tiles * B;
  T sum = 0;
  auto copy = [&](int tile) {
    if (tile < tiles) __pipeline_memcpy_async(&s[tile % 3][t], &x[tile * B + t], sizeof(T));
    __pipeline_commit();
  };
  copy(0), copy(1);
  for (int i = 0; i < tiles; i++) {
    copy(i + 2);
    if constexpr (F != 1) __pipeline_wait_prior(F == 2 ? 3 : 2);
    SYNC(3);
    sum += s[i % 3][B - 1 - t];
    SYNC(4);
  }
  if (F != 5) __pipeline_wait_prior(0);
  else if (tiles) copy(0);
  out[blockIdx.x * B + t] = sum;
}
// Doubles tiles of 8 x 16 that come and go by TMA.
template <class T, int F> __device__ void tiles(const CUtensorMap& m) {
  __shared__ alignas(128) T s[8][16];
  __shared__ alignas(8) uint64_t bar;
  const int x = threadIdx.x % 16, y = threadIdx.x / 16;
  const int place[2] = {int(blockIdx.x) * 16, int(blockIdx.y) * 8};
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&bar, 1);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
  }
  SYNC(6);
  if (threadIdx.x == 0) {
    ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, s, &m, place, &bar);
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &bar, F == 1 ? 16 : F == 2 ? 1024 : sizeof s);
  }
  if constexpr (F != 3) while (!ptx::mbarrier_try_wait_parity(&bar, 0)) {}
  s[y][x] += s[y][x];
  if constexpr (F != 4) ptx::fence_proxy_async(ptx::space_shared);
  SYNC(5);
  if (threadIdx.x == 0) {
    ptx::cp_async_bulk_tensor(ptx::space_global, ptx::space_shared, &m, place, s);
    ptx::cp_async_bulk_commit_group();
    if constexpr (F != 7) ptx::cp_async_bulk_wait_group(ptx::n32_t<0>());
  }
}
// Sums of two blocks, added up in the first one's shared memory.
template <class T, int F> __device__ void together(const T* x, T* out) {
  __shared__ T sum;
  auto cluster = cg::this_cluster();
  if (threadIdx.x == 0 && F != 3) sum = 0;
  if constexpr (F != 1) cluster.sync();
  T* first = cluster.map_shared_rank(&sum, F == 5 ? 3 : 0);
  if constexpr (F == 4) *first += x[blockIdx.x * B + threadIdx.x];
  else atomicAdd(first, x[blockIdx.x * B + threadIdx.x]);
  if constexpr (F != 2) cluster.sync();
  if (cluster.block_rank() == 0 && threadIdx.x == 0) out[blockIdx.x / 2] = sum;
}
// Each block mirrors its neighbour's values.
template <class T, int F> __device__ void neighbours(const T* x, T* out) {
  __shared__ T s[B];
  auto cluster = cg::this_cluster();
  s[threadIdx.x] = x[blockIdx.x * B + threadIdx.x];
  if constexpr (F == 1) __syncthreads();
  else cluster.sync();
  out[blockIdx.x * B + threadIdx.x] = cluster.map_shared_rank(s, cluster.block_rank() ^ 1)[F == 3 ? B - threadIdx.x : B - 1 - threadIdx.x];
  if constexpr (F != 2) cluster.sync();
}
#define INSTANCE(name, T, F) INSTANCE_##name(name##_##T##_##F, T, F)
#define ENTRY(full, given, call) extern "C" __global__ void full given { call; }
#define CLUSTER(full, given, call) extern "C" __global__ void __cluster_dims__(2, 1, 1) full given { call; }
#define INSTANCE_pieces(full, T, F) \
  ENTRY(full, (const T* a, const T* b, float* c, int k), (pieces<T, F>(a, b, c, k)))
#define INSTANCE_pipeline(full, T, F) ENTRY(full, (const T* x, T* out, int n), (pipeline<T, F>(x, out, n)))
#define INSTANCE_tiles(full, T, F) ENTRY(full, (const __grid_constant__ CUtensorMap m), (tiles<T, F>(m)))
#define INSTANCE_together(full, T, F) CLUSTER(full, (const T* x, T* out), (together<T, F>(x, out)))
#define INSTANCE_neighbours(full, T, F) CLUSTER(full, (const T* x, T* out), (neighbours<T, F>(x, out)))
