// Register tiles of a direct convolution (`convolution.h`): lanes along results that lie side by side.
#pragma once
#include <utility>

#include "contraction.h"

namespace kw {

struct Convolution {
  int64_t items, rows, images, channels;  // groups; results of each; images; channels of each
  int64_t sizes[3], taps[3], extents[3];  // of the results, the window and the image: depth, height, width
  int64_t strides[3], dilations[3], low[3];  // low: padding before the image
  float outside;                             // what the padding holds
};

// The taps that some of the rows use: those of one phase of a transposed convolution.
struct TapRange {
  int64_t begin[3], end[3];
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
      for (int p = 0; p < P; ++p) x[p] = in_register(load(from[p] + place, Full{}));
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

// Calls a function with each number, a constant.
template <class Function, int... at> KW_INLINE void in_order(Function function, std::integer_sequence<int, at...>) {
  (function(std::integral_constant<int, at>{}), ...);
}

// A panel of R rows by up to P vectors, as many rows at once as registers hold.
template <int R, int P, class... Rest>
KW_INLINE void pixel_vectors(int64_t vectors, const float* image, const int64_t* starts, Rest... rest) {
  if constexpr (P > 1)
    if (vectors < P) return pixel_vectors<R, P - 1>(vectors, image, starts, rest...);
  pixel_tile<R, P>(image, starts, rest...);
}

// to[c, t, p] = image[c, starts[p] + t]: what P vectors of results read, in the order in which they are multiplied.
template <int P>
__attribute__((noinline)) void pack_tile(const float* image, const int64_t* starts, int64_t channel, const Tap* taps,
                                         int64_t count, int64_t channels, float* to) {
  const float* from[P];
  for (int p = 0; p < P; ++p) from[p] = image + starts[p];
  int64_t at = 0;
  for (int64_t c = 0; c < channels; ++c, at += channel)
    for (const Tap* tap = taps; tap < taps + count; ++tap, to += P * W) {
      const int64_t place = at + tap->image;
#pragma GCC unroll 8
      for (int p = 0; p < P; ++p) store(to + p * W, load(from[p] + place, Full{}), Full{});
    }
}

// sums[r, p] (+)= sum over k of weights[k, r] * packed[k, p]; of weights in panels of so many rows.
template <int panel, int R, int P>
__attribute__((noinline)) void packed_pixels(const float* packed, int64_t depth, const float* weights, float* sums,
                                             int64_t sums_row, bool add) {
  F acc[R][P];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) acc[r][p] = F{};
  for (int64_t k = 0; k < depth; ++k, packed += P * W, weights += panel) {
    F x[P];
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) x[p] = in_register(load(packed + p * W, Full{}));
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const F y = splat(weights[r]);
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

// Both for up to P vectors.
template <int P, class... Rest> KW_INLINE void pack_vectors(int64_t vectors, Rest... rest) {
  if constexpr (P > 1)
    if (vectors < P) return pack_vectors<P - 1>(vectors, rest...);
  pack_tile<P>(rest...);
}
template <int panel, int R, int P, class... Rest> KW_INLINE void packed_vectors(int64_t vectors, Rest... rest) {
  if constexpr (P > 1)
    if (vectors < P) return packed_vectors<panel, R, P - 1>(vectors, rest...);
  packed_pixels<panel, R, P>(rest...);
}

// One channel of results, R rows of them by P vectors: each row of the image is loaded once for all of them that read it,
// D rows of A taps each, neighbours in the copy. Every accumulator is in use after R rows, so that D may be less than R.
template <int R, int P, int D, int A>
__attribute__((noinline)) void shared_tile(const float* image, int64_t line, const float* weights, float* sums,
                                           int64_t sums_row, bool add) {
  F acc[R][P] = {};
  // Row j of the image, of which result r reads tap row j - r.
  const auto row = [&](auto at) KW_INLINED {
    constexpr int j = at.value, first = j < D ? 0 : j - D + 1, last = j < R ? j : R - 1;
    const float* from = image + j * line;
#pragma GCC unroll 1
    for (int w = 0; w < A; ++w) {
      F x[P];
#pragma GCC unroll 8
      for (int p = 0; p < P; ++p) x[p] = in_register(load(from + w + p * W, Full{}));
#pragma GCC unroll 8
      for (int r = first; r <= last; ++r) {
        const F y = splat(weights[(j - r) * A + w]);
#pragma GCC unroll 8
        for (int p = 0; p < P; ++p) acc[r][p] = fma(y, x[p], acc[r][p]);
      }
    }
  };
  in_order(row, std::make_integer_sequence<int, D + R - 1>{});
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) {
      float* to = sums + r * sums_row + p * W;
      store(to, add ? load(to, Full{}) + acc[r][p] : acc[r][p], Full{});
    }
}

}  // namespace kw
