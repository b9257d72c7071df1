// Vectors of float32 for CPU kernels: loads and stores with tails, math, reductions, streaming stores.
//
// `kw::F` holds kw::W floats (16 with AVX-512, 8 with AVX2, 4 elsewhere), `kw::M` is a mask of as many lanes
// (all ones or zero). Arithmetic is the compiler's own on vector types; there is no -ffast-math, so NaN,
// infinities, signed zeros and denormals behave as IEEE 754 says. Errors of the functions are a few ulp.
// precompile: parsing intrinsics takes longer than many a kernel.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "kernelwright.h"
#include "traffic.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif
namespace kw {

#if defined(__AVX512F__)
constexpr int W = 16;
#elif defined(__AVX2__)
constexpr int W = 8;
#else
constexpr int W = 4;
#endif

typedef float F __attribute__((vector_size(W * 4)));
typedef int32_t M __attribute__((vector_size(W * 4)));
typedef uint32_t U __attribute__((vector_size(W * 4)));
typedef double D __attribute__((vector_size(W * 8)));

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// All lanes of a vector V; not a sum with zero, which would make zero of minus zero and take an instruction.
template <class V, class T> KW_INLINE V splat(T x) { return x - V{}; }
KW_INLINE F splat(float x) { return splat<F>(x); }
KW_INLINE M mask(bool x) { return M{} - static_cast<int32_t>(x); }
KW_INLINE M bits(F x) { return reinterpret_cast<M>(x); }
KW_INLINE F from_bits(M x) { return reinterpret_cast<F>(x); }
KW_INLINE F select(M m, F a, F b) { return m ? a : b; }
KW_INLINE F to_float(M m) { return m ? splat(1.0f) : splat(0.0f); }
KW_INLINE F to_float(F x) { return x; }
KW_INLINE M to_mask(F x) { return x != 0.0f; }
KW_INLINE M to_mask(M x) { return x; }
KW_INLINE M iota() {
  M r;
  for (int i = 0; i < W; ++i) r[i] = i;
  return r;
}

// Storage types ---------------------------------------------------------------------------------------

template <class T> KW_INLINE float to_scalar(T x) { return static_cast<float>(x); }
template <class T> KW_INLINE T from_scalar(float x) { return static_cast<T>(x); }
template <> KW_INLINE bool from_scalar<bool>(float x) { return x != 0.0f; }

// Loads and stores: of all lanes (Full) or of the first `count` (Part) -------------------------------------

struct Full {
  static constexpr int count = W;
};
struct Part {
  int count;
};

KW_INLINE M lanes_mask(Full) { return mask(true); }
KW_INLINE M lanes_mask(Part part) { return iota() < part.count; }

KW_INLINE F load(const float* p, Full) {
  F v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
KW_INLINE F load(const float* p, Part part) {
#if defined(__AVX512F__)
  return (F)_mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << part.count) - 1), p);
#elif defined(__AVX2__)
  return (F)_mm256_maskload_ps(p, (__m256i)lanes_mask(part));
#else
  F v{};
  std::memcpy(&v, p, part.count * sizeof(float));
  return v;
#endif
}
template <class T, class Lanes> KW_INLINE F load(const T* p, Lanes lanes) {  // T converts to float
  F v{};
  for (int i = 0; i < lanes.count; ++i) v[i] = to_scalar(p[i]);
  return v;
}
// The lanes of a mask, zeros elsewhere; what is outside is not touched.
template <class Lanes> KW_INLINE F load_where(const float* p, M where, Lanes lanes) {
  const M m = where & lanes_mask(lanes);
#if defined(__AVX512F__)
  return (F)_mm512_maskz_loadu_ps(_mm512_test_epi32_mask((__m512i)m, (__m512i)m), p);
#elif defined(__AVX2__)
  return (F)_mm256_maskload_ps(p, (__m256i)m);
#else
  F v{};
  for (int i = 0; i < W; ++i)
    if (m[i]) v[i] = p[i];
  return v;
#endif
}
KW_INLINE F load(const bfloat16* p, Full) {
#if defined(__AVX512F__)  // GCC widens halves of a vector by themselves and joins them: five instructions for one
  return (F)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))), 16);
#elif defined(__AVX2__)
  return (F)_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))), 16);
