// Low-bit weights times activations as integers: rows are scaled to 8, 16 or 24 bits block by block, cut into bytes, and
// bytes are multiplied and summed exactly, four at a time; floats are only what a block sums to.
//
// 24 bits keep what float32 keeps next to the largest of its block, 16 bits more than bfloat16 keeps, 8 bits are dynamic
// quantisation. Reads of one row: the codes and scales once, from end to end; the row's bytes stay in the first cache.
#pragma once
#include "codes.h"

namespace kw {

#if defined(__AVX512VNNI__) && defined(__AVX512F__)
constexpr int kDotBits = 8;  // widest code that `dot4` takes; 0 where there is none
KW_INLINE M dot4(M acc, U codes, int32_t x) {
  return (M)_mm512_dpbusd_epi32((__m512i)acc, (__m512i)codes, _mm512_set1_epi32(x));
}
#elif defined(__AVXVNNI__) && defined(__AVX2__) && !defined(__AVX512F__)
constexpr int kDotBits = 8;
KW_INLINE M dot4(M acc, U codes, int32_t x) {
  return (M)_mm256_dpbusd_avx_epi32((__m256i)acc, (__m256i)codes, _mm256_set1_epi32(x));
}
#elif defined(__AVX2__) && !defined(__AVX512F__)
constexpr int kDotBits = 7;  // 2 * 255 * 128 saturates, 2 * 127 * 128 does not
KW_INLINE M dot4(M acc, U codes, int32_t x) {
  const __m256i pairs = _mm256_maddubs_epi16((__m256i)codes, _mm256_set1_epi32(x));
  return acc + (M)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}
#else
constexpr int kDotBits = 0;
KW_INLINE M dot4(M acc, U, int32_t) { return acc; }
#endif

// Where that takes no 8 bits: codes less 128, whose sizes are at most 128, times bytes of x with their signs, which are above
// -128 where a row is one plane. 2 * 128 * 127 does not saturate.
#if defined(__AVX2__) && !defined(__AVX512F__) && !defined(__AVXVNNI__)
constexpr bool kDotLess128 = true;
KW_INLINE M dot4_less_128(M acc, U codes, int32_t x) {
  const __m256i c = _mm256_xor_si256((__m256i)codes, _mm256_set1_epi8(-128));
  const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(c), _mm256_sign_epi8(_mm256_set1_epi32(x), c));
  return acc + (M)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}
#else
constexpr bool kDotLess128 = false;
KW_INLINE M dot4_less_128(M acc, U, int32_t) { return acc; }
#endif

// A byte for each code: where a code is a small float, its value in units, plus `offset`.
struct Table {
#if defined(__AVX512VBMI__)
  static constexpr int kBits = 6;
#elif defined(__AVX512BW__) || (defined(__AVX2__) && !defined(__AVX512F__))
  static constexpr int kBits = 4;
#else
  static constexpr int kBits = 0;
#endif
  static constexpr int kOffset = kDotBits == 8 ? 128 : 64;
  alignas(64) uint8_t bytes[64] = {};

  // Whether these codes have such a table here.
  static bool holds(const Meaning& m) {
    return m.exponent && m.bits <= kBits && m.units((1 << (m.bits - 1)) - 1) < kOffset;
  }
  explicit Table(const Meaning& m) {
    if (holds(m))
      for (int i = 0; i < 64; ++i) bytes[i] = static_cast<uint8_t>(m.units(i & ((1 << m.bits) - 1)) + kOffset);
  }
  KW_INLINE U look(U codes) const {
    const U table = load_codes(bytes);
#if defined(__AVX512VBMI__)
    return (U)_mm512_permutexvar_epi8((__m512i)codes, (__m512i)table);
#elif defined(__AVX512BW__)
    return (U)_mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm512_castsi512_si128((__m512i)table)), (__m512i)codes);
#elif defined(__AVX2__)
    return (U)_mm256_shuffle_epi8((__m256i)table, (__m256i)codes);
#else
    return codes;
#endif
  }
};

