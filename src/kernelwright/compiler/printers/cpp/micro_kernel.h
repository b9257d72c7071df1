// The micro-kernel of products: a register tile of rows by vectors of columns, in float32 or in pairs of bfloat16.
#pragma once
#include "tiles.h"

#define KW_INLINED __attribute__((always_inline))  // of a function object

namespace kw {

// What an instruction does with `count` inner elements of a row and of each column of V vectors, `apart` elements from one
// to the next.
template <class A> struct Step {
  static constexpr int count = 1;
  template <int V, class T, class Lanes>
  static KW_INLINE void columns(F (&y)[V], const T* b, int64_t, int64_t apart, Lanes lanes) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) y[v] = load(b + v * apart, lanes);
  }
  static KW_INLINE F row(const A* a) { return splat(to_scalar(*a)); }
  static KW_INLINE F add(F sum, F x, F y) { return fma(x, y, sum); }
  template <int V, class Lanes> static KW_INLINE void in_order(F (&)[V], Lanes) {}
};
#if defined(__AVX512BF16__)
// Pairs of bfloat16 are multiplied exactly and summed in float32, twice as many at once; denormals count as zero.
template <> struct Step<bfloat16> {
  static constexpr int count = 2;
  static KW_INLINE __m512i wide(const bfloat16* b, Full) {
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(b)));
  }
  static KW_INLINE __m512i wide(const bfloat16* b, Part part) {
    return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(static_cast<__mmask16>((1u << part.count) - 1), b));
  }
  template <int V, class Lanes>
  static KW_INLINE void columns(F (&y)[V], const bfloat16* b, int64_t b_row, int64_t apart, Lanes lanes) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v, b += apart)
      y[v] = (F)_mm512_or_si512(wide(b, lanes), _mm512_slli_epi32(wide(b + b_row, lanes), 16));
  }
  // Two whole vectors lie side by side, one panel's or one of each member; their columns come interleaved by fours.
  static KW_INLINE void columns(F (&y)[2], const bfloat16* b, int64_t b_row, int64_t, Full) {
    const __m512i first = _mm512_loadu_si512(b), second = _mm512_loadu_si512(b + b_row);
    y[0] = (F)_mm512_unpacklo_epi16(first, second);
    y[1] = (F)_mm512_unpackhi_epi16(first, second);
  }
  static KW_INLINE F row(const bfloat16* a) {
    int32_t pair;
    std::memcpy(&pair, a, sizeof pair);
    return (F)_mm512_set1_epi32(pair);
  }
  static KW_INLINE F add(F sum, F x, F y) { return (F)_mm512_dpbf16_ps((__m512)sum, (__m512bh)x, (__m512bh)y); }
  template <int V, class Lanes> static KW_INLINE void in_order(F (&)[V], Lanes) {}
  static KW_INLINE void in_order(F (&sums)[2], Full) {
    const F low = sums[0], high = sums[1];
    sums[0] = shuffle(low, high, M{0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23});
    sums[1] = shuffle(low, high, M{8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31});
  }
};
// What rows of the left factor are multiplied as, where they lie, by panels of T.
template <class T> using Multiplied = std::conditional_t<std::is_same_v<T, bfloat16>, bfloat16, float>;
#elif defined(KW_TILE_MODEL)
template <class T> using Multiplied = std::conditional_t<std::is_same_v<T, bfloat16>, bfloat16, float>;
#else
template <class T> using Multiplied = float;
#endif

constexpr int64_t kChain = 512;                // inner elements that one register sums; a whole number of lines

// Bytes of a panel between what is read and what is asked for, where many rows are multiplied meanwhile; the machine's own
// prefetching is faster where few are (a row in the last cache: 112 GB/s alone, 75 to 89 with any distance).
constexpr int64_t kAhead = 4096;
constexpr int kManyRows = 12;                  // vectors of sums above which it is asked

// What is fetched on the way, a step for each inner element: for whoever comes next.
struct Fetched {
  const char* at = nullptr;
  int64_t step = 0;  // bytes
};

