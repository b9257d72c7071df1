// Directed roundings. What is rounded is read after the mode is set and written before it is set back, both of `volatile`
// variables, so that no compiler moves the operation out of between or does it itself.
#include <cfenv>

#include "reals.h"

namespace kw {
namespace {
struct Rounding {
  int before;
  explicit Rounding(Round how) : before(fegetround()) {
    fesetround(how == RZ ? FE_TOWARDZERO : how == RM ? FE_DOWNWARD : how == RP ? FE_UPWARD : FE_TONEAREST);
  }
  ~Rounding() { fesetround(before); }
};
template <class T> __attribute__((noinline)) T keep(T x) {
  volatile T v = x;
  return v;
}
}  // namespace

#define KW_ROUNDED(T)                                                                                         \
  T add_rounded(T a, T b, Round how) { Rounding r(how); return keep<T>(keep<T>(a) + keep<T>(b)); }             \
  T mul_rounded(T a, T b, Round how) { Rounding r(how); return keep<T>(keep<T>(a) * keep<T>(b)); }             \
  T div_rounded(T a, T b, Round how) { Rounding r(how); return keep<T>(keep<T>(a) / keep<T>(b)); }             \
  T fma_rounded(T a, T b, T c, Round how) { Rounding r(how); return keep<T>(std::fma(keep<T>(a), keep<T>(b), keep<T>(c))); } \
  T sqrt_rounded(T a, Round how) { Rounding r(how); return keep<T>(std::sqrt(keep<T>(a))); }
KW_ROUNDED(float)
KW_ROUNDED(double)
float float_of(double a, Round how) { Rounding r(how); return keep<float>(float(keep<double>(a))); }
#define KW_REAL_OF(F, I) \
  template <> F real_of<F>(I a, Round how) { Rounding r(how); return keep<F>(F(keep<I>(a))); }
KW_REAL_OF(float, int64_t) KW_REAL_OF(float, uint64_t) KW_REAL_OF(double, int64_t) KW_REAL_OF(double, uint64_t)
}  // namespace kw