#else
  typedef uint16_t H __attribute__((vector_size(W * 2)));
  H h;
  std::memcpy(&h, p, sizeof h);
  return from_bits((M)(__builtin_convertvector(h, U) << 16));
#endif
}
#if defined(__AVX512F__)
KW_INLINE F load(const float16* p, Full) {
  return (F)_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
#endif
KW_INLINE F load(const bool* p, Full) {
  typedef uint8_t B __attribute__((vector_size(W)));
  B b;
  std::memcpy(&b, p, sizeof b);
  return __builtin_convertvector(b, F);
}

// Integers as lanes of 32 bits; what is beyond wraps.
template <class T, class Lanes> KW_INLINE M load_integers(const T* p, Lanes lanes) {
  M v{};
  for (int i = 0; i < lanes.count; ++i) v[i] = static_cast<int32_t>(p[i]);
  return v;
}
template <class Lanes> KW_INLINE void store_integers(int64_t* p, M v, Lanes lanes) {
  for (int i = 0; i < lanes.count; ++i) p[i] = v[i];
}
KW_INLINE F from_integers(M x) { return __builtin_convertvector(x, F); }

KW_INLINE void store(float* p, F v, Full) { std::memcpy(p, &v, sizeof v); }
KW_INLINE void store(float* p, F v, Part part) {
#if defined(__AVX512F__)
  _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << part.count) - 1), (__m512)v);
#elif defined(__AVX2__)  // by halves: stores under a mask take as long as a dozen others on AMD's cores
  __m128 rest = _mm256_castps256_ps128((__m256)v);
  if (part.count >= W) return store(p, v, Full{});
  if (part.count & 4) _mm_storeu_ps(p, rest), p += 4, rest = _mm256_extractf128_ps((__m256)v, 1);
  if (part.count & 2) _mm_storel_pi(reinterpret_cast<__m64*>(p), rest), p += 2, rest = _mm_movehl_ps(rest, rest);
  if (part.count & 1) _mm_store_ss(p, rest);
#else
  std::memcpy(p, &v, part.count * sizeof(float));
#endif
}
template <class T, class Lanes> KW_INLINE void store(T* p, F v, Lanes lanes) {
  for (int i = 0; i < lanes.count; ++i) p[i] = from_scalar<T>(v[i]);
}
KW_INLINE void store(bfloat16* p, F v, Full) {
#if defined(__AVX512BF16__)  // it makes zero of what is denormal, so that goes the other way
  if (__builtin_expect(!_mm512_fpclass_ps_mask((__m512)v, 0x20), 1)) {
    const __m256bh narrow = _mm512_cvtneps_pbh((__m512)v);
    std::memcpy(p, &narrow, sizeof narrow);
    return;
  }
#endif
  typedef uint16_t H __attribute__((vector_size(W * 2)));
  const U u = (U)bits(v);
  const U even = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  const U rounded = (v != v) ? U{} + 0x7fc0u : even;
  const H h = __builtin_convertvector(rounded, H);
  std::memcpy(p, &h, sizeof h);
}
KW_INLINE void store(bool* p, F v, Full) {
  typedef int8_t B __attribute__((vector_size(W)));
  const B b = __builtin_convertvector((M)(v != 0.0f) & 1, B);
  std::memcpy(p, &b, sizeof b);
}
template <class T, class Lanes> KW_INLINE void store(T* p, M v, Lanes lanes) { store(p, to_float(v), lanes); }

// A streaming store goes past the caches: no read for ownership, so a write costs one transfer, not two.
// It needs p aligned to the vector's size; `fence` must follow before another thread reads.
KW_INLINE void stream(float* p, F v, Full) {
#if defined(__AVX512F__)
  _mm512_stream_ps(p, (__m512)v);
#elif defined(__AVX2__)
  _mm256_stream_ps(p, (__m256)v);
#else
  store(p, v, Full{});
#endif
}
template <class T, class V, class Lanes> KW_INLINE void stream(T* p, V v, Lanes lanes) { store(p, v, lanes); }
KW_INLINE void fence() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