// sums[r, v] (+)= sum over k of a[r, k] * b[k, v]: R rows of V vectors, `apart` elements from one to the next in b. Elements
// of R rows may lie side by side, `together`: a[k, r].
template <int R, int V, bool fetches = false, bool together = false, class A, class T, class Lanes>
__attribute__((noinline)) void packed_tile(const A* a, int64_t a_row, const T* b, int64_t b_row, int64_t apart, int64_t depth,
                                           float* sums, int64_t sums_row, bool add, Lanes lanes, Fetched next = {}) {
  constexpr int kChains = R * V < 4 ? 4 / (R * V) : 1;  // a multiplication takes as long as four begin
  F acc[kChains][R][V];
#pragma GCC unroll 4
  for (int i = 0; i < kChains; ++i)
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) acc[i][r][v] = F{};
  // A pointer for four rows, which lie one, two and three steps from it; told apart from sums of others at each element,
  // so that no register holds a row of its own: there are not as many.
  constexpr int kGroups = together ? 1 : (R + 3) / 4;
  const int64_t a_rows = 3 * a_row;
  const A* rows[kGroups];
#pragma GCC unroll 4
  for (int i = 0; i < kGroups; ++i) rows[i] = a + 4 * i * a_row;
  using S = Step<A>;
  static_assert(!together || S::count == 1);
  const auto step = [&](int i) KW_INLINED {
    F y[V];
    S::columns(y, b, b_row, apart, lanes);
    if constexpr (fetches) {
      prefetch(next.at);
      next.at += S::count * next.step;
    } else if constexpr (R * V > kManyRows)
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) prefetch(b + v * apart + kAhead / int64_t(sizeof(T)));
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const F x = S::row(together ? rows[0] + r : rows[r / 4] + (r % 4 == 3 ? a_rows : r % 4 * a_row));
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) acc[i][r][v] = S::add(acc[i][r][v], x, y[v]);
    }
    b += S::count * b_row;
#if defined(__GNUC__)
    asm("" : "+r"(b));
#endif
#pragma GCC unroll 4
    for (int g = 0; g < kGroups; ++g) {
      rows[g] += together ? R : S::count;
#if defined(__GNUC__)
      asm("" : "+r"(rows[g]));
#endif
    }
  };
  int64_t k = 0;
  for (; k + kChains * S::count <= depth; k += kChains * S::count)
#pragma GCC unroll 4
    for (int i = 0; i < kChains; ++i) step(i);
  if constexpr (kChains > 1)
    for (; k + S::count <= depth; k += S::count) step(0);
#pragma GCC unroll 4
  for (int i = 1; i < kChains; ++i)
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) acc[0][r][v] += acc[i][r][v];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    S::in_order(acc[0][r], lanes);
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      float* to = sums + r * sums_row + v * W;
      F sum = acc[0][r][v];
      if constexpr (S::count > 1)
        if (k < depth)  // the last of an odd number
          sum = fma(splat(to_scalar(rows[r / 4][r % 4 == 3 ? a_rows : r % 4 * a_row])), load(b + v * apart, lanes), sum);
      store(to, add ? load(to, Full{}) + sum : sum, Full{});
    }
  }
}

// A tile of `rows` rows, 1 to R: each height is compiled, so that no row is multiplied alone.
template <int R, int V, bool fetches = false, bool together = false, class A, class T, class Lanes>
KW_INLINE void packed_rows(int64_t rows, const A* a, int64_t a_row, const T* b, int64_t b_row, int64_t apart, int64_t depth,
                           float* sums, int64_t sums_row, bool add, Lanes lanes, Fetched next = {}) {
  if constexpr (R > 1)
    if (rows < R)
      return packed_rows<R - 1, V, fetches, together>(rows, a, a_row, b, b_row, apart, depth, sums, sums_row, add, lanes, next);
  packed_tile<R, V, fetches, together>(a, a_row, b, b_row, apart, depth, sums, sums_row, add, lanes, next);
}

}  // namespace kw
