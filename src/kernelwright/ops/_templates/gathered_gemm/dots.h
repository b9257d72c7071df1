// Sums of short dot products: rows of a by two vectors of 32-bit lanes, each lane some narrow inner elements of one
// column, four bytes of a row at a time. What a lane holds and how it is multiplied says `Dot`:
//
//   Sum                        vector of sums: F or M
//   next(one, two)             the next two vectors of the right factor
//   add(sum, lanes, four)      sum plus the lanes' elements times the four bytes of a row
#pragma once
#include "dot_tiles.h"
#include "gemm.h"
#include "tuned.h"

namespace kw {

// sums[r][2][W] = rows r of a (`apart` bytes from one to the next) times `steps` steps of the right factor.
template <int R, class Dot>
__attribute__((noinline)) void dot_tile(const char* a, int64_t apart, Dot right, int64_t steps,
                                        typename Dot::Sum* sums) {
  constexpr int kChains = R < 2 ? 2 : 1;  // a product takes as long as some begin
  typename Dot::Sum acc[kChains][R][2];
#pragma GCC unroll 2
  for (int i = 0; i < kChains; ++i)
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) acc[i][r][0] = acc[i][r][1] = typename Dot::Sum{};
  constexpr int kGroups = (R + 3) / 4;  // a pointer for four rows, so that all stay in registers
  const int64_t three = 3 * apart;
  const char* rows[kGroups];
#pragma GCC unroll 4
  for (int i = 0; i < kGroups; ++i) rows[i] = a + 4 * i * apart;
  const auto step = [&](int i) KW_INLINED {
    typename Dot::Lanes one, two;
    right.next(one, two);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      int32_t four;
      std::memcpy(&four, rows[r / 4] + (r % 4 == 3 ? three : r % 4 * apart), sizeof four);
      acc[i][r][0] = right.add(acc[i][r][0], one, four);
      acc[i][r][1] = right.add(acc[i][r][1], two, four);
    }
#pragma GCC unroll 4
    for (int g = 0; g < kGroups; ++g) {
      rows[g] += 4;
      asm("" : "+r"(rows[g]));  // not told apart from sums at each element
    }
  };
  int64_t k = 0;
  for (; k + kChains <= steps; k += kChains)
#pragma GCC unroll 2
    for (int i = 0; i < kChains; ++i) step(i);
  if constexpr (kChains > 1)
    for (; k < steps; ++k) step(0);
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v) {
#pragma GCC unroll 2
      for (int i = 1; i < kChains; ++i) acc[0][r][v] += acc[i][r][v];
      sums[2 * r + v] = acc[0][r][v];
    }
}

// A tile of `rows` rows, 1 to R: each height is compiled.
template <int R, class Dot>
void dot_rows(int64_t rows, const char* a, int64_t apart, const Dot& right, int64_t steps, typename Dot::Sum* sums) {
  if constexpr (R > 1)
    if (rows < R) return dot_rows<R - 1>(rows, a, apart, right, steps, sums);
  dot_tile<R>(a, apart, right, steps, sums);
}

// Panels of 32 lanes, [panels][steps][32]: `at` is the panel's first lane of these two vectors.
constexpr int64_t kDotColumns = 32;

// bfloat16 in pairs.
struct Pairs {
  typedef F Sum;
  typedef U Lanes;
  static constexpr int64_t elements = 2;
  const uint32_t* at;

  KW_INLINE void next(U& one, U& two) {
    std::memcpy(&one, at, sizeof one);
    std::memcpy(&two, at + W, sizeof two);
    at += kDotColumns;
  }
  KW_INLINE F add(F sum, U lanes, int32_t pair) const {
#if defined(__AVX512BF16__) && defined(__AVX512F__)
    return (F)_mm512_dpbf16_ps((__m512)sum, (__m512bh)lanes, (__m512bh)_mm512_set1_epi32(pair));
#else
    const uint32_t both = static_cast<uint32_t>(pair);
    sum = fma(from_bits((M)(lanes << 16)), splat(detail::float_of(both << 16)), sum);
    return fma(from_bits((M)(lanes & 0xffff0000u)), splat(detail::float_of(both & 0xffff0000u)), sum);
#endif
  }
};

// Bytes by fours: those of the right factor are 128 more than they mean.
struct Quads {
  typedef M Sum;
  typedef U Lanes;
  static constexpr int64_t elements = 4;
  const uint32_t* at;

  KW_INLINE void next(U& one, U& two) {
    std::memcpy(&one, at, sizeof one);
    std::memcpy(&two, at + W, sizeof two);
    at += kDotColumns;
  }
  KW_INLINE M add(M sum, U lanes, int32_t four) const {
#if defined(__AVX512VNNI__) && defined(__AVX512F__)
    return (M)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)lanes, _mm512_set1_epi32(four));
#else
    for (int i = 0; i < 4; ++i)
      sum += (M)((lanes >> (8 * i)) & 255u) * splat<M>(static_cast<int32_t>(static_cast<int8_t>(four >> (8 * i))));
    return sum;
#endif
  }
};

constexpr int64_t kDotRows = 192;  // of a block at most: more lie on more pages of the output than the core keeps at hand

constexpr int64_t kByVectors = 0, kByTiles = 1;  // what a call may choose, where there are tiles

// All of a product whose rows lie `apart` bytes from each other, in steps of four bytes: put(W sums, row, column).
template <class Dot, class Put>
void multiply_dots(const char* a, int64_t apart, int64_t rows, const uint32_t* panels, int64_t count, int64_t steps,
                   Put put) {
#if KW_TILES
  if (steps > 0 && tuned_or(rows >= kTileLeast ? kByTiles : kByVectors) == kByTiles && tile_unit_usable())
    return multiply_tiles<Dot>(a, apart, rows, panels, count, steps, put);
#endif
  constexpr int R = kTileRows;
  const bool alone = rows * count * kDotColumns * steps * Dot::elements < kSerialProducts;
  const int64_t threads = alone || omp_in_parallel() ? 1 : omp_get_max_threads();
  const int64_t high = std::max<int64_t>(R, std::min<int64_t>(kDotRows, kRowsBytes / std::max<int64_t>(4, steps * 4)) / R * R);
  const int64_t blocks = (rows + high - 1) / high;
  const int64_t groups = std::min(count, threads > 1 ? std::max<int64_t>(1, kTasks * threads / std::max<int64_t>(1, blocks)) : 1);
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
  for (int64_t i = 0; i < groups * blocks; ++i) {
    const int64_t block = i % blocks, group = i / blocks;
    const int64_t first = rows * block / blocks, here = rows * (block + 1) / blocks - first;
    const int64_t tiles = (here + R - 1) / R, each = here / tiles, more = here % tiles;
    typename Dot::Sum sums[R * 2];
    for (int64_t p = count * group / groups; p < count * (group + 1) / groups; ++p)
      for (int64_t t = 0, m = first; t < tiles; m += each + (t++ < more))
        for (int64_t c = 0; c < kDotColumns; c += 2 * W) {
          const int64_t now = each + (t < more);
          dot_rows<R>(now, a + m * apart, apart, Dot{panels + p * steps * kDotColumns + c}, steps, sums);
          for (int64_t r = 0; r < now; ++r)
#pragma GCC unroll 2
            for (int v = 0; v < 2; ++v) put(sums[2 * r + v], m + r, p * kDotColumns + c + v * W);
        }
  }
}

}  // namespace kw