// Folds all lanes with a commutative function; the result stands in every lane.
template <class Op> KW_INLINE F fold_lanes(F v, Op op) {
#if defined(__GNUC__) && !defined(__clang__)
  for (int step = W / 2; step > 0; step /= 2) v = op(__builtin_shuffle(v, iota() ^ step), v);
  return v;
#else
  float r = v[0];
  for (int i = 1; i < W; ++i) r = op(splat(v[i]), splat(r))[0];
  return splat(r);
#endif
}
KW_INLINE double sum_lanes(D v) {
#if defined(__AVX512F__)
  __m512d halves[2];
  std::memcpy(halves, &v, sizeof v);
  return _mm512_reduce_add_pd(_mm512_add_pd(halves[0], halves[1]));
#else
  double sum = 0;
  for (int i = 0; i < W; ++i) sum += v[i];
  return sum;
#endif
}

// Lane i is lane index[i] of a, or lane index[i] - W of b.
KW_INLINE F shuffle(F a, F b, M index) {
#if defined(__GNUC__) && !defined(__clang__)
  return __builtin_shuffle(a, b, index);
#else
  F r;
  for (int i = 0; i < W; ++i) r[i] = index[i] < W ? a[index[i]] : b[index[i] - W];
  return r;
#endif
}
// Transposes W registers of W lanes: log2(W) rounds of two-source shuffles.
KW_INLINE void transpose_lanes(F (&r)[W]) {
#pragma GCC unroll 4
  for (int step = 1; step < W; step *= 2) {
    M low, high;
    for (int i = 0; i < W; ++i) {
      const bool odd = i & step;
      low[i] = odd ? W + (i & ~step) : i;
      high[i] = odd ? W + i : i | step;
    }
#pragma GCC unroll 16
    for (int i = 0; i < W; ++i)
      if (!(i & step)) {
        const F a = r[i], b = r[i | step];
        r[i] = shuffle(a, b, low);
        r[i | step] = shuffle(a, b, high);
      }
  }
}

// Elementary functions ------------------------------------------------------------------------------------

KW_INLINE F fma(F a, F b, F c) {
#if defined(__AVX512F__)
  return (F)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__) && defined(__AVX2__)
  return (F)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__aarch64__)
  return (F)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
  F r;
  for (int i = 0; i < W; ++i) r[i] = __builtin_fmaf(a[i], b[i], c[i]);
  return r;
#endif
}
KW_INLINE F fma(F a, F b, float c) { return fma(a, b, splat(c)); }
KW_INLINE F fma(F a, float b, F c) { return fma(a, splat(b), c); }

template <class Function> KW_INLINE F lanewise(F x, Function function) {
  F r;
  for (int i = 0; i < W; ++i) r[i] = function(x[i]);
  return r;
}
KW_INLINE bool any(M m) {
#if defined(__AVX512F__)
  return _mm512_test_epi32_mask((__m512i)m, (__m512i)m) != 0;
#else
  int32_t r = 0;
  for (int i = 0; i < W; ++i) r |= m[i];
  return r != 0;
#endif
}

KW_INLINE F abs(F x) { return from_bits(bits(x) & 0x7fffffff); }
KW_INLINE F neg(F x) { return -x; }

