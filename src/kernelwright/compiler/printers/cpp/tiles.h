// What printed kernels stand on in addition to `vector.h`: scalars with torch's meaning, lanes of accumulators.
// precompile: parsing what it includes takes longer than many a kernel.
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

// Keeps compilers from loading a vector once for each operation that reads it.
KW_INLINE F in_register(F x) {
#if defined(__AVX512F__)
  asm("" : "+v"(x));
#elif defined(__AVX2__)
  asm("" : "+x"(x));
#endif
  return x;
}

// Lanes that a factor of a product is not read in, only asked for: it says which line of memory it will be read from.
struct Ahead {
  static constexpr int count = 0;
};
template <class Lanes> constexpr bool is_ahead = std::is_same_v<Lanes, Ahead>;
KW_INLINE F asked_for(const float* p) {
  prefetch(p);
  return F{};
}
template <class T> KW_INLINE F asked_for(const T* p) {
  prefetch(p);
  return F{};
}
constexpr int64_t kLineFloats = 16;  // of a line of memory

// Lanes ----------------------------------------------------------------------------------------------------
// W doubles as two vectors of the machine's: GCC keeps what is wider in memory, accumulators in loops included.
struct Wide {
  typedef double Half __attribute__((vector_size(W * 4)));
  typedef float Source __attribute__((vector_size(W * 2)));
  Half low, high;
  KW_INLINE Wide& operator+=(Wide x) {
    low += x.low, high += x.high;
    return *this;
  }
  KW_INLINE Wide& operator*=(Wide x) {
    low *= x.low, high *= x.high;
    return *this;
  }
  KW_INLINE double operator[](int i) const { return i < W / 2 ? low[i] : high[i - W / 2]; }
};
KW_INLINE Wide widen(F x) {
#if defined(__AVX512F__)
  const __m256 high = (__m256)_mm512_extractf64x4_pd((__m512d)x, 1);
  return {_mm512_cvtps_pd(_mm512_castps512_ps256((__m512)x)), _mm512_cvtps_pd(high)};
#elif defined(__AVX2__)
  const __m256 all = (__m256)x;
  return {_mm256_cvtps_pd(_mm256_castps256_ps128(all)), _mm256_cvtps_pd(_mm256_extractf128_ps(all, 1))};
#else
  Wide::Source parts[2];
  std::memcpy(parts, &x, sizeof x);
  return {__builtin_convertvector(parts[0], Wide::Half), __builtin_convertvector(parts[1], Wide::Half)};
#endif
}
KW_INLINE F narrow(Wide x) {
  const Wide::Source parts[2] = {
      __builtin_convertvector(x.low, Wide::Source), __builtin_convertvector(x.high, Wide::Source)};
  F r;
  std::memcpy(&r, parts, sizeof r);
  return r;
}
// The sum of n vectors: in pairs, then pairs of pairs.
template <int n> KW_INLINE F added(const F* terms) {
  if constexpr (n == 1) return terms[0];
  else return added<n / 2>(terms) + added<n - n / 2>(terms + n / 2);
}
KW_INLINE Wide splat_wide(double x) { return {splat<Wide::Half>(x), splat<Wide::Half>(x)}; }
KW_INLINE double sum_lanes(Wide x) {
  const Wide::Half both = x.low + x.high;
#if defined(__AVX512F__)
  return _mm512_reduce_add_pd((__m512d)both);
#else
  double sum = 0;
  for (int i = 0; i < W / 2; ++i) sum += both[i];
  return sum;
#endif
}
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
// Lane k gets p[2 * k] where the mask says so, zero elsewhere; nothing beyond the last of them is touched.
template <class Lanes> KW_INLINE F load_evens(const float* p, M where, Lanes lanes) {
  const M m = where & lanes_mask(lanes), lane = iota(), far = lane >= W / 2;
  if (all(m, Full{})) return shuffle(load(p, Full{}), load(p + W - 1, Full{}), 2 * lane - far);
  const F given = from_bits(m);
  const M even = (lane & 1) == 0, low = bits(shuffle(given, given, lane >> 1)) & even;
  const M high = bits(shuffle(given, given, (lane >> 1) + W / 2)) & even;
  return shuffle(load_where(p, low, Full{}), load_where(p + W, high, Full{}), 2 * lane);
}
// Lane k goes to p[2 * k]; what lies between stays.
KW_INLINE void store_evens(float* p, F v, Part part) {
  for (int k = 0; k < part.count; ++k) p[2 * k] = v[k];
}
KW_INLINE void store_evens(float* p, F v, Full) {
#if defined(__AVX512F__)
  const M half = iota() >> 1;
  _mm512_mask_storeu_ps(p, 0x5555, (__m512)shuffle(v, v, half));
  _mm512_mask_storeu_ps(p + W, 0x5555, (__m512)shuffle(v, v, half + W / 2));
#else
  store_evens(p, v, Part{W});
#endif
}
// Lane k gets p[-k].
KW_INLINE F load_backwards(const float* p, Full) {
  const F v = load(p - (W - 1), Full{});
  return shuffle(v, v, W - 1 - iota());
}
KW_INLINE F load_backwards(const float* p, Part part) {
  return each(part, [&](int k) { return p[-k]; });
}
// A load whose lanes are inside where the first and the last are; elsewhere under a mask, and `other` outside.
template <class Lanes, class Inside, class Mask>
KW_INLINE F load_between(const float* p, Inside inside, Mask mask, float other, Lanes lanes) {
  if (inside(0) && inside(lanes.count - 1)) return load(p, lanes);
  const M where = mask();
  return select(where, load_where(p, where, lanes), splat(other));
}
template <class Lanes, class Inside, class Mask>
KW_INLINE F load_evens_between(const float* p, Inside inside, Mask mask, float other, Lanes lanes) {
  if (inside(0) && inside(lanes.count - 1)) return load_evens(p, kw::mask(true), lanes);
  const M where = mask();
  return select(where, load_evens(p, where, lanes), splat(other));
}
// The value of the first of several parts in which all lanes lie; computed apart where the first and the last lane lie in
// different ones. Parts are given as a test of a lane and a value, the last one as a value.
template <class Lanes, class Apart, class Last> KW_INLINE auto pick(Lanes, Apart, Last last) { return last(); }
template <class Lanes, class Apart, class Inside, class Value, class... Rest>
KW_INLINE auto pick(Lanes lanes, Apart apart, Inside inside, Value value, Rest... rest) {
  const bool first = inside(0);
  if (first != inside(lanes.count - 1)) return apart();
  return first ? value() : pick(lanes, apart, rest...);
}
KW_INLINE M to_integers(F x) { return __builtin_convertvector(x, M); }
KW_INLINE M min_integers(M a, M b) { return a < b ? a : b; }
KW_INLINE M max_integers(M a, M b) { return a > b ? a : b; }
// Where lanes read: within one vector after the first lane's place and none beyond the last lane's, or anywhere.
struct LanePlaces {
  M at, from, near;  // from the first lane's on; which elements of one vector there
  bool are_near;
};
template <class Lanes> KW_INLINE LanePlaces places(M at, Lanes lanes) {
  const M from = at - at[0];
  const int32_t span = from[lanes.count - 1];
  const bool are_near = static_cast<uint32_t>(span) < static_cast<uint32_t>(W);
  return {at, from, iota() <= span, are_near && all((from >= 0) & (from <= span), lanes)};
}
// Lane k gets p[at[k]]: near ones are picked from one load, which touches nothing beyond the last lane's.
template <class Lanes> KW_INLINE F load_at(const float* p, const LanePlaces& places, Lanes lanes) {
  if (places.are_near) {
    const F near = load_where(p + places.at[0], places.near, Full{});
    return shuffle(near, near, places.from);
  }
  F r{};
  for (int k = 0; k < lanes.count; ++k) r[k] = p[places.at[k]];
  return r;
}
// to[column * wide + row] = from[row * apart + column]: squares of vectors in registers, the rest one by one. Asks for
// as many rows further down, where the next tile of a walk down lies: every row is in a page of its own.
inline void turn(const float* from, int64_t apart, int64_t rows, int64_t columns, float* to, int64_t wide) {
  const int64_t whole_rows = rows / W * W, whole_columns = columns / W * W;
  for (int64_t row = 0; row < whole_rows; row += W)
    for (int64_t column = 0; column < whole_columns; column += W) {
      F square[W];
      for (int i = 0; i < W; ++i) {
        square[i] = load(from + (row + i) * apart + column, Full{});
        prefetch(from + (row + i + rows) * apart + column);
      }
      transpose_lanes(square);
      for (int i = 0; i < W; ++i) store(to + (column + i) * wide + row, square[i], Full{});
    }
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = row < whole_rows ? whole_columns : 0; column < columns; ++column)
      to[column * wide + row] = from[row * apart + column];
}
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
KW_INLINE double product_lanes(Wide v) {
  double r = 1;
  for (int i = 0; i < W; ++i) r *= v[i];
  return r;
}

