// Kernels of blocks.py. F plants a fault: the F-th marked place is left out or spoilt.
#define SYNC(k) if constexpr (F != k) __syncthreads()
constexpr int B = 64;

template <class T, int F> __device__ void mirror(const T* x, T* out, int n) {
  __shared__ T s[B];
  const int t = threadIdx.x, i = blockIdx.x * B + t;
  s[t] = F == 2 || i < n ? x[i] : T(0);
  SYNC(1);
  if (F == 3 || i < n) out[i] = s[B - 1 - t];
}
template <class T, int F> __device__ void reduce(const T* x, T* out, int n) {
  extern __shared__ char raw[];
  T* s = reinterpret_cast<T*>(raw);
  const int t = threadIdx.x, i = blockIdx.x * B + t;
  s[t] = F == 3 || i < n ? x[i] : T(0);
  SYNC(1);
  for (int o = B / 2; o > 0; o /= 2) {
    if (t < o) s[t] += s[t + o];
    SYNC(2);
  }
  if (t == 0) out[blockIdx.x] = s[0];
}
template <class T, int F> __device__ void scan(const T* x, T* out, int n) {
  __shared__ T s[B];
  const int t = threadIdx.x, i = blockIdx.x * B + t;
  s[t] = i < n ? x[i] : T(0);
  SYNC(1);
  for (int o = 1; o < B; o *= 2) {
    const T left = t >= o ? s[t - o] : T(0);
    SYNC(2);
    s[t] += left;
    SYNC(3);
  }
  if (i < n) out[i] = s[t];
}
template <class T, int F> __device__ void histogram(const T* x, int* out, int n) {
  __shared__ int s[32];
  if (threadIdx.x < 32) s[threadIdx.x] = 0;
  SYNC(2);
  for (int i = blockIdx.x * B + threadIdx.x; i < n; i += gridDim.x * B) {
    const int bin = int(x[i]) & 31;
    if constexpr (F == 3) s[bin] += 1;
    else atomicAdd(&s[bin], 1);
  }
  SYNC(1);
  if (threadIdx.x < 32) {
    if constexpr (F == 4) out[threadIdx.x] += s[threadIdx.x];
    else atomicAdd(&out[threadIdx.x], s[threadIdx.x]);
  }
}
template <class T, int F> __device__ void transpose(const T* x, T* out, int rows, int columns) {
  __shared__ T s[8][9];
  const int a = threadIdx.x, b = threadIdx.y;
  int c = blockIdx.x * 8 + a, r = blockIdx.y * 8 + b;
  if (r < rows && (F == 2 ? c <= columns + 8 * rows : c < columns)) s[b][a] = x[r * columns + c];
  SYNC(1);
  c = blockIdx.x * 8 + b, r = blockIdx.y * 8 + a;
  if (c < columns && (F == 3 || r < rows)) out[c * rows + r] = s[a][b];
}
template <class T, int F> __device__ void softmax(const T* x, T* out, int n) {
  __shared__ T s[B];
  const int t = threadIdx.x;
  x += blockIdx.x * n, out += blockIdx.x * n;
  T most = -1e30;
  for (int i = t; F == 3 ? i < n + B : i < n; i += B) most = max(most, x[i]);
  s[t] = most;
  __syncthreads();
  for (int o = B / 2; o > 0; o /= 2) {
    if (t < o) s[t] = max(s[t], s[t + o]);
    SYNC(1);
  }
  most = s[0];
  SYNC(2);
  T sum = 0;
  for (int i = t; i < n; i += B) sum += exp(x[i] - most);
  s[t] = sum;
  __syncthreads();
  for (int o = B / 2; o > 0; o /= 2) {
    if (t < o) s[t] += s[t + o];
    __syncthreads();
  }
  for (int i = t; i < n; i += B) out[i] = exp(x[i] - most) / s[0];
}
template <class T, int F> __device__ T warp_sum(T v) {
  for (int o = 16; o > 0; o /= 2) v += __shfl_xor_sync(F == 2 ? 0x0000ffffu : 0xffffffffu, v, o);
  return v;
}
template <class T, int F> __device__ void layernorm(const T* x, T* out, int n) {
  __shared__ T s[2][2];
  const int t = threadIdx.x;
  x += blockIdx.x * n, out += blockIdx.x * n;
  T sum = 0, squares = 0;
  for (int i = t; i < n; i += B) sum += x[i], squares += x[i] * x[i];
  sum = warp_sum<T, F>(sum), squares = warp_sum<T, F>(squares);
  if (t % 32 == 0) s[0][t / 32] = sum, s[1][t / 32] = squares;
  SYNC(1);
  const T mean = (s[0][0] + s[0][1]) / n, scale = rsqrt((s[1][0] + s[1][1]) / n - mean * mean + T(1e-5));
  for (int i = t; F == 3 ? i <= n + B : i < n; i += B) out[i] = (x[i] - mean) * scale;
}
template <class T, int F> __device__ void matmul(const T* a, const T* b, T* c, int m, int n, int k) {
  __shared__ T sa[8][8], sb[8][8];
  const int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 8 + y, column = blockIdx.x * 8 + x;
  T sum = 0;
  for (int p = 0; p < k; p += 8) {
    sa[y][x] = row < m && (F == 3 || p + x < k) ? a[row * k + p + x] : T(0);
    sb[y][x] = column < n && p + y < k ? b[(p + y) * n + column] : T(0);
    SYNC(1);
    for (int q = 0; q < 8; q++) sum += sa[y][q] * sb[q][x];
    SYNC(2);
  }
  if (row < m && column < n) c[row * n + column] = sum;
}
template <class T, int F> __device__ void stencil(const T* x, T* out, int n) {
  __shared__ T s[B + 2];
  const int t = threadIdx.x, i = blockIdx.x * B + t;
  s[t + 1] = i < n ? x[i] : T(0);
  if (t == 0 && F != 2) s[0] = i > 0 ? x[i - 1] : T(0);
  if (t == B - 1) s[B + 1] = F == 3 || i + 1 < n ? x[i + 1] : T(0);
  SYNC(1);
  if (i < n) out[i] = s[t] + s[t + 1] + s[t + 2];
}
template <class T, int F> __device__ void gather(const T* x, const int* at, T* out, int n) {
  const int i = blockIdx.x * B + threadIdx.x;
  if (F == 1 || i < n) out[F == 3 ? i / 2 : i] = x[F == 2 ? at[i] + n / 2 : at[i]];
}
template <class T, int F> __device__ void last_block(const T* x, T* parts, T* out, int* done, int n) {
  __shared__ T s[B];
  __shared__ bool last;
  const int t = threadIdx.x, i = blockIdx.x * B + t;
  s[t] = F == 3 || i < n ? x[i] : T(0);
  __syncthreads();
  for (int o = B / 2; o > 0; o /= 2) {
    if (t < o) s[t] += s[t + o];
    __syncthreads();
  }
  if (t == 0) {
    parts[blockIdx.x] = s[0];
    if constexpr (F != 1) __threadfence();
    last = atomicAdd(done, 1) == int(gridDim.x) - 1;
  }
  SYNC(2);
  if (last && t == 0) {
    __threadfence();
    T sum = 0;
    for (int p = 0; p < int(gridDim.x); p++) sum += static_cast<volatile T*>(parts)[p];
    *out = sum;
  }
}
template <class T, int F> __device__ void warp_sort(const T* x, T* out) {
  __shared__ T s[B];
  const int t = threadIdx.x;
  s[t] = x[blockIdx.x * B + t];
  __syncthreads();
  for (int step = 0; step < B; step++) {
    const int at = 2 * t + step % 2;
    if (F == 2 ? at < B : at + 1 < B) {
      const T a = s[at], b = s[at + 1];
      if (b < a) s[at] = b, s[at + 1] = a;
    }
    SYNC(1);
  }
  out[blockIdx.x * B + t] = s[t];
}
#define INSTANCE(name, T, F) INSTANCE_##name(name##_##T##_##F, T, F)
#define ENTRY(full, given, call) extern "C" __global__ void full given { call; }
#define PLAIN(full, name, T, F) ENTRY(full, (const T* x, T* out, int n), (name<T, F>(x, out, n)))
#define INSTANCE_mirror(full, T, F) PLAIN(full, mirror, T, F)
#define INSTANCE_reduce(full, T, F) PLAIN(full, reduce, T, F)
#define INSTANCE_scan(full, T, F) PLAIN(full, scan, T, F)
#define INSTANCE_softmax(full, T, F) PLAIN(full, softmax, T, F)
#define INSTANCE_layernorm(full, T, F) PLAIN(full, layernorm, T, F)
#define INSTANCE_stencil(full, T, F) PLAIN(full, stencil, T, F)
#define INSTANCE_histogram(full, T, F) ENTRY(full, (const T* x, int* out, int n), (histogram<T, F>(x, out, n)))
#define INSTANCE_transpose(full, T, F) ENTRY(full, (const T* x, T* out, int r, int c), (transpose<T, F>(x, out, r, c)))
#define INSTANCE_matmul(full, T, F) \
  ENTRY(full, (const T* a, const T* b, T* c, int m, int n, int k), (matmul<T, F>(a, b, c, m, n, k)))
#define INSTANCE_gather(full, T, F) ENTRY(full, (const T* x, const int* at, T* out, int n), (gather<T, F>(x, at, out, n)))
#define INSTANCE_last_block(full, T, F) \
  ENTRY(full, (const T* x, T* parts, T* out, int* done, int n), (last_block<T, F>(x, parts, out, done, n)))
#define INSTANCE_warp_sort(full, T, F) ENTRY(full, (const T* x, T* out), (warp_sort<T, F>(x, out)))