// 1 / x to 14 bits where that is cheap, x not denormal and below 2^126; then to the last digit or nearly.
KW_INLINE F reciprocal_rough(F x) {
#if defined(__AVX512F__)
  return (F)_mm512_rcp14_ps((__m512)x);
#else
  return 1.0f / x;
#endif
}
KW_INLINE F reciprocal_normal(F x) {
#if defined(__AVX512F__)
  const F r = reciprocal_rough(x);
  return fma(r, fma(-x, r, splat(1.0f)), r);
#else
  return 1.0f / x;
#endif
}
KW_INLINE F copysign(F x, F sign) { return from_bits((bits(x) & 0x7fffffff) | (bits(sign) & INT32_MIN)); }
KW_INLINE F add(F a, F b) { return a + b; }
KW_INLINE F sub(F a, F b) { return a - b; }
KW_INLINE F mul(F a, F b) { return a * b; }
KW_INLINE F div(F a, F b) { return a / b; }
// The larger (smaller) of two; NaN wins, as in torch.
KW_INLINE F maximum(F a, F b) {
#if defined(__AVX512F__)  // vmaxps gives b where either is NaN, the mask gives a where a is
  return (F)_mm512_mask_max_ps((__m512)a, _mm512_cmp_ps_mask((__m512)a, (__m512)a, _CMP_ORD_Q), (__m512)a, (__m512)b);
#elif defined(__AVX2__)
  return (a != a) ? a : (F)_mm256_max_ps((__m256)a, (__m256)b);
#else
  return ((a > b) | (a != a)) ? a : b;
#endif
}
KW_INLINE F minimum(F a, F b) {
#if defined(__AVX512F__)
  return (F)_mm512_mask_min_ps((__m512)a, _mm512_cmp_ps_mask((__m512)a, (__m512)a, _CMP_ORD_Q), (__m512)a, (__m512)b);
#elif defined(__AVX2__)
  return (a != a) ? a : (F)_mm256_min_ps((__m256)a, (__m256)b);
#else
  return ((a < b) | (a != a)) ? a : b;
#endif
}
// x kept between two numbers; NaN goes through.
KW_INLINE F within(F x, float low, float high) {
#if defined(__AVX512F__)
  return (F)_mm512_min_ps(_mm512_set1_ps(high), _mm512_max_ps(_mm512_set1_ps(low), (__m512)x));
#elif defined(__AVX2__)
  return (F)_mm256_min_ps(_mm256_set1_ps(high), _mm256_max_ps(_mm256_set1_ps(low), (__m256)x));
#else
  const F raised = (x < low) ? splat(low) : x;
  return (raised > high) ? splat(high) : raised;
#endif
}
KW_INLINE F at_most(F x, float high) {  // NaN goes through
#if defined(__AVX512F__)
  return (F)_mm512_min_ps(_mm512_set1_ps(high), (__m512)x);
#else
  return (x > high) ? splat(high) : x;
#endif
}
KW_INLINE F relu(F x) { return (x < 0.0f) ? splat(0.0f) : x; }
KW_INLINE F square(F x) { return x * x; }
KW_INLINE F reciprocal(F x) { return 1.0f / x; }

KW_INLINE F sqrt(F x) {
#if defined(__AVX512F__)
  return (F)_mm512_sqrt_ps((__m512)x);
#elif defined(__AVX2__)
  return (F)_mm256_sqrt_ps((__m256)x);
#else
  return lanewise(x, [](float v) { return __builtin_sqrtf(v); });
#endif
}
KW_INLINE F finite(F x) { return select(abs(x) == kInf, F{}, x); }  // infinities become zero
KW_INLINE F rsqrt(F x) { return 1.0f / sqrt(x); }