// Scans: lane i gets what lanes 0 to i and the vectors before come to; `carry` becomes the last lane's.
struct Plus {
  static constexpr float kNeutral = 0.0f;
  template <class V> KW_INLINE V operator()(V a, V b) const { return a + b; }
};
struct Times {
  static constexpr float kNeutral = 1.0f;
  template <class V> KW_INLINE V operator()(V a, V b) const { return a * b; }
};
template <class Join, class V> KW_INLINE V scan_lanes(V v) {
  constexpr int lanes = sizeof(V) / sizeof(v[0]);
#if defined(__GNUC__) && !defined(__clang__)
  const V neutral = splat<V>(Join::kNeutral);
  decltype(v < v) from;
#pragma GCC unroll 4
  for (int step = 1; step < lanes; step *= 2) {
    for (int i = 0; i < lanes; ++i) from[i] = i < step ? lanes + i : i - step;
    v = Join{}(v, __builtin_shuffle(v, neutral, from));
  }
#else
  for (int i = 1; i < lanes; ++i) v[i] = Join{}(v[i - 1], v[i]);
#endif
  return v;
}
template <class Join> KW_INLINE F scan(F x, float& carry) {
  const F all = Join{}(splat(carry), scan_lanes<Join>(x));
  carry = all[W - 1];
  return all;
}
template <class Join> KW_INLINE F scan(F x, double& carry) {
  const F within = scan_lanes<Join>(x);
  const F all = Join{}(splat(static_cast<float>(carry)), within);
  carry = Join{}(carry, static_cast<double>(within[W - 1]));
  return all;
}
template <class Join> KW_INLINE Wide scan(Wide x, double& carry) {
  constexpr int last = W / 2 - 1;
  const Wide::Half low = scan_lanes<Join>(x.low), high = scan_lanes<Join>(x.high);
  const double middle = Join{}(carry, low[last]);
  const Wide all = {Join{}(carry - Wide::Half{}, low), Join{}(middle - Wide::Half{}, high)};
  carry = Join{}(carry, Join{}(low[last], high[last]));
  return all;
}

