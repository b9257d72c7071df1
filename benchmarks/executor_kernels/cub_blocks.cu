// Kernels of cub_blocks.py: the collectives of CUB, of a warp and of a block, on tiles of B * I values.
#include <cub/cub.cuh>
#define SYNC(k) if constexpr (F != k) __syncthreads()
constexpr int B = 64, I = 4, TILE = B * I;

template <class T> __device__ int load(const T* x, T (&mine)[I], int n, T beyond) {
  const int left = n - blockIdx.x * TILE;
  cub::LoadDirectBlocked(threadIdx.x, x + blockIdx.x * TILE, mine, left, beyond);
  return left;
}
template <class T> __device__ void store(T* out, T (&mine)[I], int left) {
  cub::StoreDirectBlocked(threadIdx.x, out + blockIdx.x * TILE, mine, left);
}
struct Larger {
  template <class T> __device__ T operator()(T a, T b) const { return a < b ? b : a; }
};
struct Less {
  template <class T> __device__ T operator()(T a, T b) const { return a - b; }
};
struct Other {
  template <class T> __device__ bool operator()(T a, T b) const { return a != b; }
};
struct Smaller {
  template <class T> __device__ bool operator()(T a, T b) const { return a < b; }
};

template <class T, cub::BlockScanAlgorithm A> __device__ void sums_before(const T* x, T* out, int n) {
  using Scan = cub::BlockScan<T, B, A>;
  __shared__ typename Scan::TempStorage s;
  T mine[I];
  const int left = load(x, mine, n, T(0));
  Scan(s).InclusiveSum(mine, mine);
  store(out, mine, left);
}
template <class T, int F> __device__ void sums_of_sums(const T* x, T* out, int n) {
  using Scan = cub::BlockScan<T, B, cub::BLOCK_SCAN_WARP_SCANS>;
  __shared__ typename Scan::TempStorage s;
  T mine[I];
  const int left = load(x, mine, n, T(0));
  Scan(s).InclusiveSum(mine, mine);
  SYNC(1);
  Scan(s).InclusiveSum(mine, mine);
  store(out, mine, left);
}
template <class T> __device__ void largest_before(const T* x, T* out, int n) {
  using Scan = cub::BlockScan<T, B>;
  __shared__ typename Scan::TempStorage s;
  T mine[I];
  const int left = load(x, mine, n, T(0));
  Scan(s).ExclusiveScan(mine, mine, T(-100), Larger());
  store(out, mine, left);
}
template <class T, cub::BlockReduceAlgorithm A> __device__ void sum(const T* x, T* out, int n) {
  using Reduce = cub::BlockReduce<T, B, A>;
  __shared__ typename Reduce::TempStorage s;
  T mine[I];
  load(x, mine, n, T(0));
  const T all = Reduce(s).Sum(mine);
  if (threadIdx.x == 0) out[blockIdx.x] = all;
}
template <class T> __device__ void sorted(const T* x, T* out, int n) {
  using Sort = cub::BlockRadixSort<T, B, I>;
  __shared__ typename Sort::TempStorage s;
  T mine[I];
  const int left = load(x, mine, n, T(100));
  Sort(s).Sort(mine);
  store(out, mine, left);
}
template <class T> __device__ void sorted_down(const T* x, T* out, int n) {
  using Sort = cub::BlockRadixSort<T, B, I, int>;
  __shared__ typename Sort::TempStorage s;
  T mine[I];
  int with[I];
  const int left = load(x, mine, n, T(-100));
  for (int i = 0; i < I; i++) with[i] = int(mine[i]) * 2;
  Sort(s).SortDescendingBlockedToStriped(mine, with);
  for (int i = 0; i < I; i++) mine[i] = T(with[i]);
  cub::StoreDirectStriped<B>(threadIdx.x, out + blockIdx.x * TILE, mine, left);
}
template <class T> __device__ void merged(const T* x, T* out, int n) {
  using Sort = cub::BlockMergeSort<T, B, I>;
  __shared__ typename Sort::TempStorage s;
  T mine[I];
  const int left = load(x, mine, n, T(100));
  Sort(s).Sort(mine, Smaller());
  store(out, mine, left);
}
template <class T> __device__ void warps_merged(const T* x, T* out, int n) {
  using Sort = cub::WarpMergeSort<T, I>;
  __shared__ typename Sort::TempStorage s[B / 32];
  T mine[I];
  const int left = load(x, mine, n, T(100));
  Sort(s[threadIdx.x / 32]).StableSort(mine, Smaller());
  store(out, mine, left);
}
template <class T, cub::BlockLoadAlgorithm L, cub::BlockStoreAlgorithm S>
__device__ void moved(const T* x, T* out, int n) {
  using Load = cub::BlockLoad<T, B, I, L>;
  using Store = cub::BlockStore<T, B, I, S>;
  __shared__ union { typename Load::TempStorage load; typename Store::TempStorage store; } s;
  T mine[I];
  const int left = n - blockIdx.x * TILE;
  Load(s.load).Load(x + blockIdx.x * TILE, mine, left, T(0));
  for (int i = 0; i < I; i++) mine[i] = mine[i] * T(2) + T((threadIdx.x * I + i) % 3);
  __syncthreads();
  Store(s.store).Store(out + blockIdx.x * TILE, mine, left);
}
template <class T, int F> __device__ void striped(const T* x, T* out, int n) {
  using Exchange = cub::BlockExchange<T, B, I, true>;
  __shared__ typename Exchange::TempStorage s;
  T mine[I];
  const int left = load(x, mine, n, T(0));
  Exchange(s).BlockedToStriped(mine, mine);
  __syncthreads();
  Exchange(s).StripedToBlocked(mine, mine);
  SYNC(1);
  Exchange(s).BlockedToWarpStriped(mine, mine);
  __syncthreads();
  Exchange(s).WarpStripedToBlocked(mine, mine);
  store(out, mine, left);
}
template <class T> __device__ void differences(const T* x, T* out, int n) {
  using Difference = cub::BlockAdjacentDifference<T, B>;
  __shared__ typename Difference::TempStorage s;
  T mine[I];
  const int left = load(x, mine, n, T(0));
  Difference(s).SubtractLeft(mine, mine, Less());
  store(out, mine, left);
}
template <class T> __device__ void heads(const T* x, T* out, int n) {
  using Flags = cub::BlockDiscontinuity<T, B>;
  __shared__ typename Flags::TempStorage s;
  T mine[I];
  int flags[I];
  const int left = load(x, mine, n, T(0));
  Flags(s).FlagHeads(flags, mine, Other());
  for (int i = 0; i < I; i++) mine[i] = T(flags[i]);
  store(out, mine, left);
}
template <class T> __device__ void warp_sums(const T* x, T* out, int n) {
  using Scan = cub::WarpScan<T>;
  using Reduce = cub::WarpReduce<T, 16>;
  __shared__ typename Scan::TempStorage s[B / 32];
  __shared__ typename Reduce::TempStorage r[B / 16];
  const int at = blockIdx.x * B + threadIdx.x;
  const T mine = at < n ? x[at] : T(0);
  T before;
  Scan(s[threadIdx.x / 32]).ExclusiveSum(mine, before);
  const T all = Reduce(r[threadIdx.x / 16]).Reduce(mine, Larger());
  const T first = __shfl_sync(~0u, all, 0, 16);
  if (at < n) out[at] = before * T(100) + first;
}
template <class T, int F, cub::BlockHistogramAlgorithm A> __device__ void counted(const T* x, T* out, int n) {
  using Histogram = cub::BlockHistogram<unsigned char, B, I, 32, A>;
  __shared__ typename Histogram::TempStorage s;
  __shared__ unsigned counts[32];
  T mine[I];
  unsigned char bins[I];
  load(x, mine, n, T(8));
  for (int i = 0; i < I; i++) bins[i] = static_cast<unsigned char>(int(mine[i]) + 8);
  Histogram(s).Histogram(bins, counts);
  SYNC(1);
  if (threadIdx.x < 32) out[blockIdx.x * 32 + threadIdx.x] = T(counts[threadIdx.x]);
}
template <class T> __device__ void run_lengths(const T* x, T* out, int n) {
  using Decode = cub::BlockRunLengthDecode<T, B, 1, I>;
  __shared__ typename Decode::TempStorage s;
  T value[1] = {x[blockIdx.x * B + threadIdx.x]};
  unsigned length[1] = {unsigned(threadIdx.x == B - 1 ? 4 : 1 + threadIdx.x % 7)}, total = 0;
  Decode decode(s, value, length, total);
  T mine[I];
  for (unsigned from = 0; from < total; from += TILE) {
    decode.RunLengthDecode(mine, from);
    for (int i = 0; i < I; i++)
      if (const unsigned at = from + threadIdx.x * I + i; at < total) out[blockIdx.x * TILE + at] = mine[i];
    __syncthreads();
  }
}
#define INSTANCE(name, T, F) INSTANCE_##name(name##_##T##_##F, T, F)
#define ENTRY(full, T, ...) \
  extern "C" __global__ void full(const T* x, T* out, int n) { __VA_ARGS__(x, out, n); }
