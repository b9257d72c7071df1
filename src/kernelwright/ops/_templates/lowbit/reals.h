// Low-bit weights times activations as floats: codes become floats in registers, by shifts, and are multiplied as such.
// For codes that are no small integers, machines without products of bytes, and activations that bytes do not hold.
#pragma once
#include "codes.h"

namespace kw {

// A code of byte `kk` of each lane as a float. Small floats: the code's bits are moved to where float32 has its own, and
// a power of two makes up for the bias; codes below the normal ones come out right by that multiplication.
struct ToReal {
  int left, right;
  M keep;
  F power;
  bool small;

  explicit ToReal(const Meaning& m)
      : left(24 - (m.bits - 8)), right(8 - m.exponent), small(m.exponent > 0) {
    const int mantissa = small ? m.mantissa() : 0;
    keep = splat<M>(small ? INT32_MIN | (((1 << (m.bits - 1)) - 1) << (23 - mantissa)) : 0);
    power = splat(small ? std::ldexp(1.0f, 127 - m.bias()) : 1.0f);
  }
  template <bool Small> KW_INLINE F at(U codes, int kk, M zero) const {
    if constexpr (Small) return from_bits(((M)(codes << (left - 8 * kk)) >> right) & keep) * power;
    return from_integers((M)((codes >> (8 * kk)) & 255u) - zero);
  }
};

// Adds to R rows of V vectors of a panel what tiles [first, last) sum to; `tile` holds their codes, a byte for each.
template <bool Small, int R, int V>
__attribute__((noinline)) void real_tile(const float* x, int64_t x_row, const uint8_t* tile, const Groups& g,
                                         const ToReal& to, int64_t panel, int v0, int64_t first, int64_t last,
                                         float* out) {
  F sums[R][V];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) sums[r][v] = load(out + r * kPanel + (v0 + v) * W, Full{});
  // Quads [low, high) of tiles [from, to_tile), which are of one group.
  const auto grouped = [&](int64_t group, int64_t from, int64_t to_tile, int low, int high) KW_INLINED {
    M zero[V];
    F acc[R][V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      zero[v] = g.zero_of(panel, group, v0 + v);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) acc[r][v] = F{};
    }
    for (int64_t t = from; t < to_tile; ++t)
      for (int j = low; j < high; ++j)
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) {
          const U codes = load_codes(codes_of<8>(tile + (t - first) * kPanel * kTile, v0 + v) + j * 64);
#pragma GCC unroll 4
          for (int kk = 0; kk < 4; ++kk) {
            const F w = to.at<Small>(codes, kk, zero[v]);
#pragma GCC unroll 8
            for (int r = 0; r < R; ++r)
              acc[r][v] = fma(w, splat(x[r * x_row + t * kTile + j * 4 + kk]), acc[r][v]);
          }
        }
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      const F scale = g.scale(panel, group, v0 + v);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) sums[r][v] = fma(acc[r][v], scale, sums[r][v]);
    }
    if (!g.minima) return;
    for (int r = 0; r < R; ++r) {
      F whole{};
      for (int64_t t = from; t < to_tile; ++t)
        for (int j = low * 4; j < high * 4; j += W) whole += load(x + r * x_row + t * kTile + j, Full{});
      const F sum = splat(fold_lanes(whole, [](F a, F b) { return a + b; })[0]);
      for (int v = 0; v < V; ++v) sums[r][v] = fma(g.minimum(panel, group, v0 + v), sum, sums[r][v]);
    }
  };
  for (int64_t at = 2 * first; at < 2 * last;) {  // half a tile, which may be a group
    const int64_t group = g.halves ? at : at / 2 / g.tiles, end = g.halves ? at + 1 : std::min(last, (group + 1) * g.tiles) * 2;
    const int low = static_cast<int>(at % 2) * kQuads / 2, high = g.halves ? low + kQuads / 2 : kQuads;
    if (group < g.count) grouped(group, at / 2, (end + 1) / 2, low, high);
    at = end;
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) store(out + r * kPanel + (v0 + v) * W, sums[r][v], Full{});
}

}  // namespace kw
