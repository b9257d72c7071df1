// Depthwise convolutions of stride 1: each channel by itself, lanes along a row of results, read where they lie.
// What a window reads outside the image is masked, so nothing is copied; rows of results that share rows of the image load
// them once. The last vector of a row ends with it, so that all stores are whole; in a row of less than a vector, a store
// reaches into the next row, which is written after it.
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

}  // namespace kw
