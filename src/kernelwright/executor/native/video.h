// Video instructions: a function of the bytes or halves of two words, packed into a word or added to a third.
#pragma once
#include <limits>

#include "runtime.h"

namespace kw {
template <class A, class B, class D, bool saturates, bool adds, class F> inline uint32_t video(uint32_t a, uint32_t b, uint32_t c, F f) {
  constexpr int bits = 8 * sizeof(D);
  uint32_t result = adds ? c : 0;
  for (int at = 0; at < 32; at += bits) {
    int v = f(int(A(a >> at)), int(B(b >> at)));
    if (saturates) v = std::min(std::max(v, int(std::numeric_limits<D>::min())), int(std::numeric_limits<D>::max()));
    result = adds ? result + uint32_t(v) : result | (uint32_t(v) & ((uint64_t(1) << bits) - 1)) << at;
  }
  return result;
}
}  // namespace kw
