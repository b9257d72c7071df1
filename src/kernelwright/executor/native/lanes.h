// A warp's registers as vectors of 32 lanes, and integer instructions on them.
#pragma once
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

namespace kw {

constexpr int LANES = 32;
using Mask = uint32_t;  // bit i: lane i

#if defined(__AVX512BW__) && defined(__AVX512DQ__)
constexpr int NATIVE = 64;  // bytes of a vector register of the host
#elif defined(__AVX2__)
constexpr int NATIVE = 32;
#else
constexpr int NATIVE = 16;
#endif

// A register: 32 lanes of T in vectors of the host's size, so that the compiler never splits one itself.
template <class T> struct V {
  static constexpr int BYTES = LANES * int(sizeof(T)) < NATIVE ? LANES * int(sizeof(T)) : NATIVE;
  static constexpr int PARTS = LANES * int(sizeof(T)) / BYTES;
  static constexpr int EACH = LANES / PARTS;
  typedef T part __attribute__((vector_size(BYTES)));
  part c[PARTS];
  T at(int i) const { T x; memcpy(&x, reinterpret_cast<const char*>(c) + i * sizeof(T), sizeof x); return x; }
  void set(int i, T x) { memcpy(reinterpret_cast<char*>(c) + i * sizeof(T), &x, sizeof x); }
};

using b8 = V<uint8_t>;
using b16 = V<uint16_t>;
using b32 = V<uint32_t>;
using b64 = V<uint64_t>;

template <int N> struct Bits;
template <> struct Bits<1> { using u = uint8_t; using s = int8_t; };
template <> struct Bits<2> { using u = uint16_t; using s = int16_t; };
template <> struct Bits<4> { using u = uint32_t; using s = int32_t; using f = float; };
template <> struct Bits<8> { using u = uint64_t; using s = int64_t; using f = double; };
template <class T> using Unsigned = typename Bits<sizeof(T)>::u;
template <class T> using Signed = typename Bits<sizeof(T)>::s;

// In a long kernel (KW_OUTLINED) an instruction is a call: its compiler then takes seconds where it took a minute.
#if defined(KW_OUTLINED)
#define KW_INLINE static inline
#if defined(__clang__)
#define KW_FUNCTION __attribute__((optnone, noinline))
#else
#define KW_FUNCTION __attribute__((optimize("O0")))
#endif
#else
#define KW_INLINE static inline __attribute__((always_inline))
#define KW_FUNCTION
#endif
#define KW_KERNEL extern "C" __attribute__((visibility("default"))) KW_FUNCTION

template <class R, class A> KW_INLINE R bits(const A& a) {
  static_assert(sizeof(R) == sizeof(A), "bits of another size");
  R r;
  memcpy(&r, &a, sizeof r);
  return r;
}
template <int K, class F> KW_INLINE void unroll(F f) {
  if constexpr (K >= 1) f(0);
  if constexpr (K >= 2) f(1);
  if constexpr (K >= 4) f(2), f(3);
  if constexpr (K >= 8) f(4), f(5), f(6), f(7);
  if constexpr (K >= 16) f(8), f(9), f(10), f(11), f(12), f(13), f(14), f(15);
}
template <class T> KW_INLINE V<T> splat(T x) {
  V<T> r;
  unroll<V<T>::PARTS>([&](int k) __attribute__((always_inline)) { r.c[k] = typename V<T>::part{} + x; });
  return r;
}
template <class T> KW_INLINE V<T> zero() { return splat<T>(0); }
template <class T, class F> KW_INLINE V<T> parts(const V<T>& a, F f) {
  V<T> r;
  unroll<V<T>::PARTS>([&](int k) __attribute__((always_inline)) { r.c[k] = f(a.c[k]); });
  return r;
}
template <class T, class F> KW_INLINE V<T> parts(const V<T>& a, const V<T>& b, F f) {
  V<T> r;
  unroll<V<T>::PARTS>([&](int k) __attribute__((always_inline)) { r.c[k] = f(a.c[k], b.c[k]); });
  return r;
}
#define KW_OPERATOR(op)                                                                       \
  template <class T> KW_INLINE V<T> operator op(const V<T>& a, const V<T>& b) {               \
    return parts<T>(a, b, [](auto x, auto y) __attribute__((always_inline)) { return x op y; }); \
  }
KW_OPERATOR(+) KW_OPERATOR(-) KW_OPERATOR(*) KW_OPERATOR(/) KW_OPERATOR(&) KW_OPERATOR(|) KW_OPERATOR(^)
template <class T> KW_INLINE V<T> operator~(const V<T>& a) { return parts<T>(a, [](auto x) { return ~x; }); }
template <class T> KW_INLINE V<T> operator-(const V<T>& a) { return parts<T>(a, [](auto x) { return -x; }); }
template <class T> KW_INLINE V<T> operator<<(const V<T>& a, int n) { return parts<T>(a, [n](auto x) { return x << n; }); }
template <class T> KW_INLINE V<T> operator>>(const V<T>& a, int n) { return parts<T>(a, [n](auto x) { return x >> n; }); }

// One bit a lane from a part of all-ones and zeros.
template <class P> KW_INLINE Mask collect(const P& c, int each) {
#if defined(__AVX512BW__) && defined(__AVX512DQ__) && !defined(__clang__)
  if constexpr (sizeof(P) == 64) {
    typedef int i16 __attribute__((vector_size(64)));
    typedef long long i8 __attribute__((vector_size(64)));
    typedef short i32 __attribute__((vector_size(64)));
    if (each == 16) return uint16_t(__builtin_ia32_cvtd2mask512((i16)c));
    if (each == 8) return uint8_t(__builtin_ia32_cvtq2mask512((i8)c));
    if (each == 32) return Mask(__builtin_ia32_cvtw2mask512((i32)c));
  }
#elif defined(__AVX2__) && !defined(__clang__)
  if constexpr (sizeof(P) == 32) {
    typedef float f8 __attribute__((vector_size(32)));
    typedef double d4 __attribute__((vector_size(32)));
    if (each == 8) return Mask(__builtin_ia32_movmskps256((f8)c));
    if (each == 4) return Mask(__builtin_ia32_movmskpd256((d4)c));
  }
#endif
  Mask m = 0;
  for (int i = 0; i < each; i++) m |= Mask(c[i] & 1) << i;
  return m;
}
#define KW_COMPARE(name, op)                                                            \
  template <class T> KW_INLINE Mask name(const V<T>& a, const V<T>& b) {                \
    Mask m = 0;                                                                         \
    unroll<V<T>::PARTS>([&](int k) __attribute__((always_inline)) { m |= collect(a.c[k] op b.c[k], V<T>::EACH) << (k * V<T>::EACH); }); \
    return m;                                                                           \
  }
KW_COMPARE(eq, ==) KW_COMPARE(ne, !=) KW_COMPARE(lt, <) KW_COMPARE(le, <=) KW_COMPARE(gt, >) KW_COMPARE(ge, >=)
template <class T> KW_INLINE Mask is_nan(const V<T>& a) { return ne<T>(a, a); }

template <class T> KW_INLINE V<T> pick(Mask m, const V<T>& yes, const V<T>& no) {
  using U = Unsigned<T>;
  using P = typename V<U>::part;
  constexpr int each = V<T>::EACH;
  P bit;
  for (int i = 0; i < each; i++) bit[i] = U(1) << (i % (8 * sizeof(U)));
  V<T> r;
  unroll<V<T>::PARTS>([&](int k) __attribute__((always_inline)) {
    P part = P{} + U(m >> (k * each));
    if constexpr (each > 8 * int(sizeof(U)))
      for (int i = 8 * sizeof(U); i < each; i++) part[i] = U(m >> (k * each + i / (8 * int(sizeof(U))) * 8 * int(sizeof(U))));
    r.c[k] = (part & bit) != 0 ? yes.c[k] : no.c[k];
  });
  return r;
}
KW_INLINE Mask pick(Mask m, Mask yes, Mask no) { return (yes & m) | (no & ~m); }

template <class R, class A, class F> KW_INLINE V<R> map(const V<A>& a, F f) {
  alignas(64) A x[LANES];
  alignas(64) R r[LANES];
  memcpy(x, &a, sizeof x);
  for (int i = 0; i < LANES; i++) r[i] = f(x[i]);
  return bits<V<R>>(r);
}
template <class R, class A, class B, class F> KW_INLINE V<R> map(const V<A>& a, const V<B>& b, F f) {
  alignas(64) A x[LANES];
  alignas(64) B y[LANES];
  alignas(64) R r[LANES];
  memcpy(x, &a, sizeof x);
  memcpy(y, &b, sizeof y);
  for (int i = 0; i < LANES; i++) r[i] = f(x[i], y[i]);
  return bits<V<R>>(r);
}
template <class R, class A, class B, class C, class F>
KW_INLINE V<R> map(const V<A>& a, const V<B>& b, const V<C>& c, F f) {
  alignas(64) A x[LANES];
  alignas(64) B y[LANES];
  alignas(64) C z[LANES];
  alignas(64) R r[LANES];
  memcpy(x, &a, sizeof x);
  memcpy(y, &b, sizeof y);
  memcpy(z, &c, sizeof z);
  for (int i = 0; i < LANES; i++) r[i] = f(x[i], y[i], z[i]);
  return bits<V<R>>(r);
}

template <class R, class A> KW_INLINE V<R> convert(const V<A>& a) {
  return map<R, A>(a, [](A x) { return R(x); });
}
// Read a register as lanes of T: its low bits where it is wider, zeros above where it is narrower.
template <class T, class U> KW_INLINE V<T> as(const V<U>& r) {
  if constexpr (sizeof(U) == sizeof(T)) return bits<V<T>>(r);
  else return bits<V<T>>(convert<Unsigned<T>, U>(r));
}
// Write lanes of T into a register of unsigned D: wider registers get the sign of a signed type.
template <class D, class T> KW_INLINE V<D> widen(const V<T>& v) {
  if constexpr (sizeof(D) == sizeof(T)) return bits<V<D>>(v);
  else if constexpr (std::is_integral<T>::value && std::is_signed<T>::value) return bits<V<D>>(convert<Signed<D>, T>(v));
  else return convert<D, Unsigned<T>>(bits<V<Unsigned<T>>>(v));
}
KW_INLINE int first_lane(Mask m) { return __builtin_ctz(m | 0x80000000u); }
#define KW_EACH_LANE(i, m) for (uint32_t kw_left = (m), i = 0; kw_left && ((i = __builtin_ctz(kw_left)), true); kw_left &= kw_left - 1)

// ---- integers, a lane at a time -------------------------------------------------------------------------

template <class T> inline T div_int(T a, T b) {
  if (b == 0) return T(-1);
  if (std::is_signed<T>::value && b == T(-1)) return T(0 - Unsigned<T>(a));
  return a / b;
}
template <class T> inline T rem_int(T a, T b) {
  if (b == 0) return T(-1);  // left open by the ISA; what an H200 gives
  if (std::is_signed<T>::value && b == T(-1)) return 0;
  return a % b;
}
template <class T> inline T mul_hi(T a, T b) {
  if constexpr (sizeof(T) == 8) {
    using W = typename std::conditional<std::is_signed<T>::value, __int128, unsigned __int128>::type;
    return T((W(a) * W(b)) >> 64);
  } else {
    using W = typename std::conditional<std::is_signed<T>::value, int64_t, uint64_t>::type;
    return T((W(a) * W(b)) >> (8 * sizeof(T)));
  }
}
template <class T> inline T add_sat(T a, T b) { T r; return __builtin_add_overflow(a, b, &r) ? (a < 0 ? std::numeric_limits<T>::min() : std::numeric_limits<T>::max()) : r; }
template <class T> inline T sub_sat(T a, T b) { T r; return __builtin_sub_overflow(a, b, &r) ? (a < 0 || std::is_unsigned<T>::value ? std::numeric_limits<T>::min() : std::numeric_limits<T>::max()) : r; }
template <class T> inline T shift_left(T a, uint32_t n) { return n >= 8 * sizeof(T) ? 0 : T(Unsigned<T>(a) << n); }
template <class T> inline T shift_right(T a, uint32_t n) {
  if (n >= 8 * sizeof(T)) n = 8 * sizeof(T) - 1, a = std::is_signed<T>::value ? a : T(0);
  return a >> n;
}
template <class T> inline T bit_extract(T a, uint32_t pos, uint32_t len) {
  pos &= 255;
  len &= 255;
  constexpr uint32_t top = 8 * sizeof(T) - 1;
  using U = Unsigned<T>;
  U sign = 0;
  if (std::is_signed<T>::value && len != 0) {
    uint32_t at = pos + len - 1 < top ? pos + len - 1 : top;
    sign = (U(a) >> at) & 1;
  }
  U r = pos > top ? 0 : U(a) >> pos;
  uint32_t held = pos > top ? 0 : top + 1 - pos;  // bits that come from a
  uint32_t kept = len < held ? len : held;
  U mask = kept > top ? ~U(0) : (U(1) << kept) - 1;
  r &= mask;
  if (sign) r |= ~mask;
  return T(r);
}
template <class U> inline U bit_insert(U a, U b, uint32_t pos, uint32_t len) {
  pos &= 255;
  len &= 255;
  constexpr uint32_t size = 8 * sizeof(U);
  if (pos >= size || len == 0) return b;
  U mask = len >= size ? ~U(0) : (U(1) << len) - 1;
  return (b & ~(mask << pos)) | ((a & mask) << pos);
}
template <class U> inline U bit_reverse(U a) {
  U r = 0;
  for (unsigned i = 0; i < 8 * sizeof(U); i++) r |= ((a >> i) & 1) << (8 * sizeof(U) - 1 - i);
  return r;
}
inline uint32_t count_bits(uint64_t a) { return __builtin_popcountll(a); }
template <class U> inline uint32_t leading_zeros(U a) {
  return a == 0 ? 8 * sizeof(U) : __builtin_clzll(a) - (64 - 8 * sizeof(U));
}
template <class T> inline uint32_t find_top(T a, bool shift) {
  using U = Unsigned<T>;
  U u = std::is_signed<T>::value && a < 0 ? ~U(a) : U(a);
  if (u == 0) return 0xffffffffu;
  uint32_t at = 63 - __builtin_clzll(u);
  return shift ? 8 * sizeof(T) - 1 - at : at;
}
// A matrix of 8 x 8 halves, two of a row in each lane, with rows for columns.
KW_INLINE b32 turned(const b32& a) {
  alignas(64) uint16_t x[64], r[64];
  memcpy(x, &a, sizeof x);
  for (int i = 0; i < 64; i++) r[i] = x[i % 8 * 8 + i / 8];
  b32 made;
  memcpy(&made, r, sizeof r);
  return made;
}
inline uint32_t permute_bytes(uint32_t a, uint32_t b, uint32_t c) {
  uint64_t both = uint64_t(b) << 32 | a;
  uint32_t r = 0;
  for (int i = 0; i < 4; i++) {
    uint32_t s = (c >> (4 * i)) & 15;
    uint8_t byte = uint8_t(both >> (8 * (s & 7)));
    if (s & 8) byte = (byte & 0x80) ? 0xff : 0;
    r |= uint32_t(byte) << (8 * i);
  }
  return r;
}
// `b` ones from bit `a` on; clamped counts of 32 and more are 32, others are taken modulo 32.
inline uint32_t bit_mask(uint32_t a, uint32_t b, bool clamp) {
  if (clamp && a >= 32) return 0;
  uint32_t from = ~0u << (a & 31), to = (a & 31) + (b & 31);
  return (clamp && b >= 32) || to >= 32 ? from : from & ~(~0u << to);
}
// The low `b` bits of `a`, extended by their sign where T has one.
template <class T> inline uint32_t extend_bits(uint32_t a, uint32_t b, bool clamp) {
  if (clamp && b >= 32) return a;
  uint32_t n = b & 31, above = ~0u << n;
  bool sign = std::is_signed<T>::value && n && (a >> (n - 1) & 1);
  return (a & ~above) | (sign ? above : 0);
}
// The place of the n-th set bit of `mask` from `base` on, upwards or downwards.
inline uint32_t nth_set(uint32_t mask, uint32_t base, uint32_t offset) {
  int64_t n = int32_t(offset), count = (n < 0 ? -n : n) - (n != 0), step = n < 0 ? -1 : 1;
  for (int64_t at = base; at >= 0 && at < 32; at += step) {
    if (mask >> at & 1 && count-- == 0) return uint32_t(at);
    if (n == 0) break;
  }
  return ~0u;
}
template <class T> inline int64_t product24(T a, T b) {
  constexpr int above = 8;
  return int64_t(T(Unsigned<T>(a) << above) >> above) * int64_t(T(Unsigned<T>(b) << above) >> above);
}
template <class A, class B> inline uint32_t dot2(uint32_t a, uint32_t b, uint32_t c) {
  for (int i = 0; i < 2; i++) c += uint32_t(int32_t(A(a >> (16 * i))) * int32_t(B(b >> (8 * i))));
  return c;
}
template <class T, class F> inline uint32_t each_half(uint32_t a, uint32_t b, F f) {
  return uint16_t(f(T(a), T(b))) | uint32_t(uint16_t(f(T(a >> 16), T(b >> 16)))) << 16;
}
inline uint32_t funnel_left(uint32_t a, uint32_t b, uint32_t n) { return n >= 32 ? a : n ? (b << n) | (a >> (32 - n)) : b; }
inline uint32_t funnel_right(uint32_t a, uint32_t b, uint32_t n) { return n >= 32 ? b : n ? (b << (32 - n)) | (a >> n) : a; }
template <class U> KW_INLINE U logic3(U a, U b, U c, int table) {
  U r = a ^ a;
  if (table & 0x01) r = r | (~a & ~b & ~c);
  if (table & 0x02) r = r | (~a & ~b & c);
  if (table & 0x04) r = r | (~a & b & ~c);
  if (table & 0x08) r = r | (~a & b & c);
  if (table & 0x10) r = r | (a & ~b & ~c);
  if (table & 0x20) r = r | (a & ~b & c);
  if (table & 0x40) r = r | (a & b & ~c);
  if (table & 0x80) r = r | (a & b & c);
  return r;
}
template <class A, class B> inline uint32_t dot4(uint32_t a, uint32_t b, uint32_t c) {
  for (int i = 0; i < 4; i++) c += uint32_t(int32_t(A(a >> (8 * i))) * int32_t(B(b >> (8 * i))));
  return c;
}

template <class T> KW_INLINE V<T> shl(const V<T>& a, const b32& n) { return map<T, T, uint32_t>(a, n, shift_left<T>); }
template <class T> KW_INLINE V<T> shr(const V<T>& a, const b32& n) { return map<T, T, uint32_t>(a, n, shift_right<T>); }
template <class T> KW_INLINE V<T> min_int(const V<T>& a, const V<T>& b) { return parts<T>(a, b, [](auto x, auto y) { return x < y ? x : y; }); }
template <class T> KW_INLINE V<T> max_int(const V<T>& a, const V<T>& b) { return parts<T>(a, b, [](auto x, auto y) { return x > y ? x : y; }); }

// a + b + carry in; the carry out goes into `carry` for the lanes of m. Subtraction borrows.
template <class U> KW_INLINE V<U> add_carry(const V<U>& a, const V<U>& b, Mask in, Mask* out, Mask m) {
  V<U> s = a + b, r = s + pick<U>(in, splat<U>(1), zero<U>());
  if (out) *out = pick(m, lt<U>(s, a) | lt<U>(r, s), *out);
  return r;
}
template <class U> KW_INLINE V<U> sub_borrow(const V<U>& a, const V<U>& b, Mask in, Mask* out, Mask m) {
  V<U> c = pick<U>(in, splat<U>(1), zero<U>()), s = a - b;
  if (out) *out = pick(m, lt<U>(a, b) | lt<U>(s, c), *out);
  return s - c;
}
}  // namespace kw
