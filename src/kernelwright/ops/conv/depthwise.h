// Depthwise convolutions of stride 1: each channel by itself, lanes along a row of results, read where they lie.
// What a window reads outside the image is masked, so nothing is copied; rows of results that share rows of the image load
// them once. The last vector of a row ends with it, so that all stores are whole; in a row of less than a vector, a store
// reaches into the next row, which is written after it. Larger windows of vectors of 8 read a copy within zeros: a mask for
// each of their reads and few sums at once cost more than the copy.
#pragma once
#include "stream_map.h"

namespace kw {

// One channel of one item. `weights`: [taps_y][taps_x].
struct Plane {
  const float* image;
  int64_t height, width, out_y, out_x, taps_y, taps_x, top, left, dilation_y, dilation_x;
  const float* weights;
};

// Rows y to y + R - 1 of the results, V vectors from x on; taps K by K, or as many as the plane says where K is 0, and R 1.
// put(sum, r, v) takes the sums.
template <int K, int R, int V, bool EDGE, class Put>
KW_INLINE void depthwise_tile(const Plane& p, int64_t y, int64_t x, Put put) {
  F acc[R][V];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) acc[r][v] = F{};
  const int64_t wide = K ? K : p.taps_x, high = K ? K + R - 1 : p.taps_y, first = y - p.top, apart = K ? 1 : p.dilation_y;
#pragma GCC unroll 7
  for (int64_t tx = 0; tx < wide; ++tx) {
    const int64_t at = x + tx * p.dilation_x - p.left;
    M within[V];
    if constexpr (EDGE)
      for (int v = 0; v < V; ++v) {
        const M place = iota() + static_cast<int32_t>(at + v * W);
        within[v] = (place >= 0) & (place < static_cast<int32_t>(p.width));
      }
#pragma GCC unroll 16
    for (int64_t j = 0; j < high; ++j) {
      const int64_t row = first + j * apart;
      if (row < 0 || row >= p.height) continue;
      const float* from = p.image + row * p.width + at;
      F read[V];
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) read[v] = EDGE ? load_where(from + v * W, within[v], Full{}) : load(from + v * W, Full{});
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        if (K && (j - r < 0 || j - r >= K)) continue;
        const F w = splat(p.weights[(K ? j - r : j) * wide + tx]);
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) acc[r][v] = fma(w, read[v], acc[r][v]);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) put(acc[r][v], r, v);
}

template <int K, int R, int V, class Put> KW_INLINE void depthwise_rows(const Plane& p, int64_t y, int64_t x, Put put) {
  const int64_t from = x - p.left, to = x + V * W + ((K ? K : p.taps_x) - 1) * p.dilation_x - p.left;
  if (from >= 0 && to <= p.width) depthwise_tile<K, R, V, false>(p, y, x, put);
  else depthwise_tile<K, R, V, true>(p, y, x, put);
}

// put(sum, y, x) takes a whole vector of results; in rows of less than one, those beyond are of no meaning.
template <int K, class Put> __attribute__((noinline)) void depthwise_plane(const Plane& p, const Put put) {
  // Sums enough that no multiplication waits for the last; images are often a multiple of 7 high.
  constexpr int V = K > 3 ? 1 : K ? 2 : 4, R = !K ? 1 : K < 5 ? 4 : W == 16 ? 7 : K > 5 ? 3 : 4;
  const auto rows = [&](auto count, int64_t y) {
    constexpr int N = decltype(count)::value;
    int64_t x = 0;
    for (; x + V * W <= p.out_x; x += V * W)
      depthwise_rows<K, N, V>(p, y, x, [&](F sum, int r, int v) KW_INLINED { put(sum, y + r, x + v * W); });
    for (; x < p.out_x; x += W) {
      const int64_t at = p.out_x < W ? 0 : std::min(x, p.out_x - W);
      depthwise_rows<K, N, 1>(p, y, at, [&](F sum, int r, int) KW_INLINED { put(sum, y + r, at); });
    }
  };
  int64_t y = 0;
  for (; y + R <= p.out_y; y += R) rows(std::integral_constant<int, R>{}, y);
  if constexpr (R > 4)
    for (; y + 4 <= p.out_y; y += 4) rows(std::integral_constant<int, 4>{}, y);
  for (; y < p.out_y; ++y) rows(std::integral_constant<int, 1>{}, y);
}

