// Register tiles of a direct convolution (`convolution.h`): lanes along results that lie side by side.
#pragma once
#include "contraction.h"

namespace kw {

struct Convolution {
  int64_t items, rows, images, channels;  // groups; results of each; images; channels of each
  int64_t sizes[3], taps[3], extents[3];  // of the results, the window and the image: depth, height, width
  int64_t strides[3], dilations[3], low[3];  // low: padding before the image
  float outside;                             // what the padding holds
};

// Where a tap reads the image, and its weights.
struct Tap {
  int64_t image, weights;
};

#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int kVectorRegisters = 32;
#else
constexpr int kVectorRegisters = 16;
#endif

// sums[r, p] (+)= sum over channels and taps of weights[c, t, r] * image[c, starts[p] + t].
template <int R, int P>
__attribute__((noinline)) void pixel_tile(const float* image, const int64_t* starts, int64_t channel, const Tap* taps,
                                          int64_t count, int64_t channels, const float* weights, int64_t panel,
                                          float* sums, int64_t sums_row, bool add) {
  F acc[R][P];
  const float* from[P];
#pragma GCC unroll 8
  for (int p = 0; p < P; ++p) {
    from[p] = image + starts[p];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) acc[r][p] = F{};
  }
  int64_t at = 0;
  for (int64_t c = 0; c < channels; ++c, at += channel, weights += panel)
    for (const Tap* tap = taps; tap < taps + count; ++tap) {
      const int64_t place = at + tap->image;
      const float* w = weights + tap->weights;
      F x[P];
#pragma GCC unroll 8
      for (int p = 0; p < P; ++p) x[p] = load(from[p] + place, Full{});
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const F y = splat(w[r]);
#pragma GCC unroll 8
        for (int p = 0; p < P; ++p) acc[r][p] = fma(y, x[p], acc[r][p]);
      }
    }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) {
      float* to = sums + r * sums_row + p * W;
      store(to, add ? load(to, Full{}) + acc[r][p] : acc[r][p], Full{});
    }
}

// A panel of R rows by up to P vectors, as many rows at once as registers hold.
template <int R, int P, class... Rest>
KW_INLINE void pixel_vectors(int64_t vectors, const float* image, const int64_t* starts, Rest... rest) {
  if constexpr (P > 1)
    if (vectors < P) return pixel_vectors<R, P - 1>(vectors, image, starts, rest...);
  pixel_tile<R, P>(image, starts, rest...);
}

// One channel of results, R rows of them by P vectors: the rows of the image that they share are loaded once. Taps are
// `down` rows of `across`, at least R rows of them, neighbours in the copy; `columns` are places of the taps of a row.
template <int R, int P>
__attribute__((noinline)) void shared_tile(const float* image, int64_t line, const int64_t* columns, int64_t down,
                                           int64_t across, const float* weights, float* sums, int64_t sums_row,
                                           bool add) {
  F acc[R][P] = {};
  // Row j of the image, of which rows `first` to `last` of the results read tap j - r.
  const auto row = [&](int64_t j, auto first, auto last) KW_INLINED {
    for (int64_t w = 0; w < across; ++w) {
      F x[P];
#pragma GCC unroll 8
      for (int p = 0; p < P; ++p) x[p] = load(image + j * line + columns[w] + p * W, Full{});
#pragma GCC unroll 8
      for (int r = first.value; r < last.value; ++r) {
        const F y = splat(weights[(j - r) * across + w]);
#pragma GCC unroll 8
        for (int p = 0; p < P; ++p) acc[r][p] = fma(y, x[p], acc[r][p]);
      }
    }
  };
  constexpr std::integral_constant<int, 0> zero{};
  constexpr std::integral_constant<int, R> all{};
  row(0, zero, std::integral_constant<int, 1>{});
  if constexpr (R > 2) row(1, zero, std::integral_constant<int, 2>{});
  if constexpr (R > 3) row(2, zero, std::integral_constant<int, 3>{});
  for (int64_t j = R - 1; j < down; ++j) row(j, zero, all);
  row(down, std::integral_constant<int, 1>{}, all);
  if constexpr (R > 2) row(down + 1, std::integral_constant<int, 2>{}, all);
  if constexpr (R > 3) row(down + 2, std::integral_constant<int, 3>{}, all);
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) {
      float* to = sums + r * sums_row + p * W;
      store(to, add ? load(to, Full{}) + acc[r][p] : acc[r][p], Full{});
    }
}
template <int R, int P, class... Rest> KW_INLINE void shared_vectors(int64_t vectors, Rest... rest) {
  if constexpr (P > 1)
    if (vectors < P) return shared_vectors<R, P - 1>(vectors, rest...);
  shared_tile<R, P>(rest...);
}

}  // namespace kw
