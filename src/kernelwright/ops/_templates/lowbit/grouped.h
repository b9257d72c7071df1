// Rows of int8 or int4 with a scale for each group of columns, read as floats where they lie.
//
// Columns come in blocks of 32, and a group is a power of two of them. A block of int4 is 16 bytes: byte j has column j
// in its low half and column 16 + j in its high half, both plus 8, so that one load serves two vectors. Scales are bfloat16,
// which has the range of float32, and a product with a code is exact.
#pragma once
#include "vector.h"

namespace kw {

constexpr int64_t kBlock = 32;
constexpr int kNibbleZero = 8;  // what a code of 4 bits is more than it means

struct GroupedByte {
  int8_t code;
  static constexpr int64_t kOfByte = 1;  // columns
};
struct GroupedNibbles {
  uint8_t pair;
  static constexpr int64_t kOfByte = 2;
};
template <class C> constexpr bool is_grouped = std::is_same_v<C, GroupedByte> || std::is_same_v<C, GroupedNibbles>;

KW_INLINE F scale_at(const bfloat16* p) {
  uint16_t half;
  std::memcpy(&half, p, sizeof half);
  return from_bits(splat<M>(static_cast<int32_t>(static_cast<uint32_t>(half) << 16)));
}

// Vector i of a block, whose codes begin at `block`, times its scale.
KW_INLINE F scaled(const GroupedByte* block, int i, F scale) {
  const int8_t* from = &block->code + i * W;
#if defined(__AVX512F__)
  return (F)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)))) * scale;
#else
  return from_integers(load_integers(from, Full{})) * scale;
#endif
}
KW_INLINE F scaled(const GroupedNibbles* block, int i, F scale) {
  const uint8_t* from = &block->pair + i * W % 16;
  const int right = i * W / 16 * 4;
#if defined(__AVX512F__)  // the permutation looks at the low four bits of each lane alone
  const __m512i pairs = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  const F values = from_integers(iota() - kNibbleZero) * scale;
  return (F)_mm512_permutexvar_ps(_mm512_srli_epi32(pairs, right), (__m512)values);
#else
  return from_integers(((load_integers(from, Full{}) >> right) & 15) - kNibbleZero) * scale;
#endif
}

}  // namespace kw
