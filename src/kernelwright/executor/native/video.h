// Video instructions on a word, or on the bytes or halves of two words. Source: PTX ISA, "Video Instructions".
#pragma once
#include <limits>

#include "runtime.h"

namespace kw {
enum Second { SECOND_NONE, SECOND_ADD, SECOND_MIN, SECOND_MAX };

// The parts of two words that `picks` numbers, four bits each: those of y follow those of x.
template <int bits> inline uint32_t picked(uint32_t x, uint32_t y, uint32_t picks) {
  uint64_t both = uint64_t(y) << 32 | x, mask = (uint64_t(1) << bits) - 1;
  uint32_t result = 0;
  for (int at = 0; at < 32; at += bits, picks >>= 4) result |= uint32_t(both >> ((picks & 15) * bits) & mask) << at;
  return result;
}

// A function of the parts of two words, packed into a word or added to a third; `mask` says which parts.
template <class A, class B, class D, bool saturates, bool adds, int mask, class F> inline uint32_t video(uint32_t a, uint32_t b, uint32_t c, F f) {
  constexpr int bits = 8 * sizeof(D);
  uint32_t result = adds ? c : 0;
  for (int at = 0; at < 32; at += bits) {
    bool here = mask >> (at / bits) & 1;
    int v = f(int(A(a >> at)), int(B(b >> at)));
    if (saturates) v = std::min(std::max(v, int(std::numeric_limits<D>::min())), int(std::numeric_limits<D>::max()));
    if (adds) result += here ? uint32_t(v) : 0;
    else result |= ((here ? uint32_t(v) : c >> at) & ((uint64_t(1) << bits) - 1)) << at;
  }
  return result;
}

// vshl and vshr, whose result has 34 bits.
inline int64_t shift_word(int64_t p, int64_t by, bool left, bool wraps) {
  int n = int(wraps ? by & 31 : std::min<int64_t>(by, 32));
  if (!left) return p >> n;
  return int64_t(uint64_t(p) << n << 30) >> 30;
}

// What follows the operation: saturation to the part that is written, then a sum or extreme with c, or a merge into it.
template <int bits, int at, bool is_signed, bool saturates, Second second>
inline uint32_t end_word(int64_t v, uint32_t c, Mask* beyond, int lane) {
  constexpr int64_t low = is_signed ? -(int64_t(1) << (bits - 1)) : 0, high = low + (int64_t(1) << bits) - 1;
  if (saturates) v = std::min(std::max(v, low), high);
  const int64_t third = is_signed ? int64_t(int32_t(c)) : int64_t(c);
  if constexpr (second == SECOND_ADD) return uint32_t(v + third);
  if constexpr (second == SECOND_MIN || second == SECOND_MAX) {
    *beyond |= Mask(v < low || v > high) << lane;
    return uint32_t(second == SECOND_MIN ? std::min(v, third) : std::max(v, third));
  }
  if constexpr (bits == 32) return uint32_t(v);
  constexpr uint32_t mask = uint32_t((uint64_t(1) << bits) - 1) << at;
  return (uint32_t(v) << at & mask) | (c & ~mask);
}

template <bool minus, bool minus_c, bool plus_one, bool is_signed, bool saturates, int scale>
inline uint32_t multiply_word(int64_t a, int64_t b, uint32_t c) {
  __int128 product = __int128(a) * b, third = is_signed ? __int128(int32_t(c)) : __int128(c);
  __int128 v = ((minus ? -product : product) + (minus_c ? -third : third) + plus_one) >> scale;
  if (saturates) {
    const __int128 low = is_signed ? -(__int128(1) << 31) : 0, high = low + (__int128(1) << 32) - 1;
    v = v < low ? low : v > high ? high : v;
  }
  return uint32_t(v);
}
}  // namespace kw