// Calls step(at, lanes) for vectors of `count` elements.
template <class Step> KW_INLINE void over_lanes(int64_t count, Step step) {
  int64_t at = 0;
  for (; at + W <= count; at += W) step(at, Full{});
  if (at < count) step(at, Part{static_cast<int>(count - at)});
}

// Past the caches where the buffer is large and the place lies on a vector's boundary.
template <class Lanes> KW_INLINE void stream(float* p, F v, Lanes lanes, bool past) {
  if (past && reinterpret_cast<uintptr_t>(p) % sizeof(F) == 0) {
    stream(p, v, lanes);
  } else {
    store(p, v, lanes);
  }
}

// Asks for `kVectors` vectors of the row that a walk down columns reads 16 rows after row i, or where the columns end
// before, of one of the first rows of those to the right; every row may lie on a page of its own. Nothing where the
// tensor's elements lie in cache.
template <int kVectors, class T>
KW_INLINE void columns_ahead(const T* p, int64_t elements, int64_t i, int64_t rows, int64_t row) {
  if (elements * int64_t(sizeof(T)) < kLargeBytes) return;
  const int64_t down = std::min<int64_t>(16, rows);
  p += i + down < rows ? down * row : (down - rows) * row + kVectors * W;
  for (int64_t k = 0; k < kVectors * W; k += 64 / int64_t(sizeof(T))) prefetch(p + k);
}

// Memory of a temporary, aligned to a cache line.
template <class T> struct Temporary {
  explicit Temporary(int64_t count)
      : data(static_cast<T*>(std::aligned_alloc(64, (static_cast<size_t>(count) * sizeof(T) + 64) / 64 * 64))) {
    if (!data) throw std::bad_alloc();
    ask_large_pages(data, count * int64_t(sizeof(T)));
  }
  ~Temporary() { std::free(data); }
  Temporary(const Temporary&) = delete;
  T* data;
};

// Memory of a row that is kept for its next pass: on the stack where it is short, so that no row waits for an allocator.
template <class T> struct Room {
  explicit Room(int64_t count) : data(count <= kShort ? own : nullptr) {
    if (!data) data = (more = std::make_unique<Temporary<T>>(count))->data;
  }
  Room(const Room&) = delete;
  static constexpr int64_t kShort = 4096 / sizeof(T);
  T* data;
  alignas(64) T own[kShort];
  std::unique_ptr<Temporary<T>> more;
};

}  // namespace kw