constexpr int64_t kBand = 1 << 14;  // floats of a band of the image that lies within zeros
constexpr int kRowsAtOnce = 4;      // of results, by two vectors: 8 sums hide how long a multiplication takes
constexpr int kNarrowRows = 7;      // the same of results of one vector

// Whether a window of K by K reads a copy of the image, and how much room that takes.
template <int K> constexpr bool kWithinZeros = W == 8 && K > 3;
inline int64_t zeros_stride(const Plane& p) { return std::max<int64_t>(p.out_x, W) + p.taps_x - 1; }
inline int64_t zeros_rows(const Plane& p) {
  return std::min(p.out_y, std::max<int64_t>(kNarrowRows, kBand / zeros_stride(p) - p.taps_y + 1));
}

// R rows of results, V vectors that lie `apart` apart, from rows of the copy.
template <int K, int R, int V, class Put>
KW_INLINE void zeros_tile(const float* from, int64_t stride, const float* weights, int64_t apart, Put put) {
  F acc[R][V];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) acc[r][v] = F{};
#pragma GCC unroll 1
  for (int tx = 0; tx < K; ++tx) {
    const float* row = from + tx;
#pragma GCC unroll 16
    for (int j = 0; j < K + R - 1; ++j, row += stride) {
      asm volatile("" ::: "memory");  // else rows are read ahead of their use, and sums have no register left
      F read[V];
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) read[v] = load(row + v * apart, Full{});
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        if (j - r < 0 || j - r >= K) continue;
        const F w = splat(weights[(j - r) * K + tx]);
#pragma GCC unroll 2
        for (int v = 0; v < V; ++v) acc[r][v] = fma(w, read[v], acc[r][v]);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) put(acc[r][v], r, v * apart);
}

// As `depthwise_plane`; `room` comes as zeros, or as the last plane of these sizes left it. The last tile of a row ends with it, and the last rows of a band may be written twice.
template <int K, class Put> __attribute__((noinline)) void depthwise_within_zeros(const Plane& p, float* room, const Put put) {
  const int64_t stride = zeros_stride(p), band = zeros_rows(p), wide = p.out_x + K - 1;
  const auto tile = [&](auto count, auto vectors, int64_t top, int64_t y, int64_t x, int64_t apart) KW_INLINED {
    zeros_tile<K, decltype(count)::value, decltype(vectors)::value>(
        room + y * stride + x, stride, p.weights, apart,
        [&](F sum, int r, int64_t right) KW_INLINED { put(sum, top + y + r, x + right); });
  };
  const auto down = [&](auto count, auto vectors, int64_t top, int64_t rows, int64_t x, int64_t apart) {
    constexpr int R = decltype(count)::value;
    if (rows >= R)
      for (int64_t y = 0; y < rows; y += R) tile(count, vectors, top, std::min<int64_t>(y, rows - R), x, apart);
    else
      for (int64_t y = 0; y < rows; ++y) tile(std::integral_constant<int, 1>{}, vectors, top, y, x, apart);
  };
  for (int64_t top = 0; top < p.out_y; top += band) {
    const int64_t rows = std::min(band, p.out_y - top);
    for (int64_t j = 0; j < rows + K - 1; ++j) {
      float* to = room + j * stride;
      const int64_t y = top + j - p.top;
      const bool within = y >= 0 && y < p.height;
      const int64_t left = within ? std::min(p.left, wide) : wide, width = within ? std::min(p.width, wide - left) : 0;
      if (band < p.out_y) std::fill_n(to, stride, 0.0f);  // else zeros lie where they lay for the last plane
      sweep<1>(0, width, [&](int64_t i, auto lanes, int) KW_INLINED {
        store(to + left + i, load(p.image + y * p.width + i, lanes), lanes);
      });
    }
    if (p.out_x <= W) {
      down(std::integral_constant<int, kNarrowRows>{}, std::integral_constant<int, 1>{}, top, rows, 0, 0);
      continue;
    }
    const auto two = [&](int64_t x, int64_t apart) {
      down(std::integral_constant<int, kRowsAtOnce>{}, std::integral_constant<int, 2>{}, top, rows, x, apart);
    };
    if (p.out_x < 2 * W) two(0, p.out_x - W);
    else for (int64_t x = 0; x < p.out_x; x += 2 * W) two(std::min<int64_t>(x, p.out_x - 2 * W), W);
  }
}

}  // namespace kw
