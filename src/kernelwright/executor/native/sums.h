// Sums as Hopper's tensor cores take them: the products of a step and the accumulator are aligned to the greatest
// exponent, where a product's is the sum of its factors', cut off some bits below it, and added exactly. Found by
// comparing with an H200: with 25 bits each of 57,344 sums of f16, bf16 and tf32 is met bit by bit, with 13 bits those of
// fp8 by wgmma. benchmarks/gpu/executor.py compares again.
#pragma once
#include "engine.h"

namespace kw {
enum { PRECISE = 25, COARSE = 13 };

inline int exponent_of(float x) { return x == 0 ? -4096 : std::ilogb(x); }

// Return d + a[0] b[0] + a[a_step] b[b_step] + ... of k products, not yet rounded to the sum's type.
inline double fused(int kept, int k, const float* a, int a_step, const float* b, int b_step, float d) {
  int top = exponent_of(d);
  bool finite = std::isfinite(d);
  for (int x = 0; x < k; x++) {
    float p = a[x * a_step], q = b[x * b_step];
    finite &= std::isfinite(p) && std::isfinite(q);
    top = std::max(top, exponent_of(p) + exponent_of(q));
  }
  if (!finite) {
    for (int x = 0; x < k; x++) d += a[x * a_step] * b[x * b_step];
    return d;
  }
  if (top < -2000) return d;  // nothing but zeros
  double scale = std::ldexp(1.0, kept - top), sum = std::trunc(double(d) * scale);
  for (int x = 0; x < k; x++) sum += std::trunc(double(a[x * a_step]) * double(b[x * b_step]) * scale);
  return sum / scale;
}
// Rounded towards zero to a float, or to fewer bits behind the first.
inline float cut(double x, int kept = 23) {
  if (x == 0 || !std::isfinite(x)) return float(x);
  int e = std::max(std::ilogb(x), -126);
  return float(std::ldexp(std::trunc(std::ldexp(x, kept - e)), e - kept));
}
}  // namespace kw