KW_INLINE F rint(F x) {
#if defined(__AVX512F__)
  return (F)_mm512_roundscale_ps((__m512)x, 0);
#elif defined(__AVX2__)
  return (F)_mm256_round_ps((__m256)x, 0);
#else
  return lanewise(x, [](float v) { return __builtin_nearbyintf(v); });
#endif
}
#if defined(__AVX512F__)
KW_INLINE F floor(F x) { return (F)_mm512_roundscale_ps((__m512)x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
KW_INLINE F ceil(F x) { return (F)_mm512_roundscale_ps((__m512)x, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC); }
KW_INLINE F trunc(F x) { return (F)_mm512_roundscale_ps((__m512)x, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC); }
#elif defined(__AVX2__)
KW_INLINE F floor(F x) { return (F)_mm256_floor_ps((__m256)x); }
KW_INLINE F ceil(F x) { return (F)_mm256_ceil_ps((__m256)x); }
KW_INLINE F trunc(F x) { return (F)_mm256_round_ps((__m256)x, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC); }
#else
KW_INLINE F floor(F x) { return lanewise(x, [](float v) { return __builtin_floorf(v); }); }
KW_INLINE F ceil(F x) { return lanewise(x, [](float v) { return __builtin_ceilf(v); }); }
KW_INLINE F trunc(F x) { return lanewise(x, [](float v) { return __builtin_truncf(v); }); }
#endif
KW_INLINE F sign(F x) { return to_float((M)(x > 0.0f)) - to_float((M)(x < 0.0f)); }

// x * 2^n for |n| <= 250 and x near one, right through overflow and denormals: only the last product is rounded.
KW_INLINE F scale(F x, F n) {
#if defined(__AVX512F__)
  return (F)_mm512_scalef_ps((__m512)x, (__m512)n);
#else
  const M whole = __builtin_convertvector(n, M), half = whole >> 1, rest = whole - half;
  return x * from_bits((half << 23) + 0x3f800000) * from_bits((rest << 23) + 0x3f800000);
#endif
}
// The same for n in [-126, 127]: 2^n is a normal number.
KW_INLINE F scale_normal(F x, F n) {
#if defined(__AVX512F__)
  return scale(x, n);
#else
  return x * from_bits((__builtin_convertvector(n, M) << 23) + 0x3f800000);
#endif
}

// e^r - 1 on |r| <= ln(2)/2. Source: Cephes, single/expf.c (coefficients).
KW_INLINE F expm1_reduced(F r) {
  F p = splat(1.9875691500e-4f);
  p = fma(p, r, 1.3981999507e-3f);
  p = fma(p, r, 8.3334519073e-3f);
  p = fma(p, r, 4.1665795894e-2f);
  p = fma(p, r, 1.6666665459e-1f);
  p = fma(p, r, 5.0000001201e-1f);
  return fma(p, r * r, r);
}
KW_INLINE F exp_within(F x) {  // for x in [-150, 130], and NaN
  const F n = rint(x * 1.44269504088896341f);
  const F r = fma(n, 2.12194440e-4f, fma(n, -0.693359375f, x));
  return scale(expm1_reduced(r) + 1.0f, n);
}
KW_INLINE F exp(F x) { return exp_within(within(x, -150.0f, 130.0f)); }
KW_INLINE F exp2(F x) {
  const F clamped = within(x, -200.0f, 200.0f), n = rint(clamped);
  return scale(expm1_reduced((clamped - n) * 0.69314718055994531f) + 1.0f, n);
}
KW_INLINE F expm1(F x) {  // e^x - 1 = 2 (2^(n-1) (e^r - 1) + 2^(n-1) - 1/2), where nothing overflows too early
  const F clamped = within(x, -30.0f, 89.0f);
  const F n = rint(clamped * 1.44269504088896341f);
  const F r = fma(n, 2.12194440e-4f, fma(n, -0.693359375f, clamped));
  const F p = expm1_reduced(r), power = scale_normal(splat(1.0f), n - 1.0f);
  return (n == 0.0f) ? p : 2.0f * fma(p, power, power - 0.5f);
}
KW_INLINE F expm1_below(F x) {  // e^x - 1 for x <= 0 and NaN; 2^n (e^r - 1) + 2^n - 1, which is e^r - 1 at n = 0
  const F clamped = (x < -30.0f) ? splat(-30.0f) : x;
  const F n = rint(clamped * 1.44269504088896341f);
  const F r = fma(n, 2.12194440e-4f, fma(n, -0.693359375f, clamped)), power = scale_normal(splat(1.0f), n);
  return fma(expm1_reduced(r), power, power - 1.0f);
}

// x = m * 2^e with m in [3/4, 3/2). Zero gives e = -inf, infinity e = inf, what is negative or NaN m = NaN.
KW_INLINE void split(F x, F& m, F& e) {
#if defined(__AVX512F__)
  const __m512 mantissa = _mm512_getmant_ps((__m512)x, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_nan);
  const __m512 exponent = _mm512_getexp_ps((__m512)x), one = _mm512_set1_ps(1.0f);
  m = (F)mantissa;
  e = (F)_mm512_mask_add_ps(exponent, _mm512_cmp_ps_mask(mantissa, one, _CMP_LT_OQ), exponent, one);
#else
  const M tiny = x < 1.17549435e-38f;
  const M raw = bits(tiny ? x * 8388608.0f : x) - 0x3f400000;
  m = from_bits((raw & 0x007fffff) + 0x3f400000);
  m = ((x < 0.0f) | (x != x)) ? splat(kNaN) : m;
  e = __builtin_convertvector(raw >> 23, F) - (tiny ? splat(23.0f) : splat(0.0f));
  e = (x == kInf) ? x : ((x == 0.0f) ? splat(-kInf) : e);
#endif
}
// log(m) = r - r * r / 2 + r^3 * P(r) with r = m - 1; P is fitted to 9e-10 of the logarithm.
KW_INLINE F log_cubic(F r) {
  F p = splat(3.767408803105354e-2f);
  p = fma(p, r, -9.116464853286743e-2f);
  p = fma(p, r, 1.1700847744941711e-1f);
  p = fma(p, r, -1.2727805972099304e-1f);
  p = fma(p, r, 1.4276225864887238e-1f);
  p = fma(p, r, -1.6655293107032776e-1f);
  p = fma(p, r, 1.9999605417251587e-1f);
  p = fma(p, r, -2.500016391277313e-1f);
  p = fma(p, r, 3.3333340287208557e-1f);
  return p * r;
}
KW_INLINE F log(F x) {
  F m, e;
  split(x, m, e);
  const F r = m - 1.0f, square = r * r;
  const F low = fma(square, log_cubic(r) - 0.5f, e * 1.428606765330187e-6f);  // ln(2) in two parts
  return fma(e, 0.693145751953125f, low + r);
}
KW_INLINE F log_scaled(F x, float of_two, float of_e) {
  F m, e;
  split(x, m, e);
  const F r = m - 1.0f;
  return fma(e, of_two, fma(r * r, log_cubic(r) - 0.5f, r) * of_e);
}
KW_INLINE F log2(F x) { return log_scaled(x, 1.0f, 1.44269504088896341f); }
KW_INLINE F log10(F x) { return log_scaled(x, 0.30102999566398120f, 0.43429448190325183f); }
KW_INLINE F log1p(F x) {
  const F u = 1.0f + x, lost = x - (u - 1.0f);  // what rounding took from u
  const F r = fma(lost, reciprocal_normal(u), log(u));
  return ((u == kInf) | (u == 0.0f)) ? log(u) : ((x == 0.0f) ? x : r);
}

KW_INLINE F sigmoid(F x) { return 1.0f / (1.0f + exp(-x)); }
KW_INLINE F silu(F x) { return x / (1.0f + exp(-x)); }
KW_INLINE F logsigmoid(F x) { return ((x < 0.0f) ? x : splat(0.0f)) - log1p(exp(-abs(x))); }

// Source: Cephes, single/tanhf.c (coefficients, |x| < 0.625).
KW_INLINE F tanh(F x) {
  const F a = at_most(abs(x), 10.0f), z = a * a;  // beyond 10 it is 1
  F p = splat(-5.70498872745e-3f);
  p = fma(p, z, 2.06390887954e-2f);
  p = fma(p, z, -5.37397155531e-2f);
  p = fma(p, z, 1.33314422036e-1f);
  p = fma(p, z, -3.33332819422e-1f);
  const F near = fma(p * z, x, x);
  const F far = copysign(fma(splat(-2.0f), reciprocal_normal(exp_within(a + a) + 1.0f), splat(1.0f)), x);
  return (a < 0.625f) ? near : far;
}

// 1 - erf(x), with a small relative error also where it is tiny; for x >= 0 only. Source: Cephes,
// single/ndtrf.c (coefficients of erfc for 1 <= x < 2 and 2 <= x, of erf for x < 1).
KW_INLINE F erfc_positive(F x) {
  const F z = x * x, q = 1.0f / x, y = q * q;
  const F power = exp(-z) * (1.0f - fma(x, x, -z));  // what x * x lost in rounding counts here
  F p = splat(2.326819970068386e-2f);
  p = fma(p, y, -1.387039388740657e-1f);
  p = fma(p, y, 3.687424674597105e-1f);
  p = fma(p, y, -5.824733027278666e-1f);
  p = fma(p, y, 6.210004621745983e-1f);
  p = fma(p, y, -4.944515323274145e-1f);
  p = fma(p, y, 3.404879937665872e-1f);
  p = fma(p, y, -2.741127028184656e-1f);
  p = fma(p, y, 5.638259427386472e-1f);
  F r = splat(-1.047766399936249e+1f);
  r = fma(r, y, 1.297719955372516e+1f);
  r = fma(r, y, -7.495518717768503f);
  r = fma(r, y, 2.921019019210786f);
  r = fma(r, y, -1.015265279202700f);
  r = fma(r, y, 4.218463358204948e-1f);
  r = fma(r, y, -2.820767439740514e-1f);
  r = fma(r, y, 5.641895067754075e-1f);
  const F tail = power * q * ((x < 2.0f) ? p : r);
  return (x > 11.0f) ? F{} : tail;  // and NaN goes through
}
KW_INLINE F erf_small(F x) {
  const F z = x * x;
  F p = splat(7.853861353153693e-5f);
  p = fma(p, z, -8.010193625184903e-4f);
  p = fma(p, z, 5.188327685732524e-3f);
  p = fma(p, z, -2.685381193529856e-2f);
  p = fma(p, z, 1.128358514861418e-1f);
  p = fma(p, z, -3.761262582423300e-1f);
  p = fma(p, z, 1.128379165726710f);
  return p * x;
}
KW_INLINE F erf(F x) {
  const F a = abs(x);
  return (a < 1.0f) ? erf_small(x) : copysign(1.0f - erfc_positive(a), x);
}
// P(Z <= x) and exp(-x * x / 2). The tail P(Z > a) is exp(-a * a / 2) times a polynomial in 1 / (1 + 0.35 a), fitted
// to 3.2e-8 of its value on [0, 14]; it stays small to the last digit where x is far below zero.
KW_INLINE F normal(F x, F& power) {
  const F a = at_most(abs(x), 15.0f), u = reciprocal_normal(fma(a, 0.35f, splat(1.0f)));  // beyond 15 it is 0
  F p = splat(-2.914460375905037e-2f);
  p = fma(p, u, 1.439657062292099e-1f);
  p = fma(p, u, -2.557027339935303e-1f);
  p = fma(p, u, 1.5916194021701813e-1f);
  p = fma(p, u, -2.310200221836567e-2f);
  p = fma(p, u, 1.0550490766763687e-1f);
  p = fma(p, u, 1.1983360350131989e-1f);
  p = fma(p, u, 1.3986177742481232e-1f);
  p = fma(p, u, 1.3962140679359436e-1f);
  power = exp_within(-0.5f * a * a);
  const F tail = power * (p * u);
  return (x < 0.0f) ? tail : 1.0f - tail;
}
KW_INLINE F gelu(F x) {
  F power;
  return x * normal(x, power);
}
KW_INLINE F gelu_tanh(F x) {
  return x / (1.0f + exp(-1.5957691216057308f * fma(0.044715f * x * x, x, x)));  // (1 + tanh(y)) / 2 is sigmoid(2 y)
}
KW_INLINE F softplus(F x, float beta, float threshold) {
  const F scaled = x * beta;
  return (scaled > threshold) ? x : (relu(scaled) + log1p(exp(-abs(scaled)))) / beta;
}
// x * tanh(log(1 + e^x)) = x * n / (n + 2) with n = e^x * (e^x + 2); beyond 20 it is x.
KW_INLINE F mish(F x) {
  const F power = exp(at_most(x, 20.0f)), n = power * (power + 2.0f);
  return x * (n * reciprocal_normal(n + 2.0f));
}
KW_INLINE F pow(F x, F y) {
  F r;
  for (int i = 0; i < W; ++i) r[i] = std::pow(x[i], y[i]);
  return r;
}
// x = n * pi / 2 + r; in four parts of pi / 2, of which n times the first two are exact. Source: Cephes,
// single/sinf.c (parts and coefficients).
constexpr float kFarFromZero = 65536.0f;
KW_INLINE F of_quadrant(F x, int shift) {  // sin(x + shift * pi / 2) for |x| <= kFarFromZero, and NaN
  const F n = rint(x * 0.63661977236758134f);
  F r = fma(n, -1.5703125f, x);
  r = fma(n, -4.837512969970703125e-4f, r);
  r = fma(n, -7.549790126404332e-8f, r);
  r = fma(n, 1.7151244994428829e-15f, r);
  const F z = r * r;
  F s = splat(-1.9515295891e-4f), c = splat(2.443315711809948e-5f);
  s = fma(fma(fma(s, z, 8.3321608736e-3f), z, -1.6666654611e-1f), z * r, r);
  c = fma(fma(fma(c, z, -1.388731625493765e-3f), z, 4.166664568298827e-2f), z * z, fma(z, splat(-0.5f), 1.0f));
  const M quadrant = __builtin_convertvector(n, M) + shift;
  const F value = ((quadrant & 1) != 0) ? c : s;
  return from_bits(bits(value) ^ ((quadrant & 2) << 30));
}
KW_INLINE F sin(F x) {
  if (any(abs(x) > kFarFromZero)) return lanewise(x, [](float v) { return std::sin(v); });
  return of_quadrant(x, 0);
}
KW_INLINE F cos(F x) {
  if (any(abs(x) > kFarFromZero)) return lanewise(x, [](float v) { return std::cos(v); });
  return of_quadrant(x, 1);
}

}  // namespace kw