// Rows as bytes: value = scale of its block * sum over planes of plane p * 256^p.
template <int P> struct Bytes {
  int64_t tiles, block, blocks;  // tiles of a row, of a block
  int64_t plane;                 // bytes of a plane: a line more, lest planes share their places in the cache
  Temporary<int8_t> data;        // [rows][planes][plane]
  Temporary<float> scale;        // [rows][blocks]
  Temporary<int32_t> sums;       // [rows][blocks][planes]

  Bytes(int64_t rows, int64_t tiles, int64_t block)
      : tiles(tiles), block(block), blocks((tiles + block - 1) / block), plane(tiles * kTile + 64),
        data(rows * P * plane), scale(rows * blocks), sums(rows * blocks * P) {}

  // What a block of a row sums to.
  float sum_of(int64_t r, int64_t b) const {
    float sum = 0;
    for (int p = P - 1; p >= 0; --p) sum = sum * 256.0f + static_cast<float>(sums.data[(r * blocks + b) * P + p]);
    return sum * scale.data[r * blocks + b];
  }

  // The largest value: below 127 in every plane, a float's rounding beyond it included.
  static constexpr float kMost = P == 1 ? 127.0f : P == 2 ? 32639.0f : 8355583.0f;
  static constexpr float kLeast = 1e-30f;  // below it the largest of a block has no reciprocal of use

  // What one is worth: a power of two where it can be, so that numbers of few digits stay as they are.
  static float step_of(float top) {
    if constexpr (P == 1) return top / kMost;
    int power = 0;
    std::frexp(top, &power);
    const float step = std::ldexp(1.0f, power - (8 * P - 1));
    return top > kMost * step ? 2 * step : step;
  }

  // From a row of tiles * 32 floats. Returns whether they can be written so: 16 and 24 bits hold no NaN, no infinity and
  // not the smallest floats; 8 bits make NaN of the first two and zero of the last, as their reference does.
  bool fill(int64_t r, const float* x) {
    int8_t* const to = data.data + r * P * plane;
    for (int64_t b = 0; b < blocks; ++b) {
      const int64_t first = b * block * kTile, last = std::min(first + block * kTile, tiles * kTile);
      F most{};
      for (int64_t k = first; k < last; k += W) most = maximum(most, abs(load(x + k, Full{})));
      const float largest = fold_lanes(most, [](F a, F c) { return maximum(a, c); })[0];
      const bool finite = largest <= std::numeric_limits<float>::max();
      if (P > 1 && (!finite || (largest > 0.0f && largest < kLeast))) return false;
      const float top = largest > kLeast ? largest : kLeast, step = step_of(top);
      const F inverse = splat(!finite ? 0.0f : P == 1 ? kMost / top : 1.0f / step);
      scale.data[r * blocks + b] = finite ? step : kNaN;
      M sum[P];
      for (int p = 0; p < P; ++p) sum[p] = M{};
      for (int64_t k = first; k < last; k += W) {
        M q = finite ? __builtin_convertvector(rint(load(x + k, Full{}) * inverse), M) : M{};
#pragma GCC unroll 3
        for (int p = 0; p < P; ++p) {
          const M byte = p + 1 == P ? q : (q << 24) >> 24;
          q = (q - byte) >> 8;
          sum[p] += byte;
          typedef int8_t Q __attribute__((vector_size(W)));
          const Q narrow = __builtin_convertvector(byte, Q);
          std::memcpy(to + p * plane + k, &narrow, sizeof narrow);
        }
      }
      for (int p = 0; p < P; ++p) {
        int32_t all = 0;
        for (int i = 0; i < W; ++i) all += sum[p][i];
        sums.data[(r * blocks + b) * P + p] = all;
      }
    }
    return true;
  }
};

// Whether codes are multiplied by several rows as they lie: one limb costs a shift and a mask for all of them.
constexpr bool one_limb(int bits) { return (bits & (bits - 1)) == 0; }

// Bytes between what is read and what is asked for, where a row of bytes meets codes of 8 bits: from memory it took 971 us
// instead of 1320 for 16 MiB. Narrower codes and more planes took as long or longer with it (one thread of an AMD EPYC).
constexpr int64_t kAskedBytes = 8192;

// Adds to R rows of V vectors of a panel, from vector `v0`, what blocks [first, last) sum to. `tile` holds their codes.
template <int B, int P, int R, int V, bool Looked, bool Less128>
__attribute__((noinline)) void integer_tile(const Bytes<P>& x, int64_t r0, const uint8_t* tile, const Groups& g,
                                            const Table& table, float unit, int64_t panel, int v0, int64_t first,
                                            int64_t last, float* out) {
  constexpr int64_t kBytes = kPanel * kTile * B / 8;
  constexpr bool kAsks = B == 8 && P == 1 && R == 1;
  const int64_t plane = x.plane, blocks_of_group = g.tiles / x.block;
  const int8_t* rows[R];
  F sums[R][V];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    rows[r] = x.data.data + (r0 + r) * P * plane + first * x.block * kTile;
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) sums[r][v] = load(out + r * kPanel + (v0 + v) * W, Full{});
  }
  int64_t group = first / blocks_of_group, left = blocks_of_group - first % blocks_of_group;
  for (int64_t b = first; b < last; ++b) {
    const int64_t tiles = std::min(x.block, x.tiles - b * x.block);
    M acc[R][P][V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      const M zero = g.zero_of(panel, group, v0 + v) - (Less128 ? 128 : 0);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r)
#pragma GCC unroll 3
        for (int p = 0; p < P; ++p) acc[r][p][v] = zero * splat<M>(-x.sums.data[((r0 + r) * x.blocks + b) * P + p]);
    }
    for (int64_t t = 0; t < tiles; ++t, tile += kBytes) {
      const auto multiply = [&](int v, int j, int i) KW_INLINED {  // quad j + i
        const U code = unpack<B>(codes_of<B>(tile, v0 + v) + i * 64, j), c = Looked ? table.look(code) : code;
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r)
#pragma GCC unroll 3
          for (int p = 0; p < P; ++p) {
            int32_t four;
            std::memcpy(&four, rows[r] + p * plane + (j + i) * 4, 4);
            acc[r][p][v] = Less128 ? dot4_less_128(acc[r][p][v], c, four) : dot4(acc[r][p][v], c, four);
          }
      };
      if constexpr (kAsks)
