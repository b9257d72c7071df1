// Products of bfloat16 in pairs, two inner elements an instruction, where the processor has them: rows times a panel
// [inner][2][16], whose neighbouring inner elements are put side by side as they are read.
#pragma once
#include "gemm.h"

namespace kw {

constexpr int64_t kPairRows = 4;  // fewer rows are as fast as floats, which round less

// A row of `inner` as bfloat16, a zero behind an odd last one.
template <class X> KW_INLINE void copy_pairs(const X* from, bfloat16* to, int64_t inner) {
  int64_t k = 0;
  for (; k + W <= inner; k += W) store(to + k, load(from + k, Full{}), Full{});
  for (; k < inner; ++k) to[k] = from_scalar<bfloat16>(to_scalar(from[k]));
  if (inner % 2) to[inner] = from_scalar<bfloat16>(0.0f);
}

#if defined(__AVX512BF16__) && defined(__AVX512BW__)
constexpr bool kPairs = true;

// sums[r][2][16] = rows r of a times the panel b.
template <int R>
__attribute__((noinline)) void pair_tile(const bfloat16* a, int64_t a_row, const bfloat16* b, int64_t inner,
                                         float* sums) {
  alignas(64) uint16_t low[32], high[32];
  for (uint16_t i = 0; i < 16; ++i)
    low[2 * i] = i, low[2 * i + 1] = 32 + i, high[2 * i] = 16 + i, high[2 * i + 1] = 48 + i;
  const __m512i lows = _mm512_load_si512(low), highs = _mm512_load_si512(high);
  __m512 acc[R][2];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) acc[r][0] = acc[r][1] = _mm512_setzero_ps();
  constexpr int kGroups = (R + 3) / 4;  // a pointer for four rows, so that all stay in registers
  const int64_t a_rows = 3 * a_row;
  const bfloat16* rows[kGroups];
#pragma GCC unroll 4
  for (int i = 0; i < kGroups; ++i) rows[i] = a + 4 * i * a_row;
  for (int64_t k = 0; k < inner; k += 2) {
    const __m512i first = _mm512_loadu_si512(b);
    const __m512i second = k + 1 < inner ? _mm512_loadu_si512(b + 32) : _mm512_setzero_si512();
    const __m512bh one = (__m512bh)_mm512_permutex2var_epi16(first, lows, second);
    const __m512bh two = (__m512bh)_mm512_permutex2var_epi16(first, highs, second);
    b += 64;
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      int32_t pair;
      std::memcpy(&pair, rows[r / 4] + (r % 4 == 3 ? a_rows : r % 4 * a_row), sizeof pair);
      const __m512bh x = (__m512bh)_mm512_set1_epi32(pair);
      acc[r][0] = _mm512_dpbf16_ps(acc[r][0], one, x);
      acc[r][1] = _mm512_dpbf16_ps(acc[r][1], two, x);
    }
#pragma GCC unroll 4
    for (int g = 0; g < kGroups; ++g) {
      rows[g] += 2;
      asm("" : "+r"(rows[g]));  // not told apart from sums at each element
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    _mm512_storeu_ps(sums + 2 * r * W, acc[r][0]);
    _mm512_storeu_ps(sums + (2 * r + 1) * W, acc[r][1]);
  }
}

template <int R>
void pair_rows(int64_t rows, const bfloat16* a, int64_t a_row, const bfloat16* b, int64_t inner, float* sums) {
  if constexpr (R > 1)
    if (rows < R) return pair_rows<R - 1>(rows, a, a_row, b, inner, sums);
  pair_tile<R>(a, a_row, b, inner, sums);
}
#else
constexpr bool kPairs = false;
template <int R> void pair_rows(int64_t, const bfloat16*, int64_t, const bfloat16*, int64_t, float*) {}
#endif

}  // namespace kw
