// What printed kernels stand on beside `vector.h`: scalars with torch's meaning, lanes of accumulators.
#pragma once
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>

#include "vector.h"

namespace kw {

// Scalars: NaN wins in the larger and the smaller; remainders have the divisor's sign -----------------------
template <class T> KW_INLINE T larger(T a, T b) { return (a > b || a != a) ? a : b; }
template <class T> KW_INLINE T smaller(T a, T b) { return (a < b || a != a) ? a : b; }
template <class T> KW_INLINE T signum(T a) { return static_cast<T>((T(0) < a) - (a < T(0))); }
KW_INLINE int64_t floor_div(int64_t a, int64_t b) { return a / b - ((a % b != 0) && ((a < 0) != (b < 0))); }
template <class T> KW_INLINE T floor_mod(T a, T b) {
  const T r = std::fmod(a, b);
  return (r != 0 && ((r < 0) != (b < 0))) ? r + b : r;
}
KW_INLINE int64_t floor_mod(int64_t a, int64_t b) { return a - floor_div(a, b) * b; }
template <class T> KW_INLINE T sigmoid_of(T x) { return 1 / (1 + std::exp(-x)); }
template <class T> KW_INLINE T softplus_of(T x, T beta, T threshold) {
  const T y = x * beta;
  return y > threshold ? x : (std::fmax(y, T(0)) + std::log1p(std::exp(-std::fabs(y)))) / beta;
}
KW_INLINE int64_t whole(double x) { return static_cast<int64_t>(x); }

// Lanes ----------------------------------------------------------------------------------------------------
KW_INLINE D widen(F x) { return __builtin_convertvector(x, D); }
KW_INLINE F narrow(D x) { return __builtin_convertvector(x, F); }
KW_INLINE D splat_wide(double x) { return D{} + x; }
KW_INLINE M splat_integer(int64_t x) { return M{} + static_cast<int32_t>(x); }
KW_INLINE M select(M m, M a, M b) { return m ? a : b; }
// The new value in active lanes, the old one in the others.
template <class V> KW_INLINE V keep(Full, V fresh, V) { return fresh; }
template <class V> KW_INLINE V keep(Part part, V fresh, V old) { return select(lanes_mask(part), fresh, old); }
// One element a lane, computed by a function of the lane; for what does not lie side by side.
template <class Lanes, class Function> KW_INLINE F each(Lanes lanes, Function function) {
  F r{};
  for (int k = 0; k < lanes.count; ++k) r[k] = static_cast<float>(function(k));
  return r;
}
template <class Lanes, class Function> KW_INLINE M each_integer(Lanes lanes, Function function) {
  M r{};
  for (int k = 0; k < lanes.count; ++k) r[k] = static_cast<int32_t>(function(k));
  return r;
}
template <class Lanes, class Function> KW_INLINE M each_mask(Lanes lanes, Function function) {
  M r{};
  for (int k = 0; k < lanes.count; ++k) r[k] = function(k) ? -1 : 0;
  return r;
}
template <class Lanes> KW_INLINE bool all(M m, Lanes lanes) { return !any(~m & lanes_mask(lanes)); }
// Lanes in another order: lane i gets lane i ^ step.
template <class V> KW_INLINE V turned(V v, int step) {
#if defined(__GNUC__) && !defined(__clang__)
  return __builtin_shuffle(v, iota() ^ step);
#else
  V r;
  for (int i = 0; i < W; ++i) r[i] = v[i ^ step];
  return r;
#endif
}
KW_INLINE double product_lanes(D v) {
  double r = 1;
  for (int i = 0; i < W; ++i) r *= v[i];
  return r;
}

// Past the caches where the buffer is large and the place lies on a vector's boundary.
template <class Lanes> KW_INLINE void stream(float* p, F v, Lanes lanes, bool past) {
  if (past && reinterpret_cast<uintptr_t>(p) % sizeof(F) == 0) {
    stream(p, v, lanes);
  } else {
    store(p, v, lanes);
  }
}

// Memory of a temporary, aligned to a cache line.
template <class T> struct Temporary {
  explicit Temporary(int64_t count)
      : data(static_cast<T*>(std::aligned_alloc(64, (static_cast<size_t>(count) * sizeof(T) + 64) / 64 * 64))) {
    if (!data) throw std::bad_alloc();
  }
  ~Temporary() { std::free(data); }
  Temporary(const Temporary&) = delete;
  T* data;
};

}  // namespace kw