#pragma GCC unroll 32
        for (int i = 0; i < V * B * W / int(kPart); ++i) __builtin_prefetch(codes_of<B>(tile, v0) + kAskedBytes + i * 64, 0, 2);
      // Four bytes of a row meet all vectors while they are in a register. Codes that come out by a shift lie B vectors side
      // by side: half of these at a time is half of what all eight quads written out are; less of them takes longer to run.
      if constexpr (R > 1 && one_limb(B) && !Looked) {
        constexpr int kHalf = B > 1 ? B / 2 : 1;
#pragma GCC unroll 1
        for (int half = 0; half < B; half += kHalf)
#pragma GCC unroll 4
          for (int i = 0; i < kHalf; ++i)
#pragma GCC unroll 8
            for (int j = 0; j < kQuads; j += B)
#pragma GCC unroll 8
              for (int v = 0; v < V; ++v) multiply(v, i + j, half);
      } else if constexpr (kAsks || R > 1) {
#pragma GCC unroll 8
        for (int j = 0; j < kQuads; ++j)
#pragma GCC unroll 8
          for (int v = 0; v < V; ++v) multiply(v, j, 0);
      } else {
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v)
#pragma GCC unroll 8
          for (int j = 0; j < kQuads; ++j) multiply(v, j, 0);
      }
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) rows[r] += kTile;
    }
    const auto scale = g.of<V>(g.scales, panel, group, v0);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const F step = splat(x.scale.data[(r0 + r) * x.blocks + b] * unit);
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) {
        F sum = from_integers(acc[r][P - 1][v]);
#pragma GCC unroll 3
        for (int p = P - 2; p >= 0; --p) sum = fma(sum, splat(256.0f), from_integers(acc[r][p][v]));
        sums[r][v] = fma(sum, scale[v] * step, sums[r][v]);
      }
    }
    if (g.minima) {
      const auto minimum = g.of<V>(g.minima, panel, group, v0);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const F whole = splat(x.sum_of(r0 + r, b));
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) sums[r][v] = fma(minimum[v], whole, sums[r][v]);
      }
    }
    if (--left == 0) ++group, left = blocks_of_group;
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) store(out + r * kPanel + (v0 + v) * W, sums[r][v], Full{});
}

constexpr int kIntegerSums = W == 16 ? 24 : 8;  // vectors of sums that registers hold besides codes and rows
constexpr int kIntegerRows = 8;                 // of a tile at most

// `count` rows, one or an even number, by blocks [first, last) of a panel, whose codes `tile` holds: tiles as high as
// registers allow.
template <int B, int P, bool Looked, bool Less128 = false>
void integer_rows(const Bytes<P>& x, int64_t row, int64_t count, const uint8_t* tile, const Groups& g, const Table& table,
                  float unit, int64_t panel, int64_t first, int64_t last, float* sums) {
  const auto tiles = [&](auto rows, int64_t r) {
    constexpr int R = rows.value, V = 4 * R * P <= kIntegerSums ? 4 : 2 * R * P <= kIntegerSums ? 2 : 1;
    for (int v = 0; v < kVectors; v += V)
      integer_tile<B, P, R, V, Looked, Less128>(x, row + r, tile, g, table, unit, panel, v, first, last, sums + r * kPanel);
  };
  if constexpr (one_limb(B) && !Looked) {
    constexpr int kMost = P == 1 ? kIntegerRows : 4;
    for (int64_t r = 0; count > 1 && r < count;) {
      const int64_t here = std::min<int64_t>(kMost, count - r);
      if constexpr (kMost == 8) {
        if (here == 8) tiles(std::integral_constant<int, 8>{}, r);
        if (here == 6) tiles(std::integral_constant<int, 6>{}, r);
      }
      if (here == 4) tiles(std::integral_constant<int, 4>{}, r);
      if (here == 2) tiles(std::integral_constant<int, 2>{}, r);
      r += here;
    }
  }
  if (count == 1) tiles(std::integral_constant<int, 1>{}, 0);
}

}  // namespace kw
