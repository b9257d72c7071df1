// Floating point: half types, rounding, conversions, approximations. Sources: PTX ISA, sections "Floating
// Point Instructions", "Half Precision Floating-Point Instructions", "Data Movement: cvt"; IEEE 754-2019.
#pragma once
#include <cmath>
#include <limits>

#include "lanes.h"

namespace kw {

enum Round { RN, RZ, RM, RP, RNA };

struct half { uint16_t u; };
struct bfloat { uint16_t u; };

// Small binary formats: `E` exponent bits, `M` fraction bits; rounded once from a double.
template <int E, int M> struct Format {
  static constexpr int bias = (1 << (E - 1)) - 1;
  static double decode(uint32_t u) {
    uint32_t sign = (u >> (E + M)) & 1, e = (u >> M) & ((1 << E) - 1), f = u & ((1u << M) - 1);
    double r;
    if (e == (1u << E) - 1) r = f ? std::numeric_limits<double>::quiet_NaN() : INFINITY;
    else if (e == 0) r = std::ldexp(double(f), 1 - bias - M);
    else r = std::ldexp(double(f | (1u << M)), int(e) - bias - M);
    return sign ? -r : r;
  }
  // Round a finite double to the format, with subnormals; `over` is set where it does not fit.
  static uint32_t encode(double x, Round how, bool* over) {
    uint64_t b;
    memcpy(&b, &x, 8);
    uint32_t sign = uint32_t(b >> 63);
    int e = int((b >> 52) & 2047) - 1023;
    uint64_t f = b & ((uint64_t(1) << 52) - 1);
    if (e == -1023) { *over = false; if (f == 0) return sign << (E + M); e = -1022; } else f |= uint64_t(1) << 52;
    int drop = 52 - M;
    int least = 1 - bias;
    if (e < least) drop += least - e, e = least;
    uint64_t kept = drop > 63 ? 0 : f >> drop;
    uint64_t rest = drop > 63 ? f : f & ((uint64_t(1) << drop) - 1);
    uint64_t tie = drop > 63 ? ~uint64_t(0) : uint64_t(1) << (drop - 1);
    bool up = false;
    if (how == RN) up = rest > tie || (rest == tie && (kept & 1));
    else if (how == RNA) up = rest >= tie;
    else if (how == RP) up = rest && !sign;
    else if (how == RM) up = rest && sign;
    kept += up;
    uint64_t r = (uint64_t(e - least) << M) + kept;  // a carry moves into the exponent
    *over = r >= (uint64_t((1 << E) - 1) << M);
    return uint32_t(r) | sign << (E + M);
  }
};

template <int E, int M> inline uint16_t narrow(double x, Round how) {
  if (std::isnan(x)) return 0x7fff;
  uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  uint16_t inf = ((1 << E) - 1) << M;
  if (std::isinf(x)) return sign | inf;
  bool over;
  uint32_t r = Format<E, M>::encode(x, how, &over);
  if (!over) return uint16_t(r);
  bool away = how == RN || how == RNA || (how == RP && !sign) || (how == RM && sign);
  return sign | (away ? inf : inf - 1);
}

inline float to_float(float x) { return x; }
inline double to_float(double x) { return x; }
inline float to_float(bfloat x) { uint32_t u = uint32_t(x.u) << 16; float f; memcpy(&f, &u, 4); return f; }
inline float to_float(half x) {
#if defined(__F16C__) && !__has_builtin(__builtin_ia32_vcvtph2ps)  // a clang of late
  return float(__builtin_bit_cast(_Float16, x.u));
#elif defined(__F16C__)
  return __builtin_ia32_vcvtph2ps((short __attribute__((vector_size(16)))){short(x.u)})[0];
#else
  return float(Format<5, 10>::decode(x.u));
#endif
}
template <class T> inline T from_double(double x, Round how = RN);
template <> inline half from_double<half>(double x, Round how) { return {narrow<5, 10>(x, how)}; }
template <> inline bfloat from_double<bfloat>(double x, Round how) { return {narrow<8, 7>(x, how)}; }
// Nearest even from a float, without a way through double.
inline bfloat bfloat_of(float x) {
  uint32_t u;
  memcpy(&u, &x, 4);
  uint32_t r = (u + 0x7fff + ((u >> 16) & 1)) >> 16;
  return {uint16_t((u & 0x7fffffff) > 0x7f800000 ? 0x7fff : r)};
}

inline float flush(float x) { return std::fabs(x) < 1.17549435e-38f ? std::copysign(0.0f, x) : x; }
inline double flush(double x) { return x; }
inline half flush(half x) { return (x.u & 0x7c00) ? x : half{uint16_t(x.u & 0x8000)}; }
inline bfloat flush(bfloat x) { return (x.u & 0x7f80) ? x : bfloat{uint16_t(x.u & 0x8000)}; }
template <class T> KW_INLINE V<T> flushed(const V<T>& a) {
  if constexpr (std::is_same<T, float>::value) {
    b32 u = bits<b32>(a);
    return bits<V<float>>(parts<uint32_t>(u, [](auto x) { return (x & 0x7f800000u) != 0 ? x : x & 0x80000000u; }));
  } else return a;
}

// a + b rounded to odd: one more rounding to fewer bits is then right, in any direction.
inline double add_to_odd(double a, double b) {
  double s = a + b;
  if (!std::isfinite(s)) return s;
  double bb = s - a, e = (a - (s - bb)) + (b - bb);
  if (e != 0) {
    int64_t u;
    memcpy(&u, &s, 8);
    if (!(u & 1)) {
      u += ((e > 0) == (s > 0)) ? 1 : -1;
      memcpy(&s, &u, 8);
    }
  }
  return s;
}

// Directed roundings of float and double: compiled where the rounding mode is honoured (numbers.cpp).
float add_rounded(float a, float b, Round how);
double add_rounded(double a, double b, Round how);
float mul_rounded(float a, float b, Round how);
double mul_rounded(double a, double b, Round how);
float fma_rounded(float a, float b, float c, Round how);
double fma_rounded(double a, double b, double c, Round how);
float div_rounded(float a, float b, Round how);
double div_rounded(double a, double b, Round how);
float sqrt_rounded(float a, Round how);
double sqrt_rounded(double a, Round how);
float float_of(double a, Round how);
template <class F> F real_of(int64_t a, Round how);
template <class F> F real_of(uint64_t a, Round how);

template <class T> inline T saturate(T x) { return x > T(0) ? (x < T(1) ? x : T(1)) : T(0); }  // NaN gives 0

#define KW_BINARY(name, expression)                                                                      \
  template <class T, Round how, bool ftz, bool sat> KW_INLINE V<T> name(V<T> a, V<T> b) {                \
    if (ftz) a = flushed<T>(a), b = flushed<T>(b);                                                       \
    V<T> r;                                                                                              \
    if constexpr (how == RN) r = a expression b;                                                         \
    else r = map<T, T, T>(a, b, [](T x, T y) { return name##_rounded(x, y, how); });                     \
    if (ftz) r = flushed<T>(r);                                                                          \
    if (sat) r = map<T, T>(r, saturate<T>);                                                              \
    return r;                                                                                            \
  }
KW_BINARY(add, +)
KW_BINARY(mul, *)
KW_BINARY(div, /)
template <class T, Round how, bool ftz, bool sat> KW_INLINE V<T> sub(V<T> a, V<T> b) { return add<T, how, ftz, sat>(a, -b); }

template <class T, Round how, bool ftz, bool sat> KW_INLINE V<T> fma(V<T> a, V<T> b, V<T> c) {
  if (ftz) a = flushed<T>(a), b = flushed<T>(b), c = flushed<T>(c);
  V<T> r;
  if constexpr (how == RN && sizeof(T) == 4) r = map<T, T, T, T>(a, b, c, [](T x, T y, T z) { return __builtin_fmaf(x, y, z); });
  else if constexpr (how == RN) r = map<T, T, T, T>(a, b, c, [](T x, T y, T z) { return __builtin_fma(x, y, z); });
  else r = map<T, T, T, T>(a, b, c, [](T x, T y, T z) { return fma_rounded(x, y, z, how); });
  if (ftz) r = flushed<T>(r);
  if (sat) r = map<T, T>(r, saturate<T>);
  return r;
}

// The smaller of two; -0 is below +0; NaN gives the other, or NaN where `nan` asks for it.
template <bool want_max, bool nan, class T> inline T extreme(T a, T b) {
  if (a != a) return nan || b != b ? std::numeric_limits<T>::quiet_NaN() : b;
  if (b != b) return nan ? std::numeric_limits<T>::quiet_NaN() : a;
  if (a == b) return (std::signbit(a) != 0) != want_max ? a : b;
  return (a < b) != want_max ? a : b;
}
template <class T, bool want_max, bool nan, bool ftz> KW_INLINE V<T> extremes(V<T> a, V<T> b) {
  if (ftz) a = flushed<T>(a), b = flushed<T>(b);
  V<T> r = want_max ? max_int<T>(a, b) : min_int<T>(a, b);
  if (__builtin_expect(eq<T>(a, b) | is_nan<T>(a) | is_nan<T>(b), 0)) r = map<T, T, T>(a, b, extreme<want_max, nan, T>);
  return r;
}

// ---- half types: computed exactly enough in double, rounded once ------------------------------------------

template <class H> inline H canonical(H x) { return x; }
template <class H, bool ftz> inline double wide(uint16_t u) {
  H h{u};
  if (ftz) h = flush(h);
  return to_float(h);
}
template <class H, bool ftz, bool sat, bool relu> inline uint16_t close(double x) {
  if (sat) x = saturate(x);
  if (relu && x <= 0) x = 0;
  H h = from_double<H>(x);
  if (ftz) h = flush(h);
  return h.u;
}
template <class H, bool ftz, bool sat, class F> KW_INLINE b16 half_binary(const b16& a, const b16& b, F f) {
  return map<uint16_t, uint16_t, uint16_t>(a, b, [f](uint16_t x, uint16_t y) { return close<H, ftz, sat, false>(f(wide<H, ftz>(x), wide<H, ftz>(y))); });
}
template <class H, bool ftz, bool sat, bool relu> inline uint16_t half_fma(uint16_t a, uint16_t b, uint16_t c) {
  double p = wide<H, ftz>(a) * wide<H, ftz>(b);  // exact: at most 22 bits
  return close<H, ftz, sat, relu>(add_to_odd(p, wide<H, ftz>(c)));
}
template <class H, bool want_max, bool nan, bool ftz> inline uint16_t half_extreme(uint16_t a, uint16_t b) {
  return close<H, ftz, false, false>(extreme<want_max, nan, double>(wide<H, ftz>(a), wide<H, ftz>(b)));
}
// The two halves of packed registers.
KW_INLINE b16 low(const b32& a) { return convert<uint16_t, uint32_t>(a); }
KW_INLINE b16 high(const b32& a) { return convert<uint16_t, uint32_t>(a >> 16); }
KW_INLINE b32 pack(const b16& lo, const b16& hi) { return convert<uint32_t, uint16_t>(lo) | convert<uint32_t, uint16_t>(hi) << 16; }

// ---- conversions --------------------------------------------------------------------------------------------

template <class T> inline T round_whole(T x, Round how) {
  switch (how) {
    case RZ: return std::trunc(x);
    case RM: return std::floor(x);
    case RP: return std::ceil(x);
    default: return std::nearbyint(x);
  }
}
// A real number to an integer, into range; NaN as the PTX ISA has it under `cvt`.
template <class I, class F> inline I to_int(F x, Round how) {
  if (x != x) return sizeof(I) == 8 || sizeof(F) == 8 ? I(Unsigned<I>(1) << (8 * sizeof(I) - 1)) : I(0);
  double r = round_whole<double>(x, how);
  constexpr double top = std::is_signed<I>::value ? double(Unsigned<I>(1) << (8 * sizeof(I) - 1)) : 2.0 * double(Unsigned<I>(1) << (8 * sizeof(I) - 1));
  if (r >= top) return std::numeric_limits<I>::max();
  if (r <= (std::is_signed<I>::value ? -top : 0.0)) return std::numeric_limits<I>::min();
  return I(r);
}
template <class O, class I> inline O clamp_int(I x) {
  __int128 w = x, lo = std::numeric_limits<O>::min(), hi = std::numeric_limits<O>::max();
  return O(w < lo ? lo : w > hi ? hi : w);
}
template <class T> inline T relu(T x) { return x <= 0 ? T(0) : x; }  // NaN stays, -0 becomes +0
// A 64-bit integer as a double rounded to odd: one more rounding to fewer bits is then right.
template <class I> inline double real_to_odd(I x) {
  using U = uint64_t;
  bool negative = x < 0;
  U u = negative ? 0 - U(x) : U(x);
  int extra = u >> 53 ? 11 - __builtin_clzll(u) : 0;
  if (extra > 0) u = (u >> extra | ((u & ((U(1) << extra) - 1)) != 0)) << extra;
  return negative ? -double(u) : double(u);
}
inline uint32_t to_tf32(float x, Round how) {
  uint32_t u;
  memcpy(&u, &x, 4);
  if ((u & 0x7f800000) == 0x7f800000) return u;
  uint32_t rest = u & 0x1fff, kept = u & ~0x1fffu;
  bool up = how == RNA ? rest >= 0x1000 : how == RN ? rest > 0x1000 || (rest == 0x1000 && (kept & 0x2000)) : false;
  return kept + (up ? 0x2000 : 0);
}
// fp8, always rounded to nearest and to the greatest finite (`satfinite`). e4m3 has no infinity.
inline uint8_t to_e4m3(double x, bool relu) {
  if (std::isnan(x)) return 0x7f;
  if (relu && x <= 0) x = 0;
  uint8_t sign = std::signbit(x) ? 0x80 : 0;
  if (std::fabs(x) > 448) return sign | 0x7e;
  bool over;
  uint8_t r = uint8_t(Format<4, 3>::encode(x, RN, &over));
  return (r & 0x7f) == 0x7f ? sign | 0x7e : r;
}
inline uint8_t to_e5m2(double x, bool relu) {
  if (std::isnan(x)) return 0x7f;
  if (relu && x <= 0) x = 0;
  uint8_t sign = std::signbit(x) ? 0x80 : 0;
  if (std::fabs(x) > 57344) return sign | 0x7b;
  bool over;
  return uint8_t(Format<5, 2>::encode(x, RN, &over));
}
inline double of_e4m3(uint8_t u) {
  if ((u & 0x7f) == 0x7f) return std::numeric_limits<double>::quiet_NaN();
  double m = (u & 0x78) ? std::ldexp(8.0 + (u & 7), ((u >> 3) & 15) - 10) : std::ldexp(double(u & 7), -9);
  return u & 0x80 ? -m : m;
}
inline double of_e5m2(uint8_t u) { return Format<5, 2>::decode(u); }

// Approximations: the host's functions, whose errors lie within those that the PTX ISA allows.
inline float ex2_approx(float x) { return std::exp2(x); }
inline float lg2_approx(float x) { return std::log2(x); }
// sin and cos take turns, of which a device makes the argument by one multiplication that rounds to zero: great
// arguments are off by what that loses. Measured on an H200: within 2e-7 of this up to 1e6, and equal beyond 2^25.
inline float turned_by(float x) {
  double exact = double(x) * 0.15915494f;
  float y = float(exact);
  if (std::fabs(double(y)) > std::fabs(exact)) y = std::nextafter(y, 0.0f);
  return y - std::nearbyint(y);
}
inline float sin_approx(float x) { return float(std::sin(6.283185307179586 * turned_by(x))); }
inline float cos_approx(float x) { return float(std::cos(6.283185307179586 * turned_by(x))); }
inline float tanh_approx(float x) { return std::tanh(x); }
inline float rcp_approx(float x) { return 1.0f / x; }
inline float sqrt_approx(float x) { return std::sqrt(x); }
inline float rsqrt_approx(float x) { return float(1.0 / std::sqrt(double(x))); }
inline double rsqrt_approx(double x) { return 1.0 / std::sqrt(x); }
inline double rcp_approx(double x) { return 1.0 / x; }
inline double normal_or_zero(double x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0, x) : x; }
// The .ftz forms give the upper word only, nearest, and zero for what is subnormal. Measured on an H200.
inline double upper_word(double x) {
  if (!std::isfinite(x) || x == 0) return x;
  uint64_t u;
  memcpy(&u, &x, 8);
  u = (u + 0x80000000u) & ~uint64_t(0xffffffffu);
  memcpy(&x, &u, 8);
  return normal_or_zero(x);
}
inline double rcp_upper(double x) { return upper_word(1.0 / normal_or_zero(x)); }
inline double rsqrt_upper(double x) { return upper_word(1.0 / std::sqrt(normal_or_zero(x))); }
template <class F, bool ftz, class G> KW_INLINE V<F> approx(const V<F>& a, G g) {
  return map<F, F>(a, [g](F x) { if (ftz) x = flush(x); F r = g(x); return ftz ? flush(r) : r; });
}
}  // namespace kw