#define INSTANCE_scan_raking(full, T, F) ENTRY(full, T, sums_before<T, cub::BLOCK_SCAN_RAKING>)
#define INSTANCE_scan_memoize(full, T, F) ENTRY(full, T, sums_before<T, cub::BLOCK_SCAN_RAKING_MEMOIZE>)
#define INSTANCE_scan_warps(full, T, F) ENTRY(full, T, sums_before<T, cub::BLOCK_SCAN_WARP_SCANS>)
#define INSTANCE_twice(full, T, F) ENTRY(full, T, sums_of_sums<T, F>)
#define INSTANCE_scan_larger(full, T, F) ENTRY(full, T, largest_before<T>)
#define INSTANCE_sum_raking(full, T, F) ENTRY(full, T, sum<T, cub::BLOCK_REDUCE_RAKING>)
#define INSTANCE_sum_commutative(full, T, F) ENTRY(full, T, sum<T, cub::BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY>)
#define INSTANCE_sum_warps(full, T, F) ENTRY(full, T, sum<T, cub::BLOCK_REDUCE_WARP_REDUCTIONS>)
#define INSTANCE_radix_sort(full, T, F) ENTRY(full, T, sorted<T>)
#define INSTANCE_radix_pairs(full, T, F) ENTRY(full, T, sorted_down<T>)
#define INSTANCE_merge_sort(full, T, F) ENTRY(full, T, merged<T>)
#define INSTANCE_warp_merge(full, T, F) ENTRY(full, T, warps_merged<T>)
#define INSTANCE_move_transpose(full, T, F) ENTRY(full, T, moved<T, cub::BLOCK_LOAD_TRANSPOSE, cub::BLOCK_STORE_TRANSPOSE>)
#define INSTANCE_move_warps(full, T, F) \
  ENTRY(full, T, moved<T, cub::BLOCK_LOAD_WARP_TRANSPOSE, cub::BLOCK_STORE_WARP_TRANSPOSE>)
#define INSTANCE_move_vectors(full, T, F) ENTRY(full, T, moved<T, cub::BLOCK_LOAD_VECTORIZE, cub::BLOCK_STORE_VECTORIZE>)
#define INSTANCE_exchange(full, T, F) ENTRY(full, T, striped<T, F>)
#define INSTANCE_difference(full, T, F) ENTRY(full, T, differences<T>)
#define INSTANCE_heads(full, T, F) ENTRY(full, T, heads<T>)
#define INSTANCE_warp_scan(full, T, F) ENTRY(full, T, warp_sums<T>)
#define INSTANCE_histogram_sort(full, T, F) ENTRY(full, T, counted<T, F, cub::BLOCK_HISTO_SORT>)
#define INSTANCE_histogram_atomic(full, T, F) ENTRY(full, T, counted<T, F, cub::BLOCK_HISTO_ATOMIC>)
#define INSTANCE_run_lengths(full, T, F) ENTRY(full, T, run_lengths<T>)
