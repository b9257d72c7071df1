// Weights of 1 to 8 bits as they lie in memory: codes [panels][tiles][4][bits][64], scales, zeros and minima [panels][groups][64].
//
// A panel is 64 outputs, a tile is 32 inner elements of a panel. Its 2048 codes are 4 parts of 16 outputs, each 8 vectors
// of 64 codes: 16 outputs side by side, and of each 4 inner elements, as a dot product of bytes wants them. A code's bits
// are cut into limbs of 8, 4, 2 and 1 bits, and a limb of s bits of 8 vectors takes s vectors of bytes: vector j lies in
// byte vector j mod s, at bit s * (j / s). So 3 bits are 3 bits in memory, a vector comes out by a shift and a mask, and
// the walk through a panel reads memory from one end to the other.
#pragma once
#include "contraction.h"

namespace kw {

constexpr int64_t kPanel = 64, kTile = 32, kPart = 16;
constexpr int kVectors = int(kPanel / W);  // of a panel
constexpr int kQuads = int(kTile / 4);     // vectors of a tile

constexpr int kLimbs[4] = {8, 4, 2, 1};

// The codes of vector v of a panel in one tile: at[v's first byte], as 4 bytes a lane, one for each inner element.
template <int B> KW_INLINE const uint8_t* codes_of(const uint8_t* tile, int v) {
  return tile + (v * W / kPart) * B * 64 + (v * W % kPart) * 4;
}

KW_INLINE U load_codes(const uint8_t* p) {
  U v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

// One limb of vector j, moved to its place in the code.
template <int S, int At> KW_INLINE U limb(const uint8_t* from, int j) {
  const U raw = load_codes(from + (j % S) * 64);
  constexpr uint32_t kMask = ((1u << S) - 1) * 0x01010101u;
  if constexpr (S == 8) return raw;
  const int right = S * (j / S) - At;
  return (right >= 0 ? raw >> right : raw << -right) & (kMask << At);
}

template <int B> KW_INLINE U unpack(const uint8_t* from, int j) {
  static_assert(B >= 1 && B <= 8, "codes have 1 to 8 bits");
  if constexpr (B == 8) return limb<8, 0>(from, j);
  U code{};
  if constexpr (B & 4) code |= limb<4, 0>(from, j);
  if constexpr (B & 2) code |= limb<2, B & 4>(from + (B & 4) * 64, j);
  if constexpr (B & 1) code |= limb<1, B & 6>(from + (B & 6) * 64, j);
  return code;
}

// A tile with a byte for each code, which is the layout of codes of 8 bits.
template <int B> __attribute__((noinline)) void expand(const uint8_t* tile, uint8_t* to) {
  for (int v = 0; v < kVectors; ++v)
#pragma GCC unroll 8
    for (int j = 0; j < kQuads; ++j) {
      const U c = unpack<B>(codes_of<B>(tile, v), j);
      std::memcpy(const_cast<uint8_t*>(codes_of<8>(to, v)) + j * 64, &c, sizeof c);
    }
}

// Calls body(integral constant of the bits).
template <class Body> void by_bits(int bits, Body body) {
  const auto of = [&](auto b) {
    if (bits == b.value) body(b);
  };
  of(std::integral_constant<int, 1>{}), of(std::integral_constant<int, 2>{}), of(std::integral_constant<int, 3>{});
  of(std::integral_constant<int, 4>{}), of(std::integral_constant<int, 5>{}), of(std::integral_constant<int, 6>{});
  of(std::integral_constant<int, 7>{}), of(std::integral_constant<int, 8>{});
}

// What a code means: an integer, or a sign, exponent and mantissa with nothing set aside for infinity and NaN.
struct Meaning {
  int bits, exponent;  // bits of the code, and of its exponent; 0 of an integer

  int mantissa() const { return bits - 1 - exponent; }
  int bias() const { return (1 << (exponent - 1)) - 1; }
  // The value of the least code above zero, of which every value is a multiple.
  float unit() const { return exponent ? std::ldexp(1.0f, 1 - bias() - mantissa()) : 1.0f; }
  // A code's value in these units.
  int64_t units(int code) const {
    if (!exponent) return code;
    const int low = code & ((1 << mantissa()) - 1), power = (code >> mantissa()) & ((1 << exponent) - 1);
    const int64_t size = power ? int64_t((1 << mantissa()) + low) << (power - 1) : low;
    return code >> (bits - 1) & 1 ? -size : size;
  }
};

enum class ScaleType { f32, bf16, f16 };

// What lies next to the codes.
struct Groups {
  const void* scales;    // [panels][count][64]
  ScaleType type;
  const uint8_t* zeros;  // as many, or none
  const void* minima;    // as many of the scales' type, added to each code times its scale; or none
  int64_t count;         // groups of a panel
  int64_t tiles;         // of a group
  int zero;              // of every group, where there are no zeros
  bool halves;           // a group is half a tile

  KW_INLINE F scale(int64_t panel, int64_t group, int v) const { return of<1>(scales, panel, group, v)[0]; }
  KW_INLINE F minimum(int64_t panel, int64_t group, int v) const { return of<1>(minima, panel, group, v)[0]; }
  // V vectors of a panel's scales or minima, from vector `v` on: their type is asked once.
  template <int V> struct Some {
    F at[V];
    KW_INLINE F operator[](int v) const { return at[v]; }
  };
  template <int V> KW_INLINE Some<V> of(const void* from, int64_t panel, int64_t group, int v) const {
    const int64_t first = (panel * count + group) * kPanel + v * W;
    Some<V> some;
    const auto fill = [&](auto p) KW_INLINED {
#pragma GCC unroll 8
      for (int i = 0; i < V; ++i) some.at[i] = load(p + first + i * W, Full{});
    };
    if (type == ScaleType::bf16) fill(static_cast<const bfloat16*>(from));
    else if (type == ScaleType::f16) fill(static_cast<const float16*>(from));
    else fill(static_cast<const float*>(from));
    return some;
  }
  KW_INLINE M zero_of(int64_t panel, int64_t group, int v) const {
    if (!zeros) return splat<M>(zero);
    const uint8_t* const from = zeros + (panel * count + group) * kPanel + v * W;
#if defined(__AVX512F__)
    return (M)_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
#elif defined(__AVX2__)
    return (M)_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
#else
    return load_integers(from, Full{});
#endif
  }
};

}  // namespace kw
