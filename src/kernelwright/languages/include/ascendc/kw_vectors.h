// kw_vectors.h: instructions of the vector pipe on the first `count` elements. Part of kernel_operator.h.
//
// Source: Ascend C API reference, "Vector Computation" (types for Atlas A2), "ReduceSum" (the order of its sums: a tree
// in each 256 bytes, one after the other), "Cast".

namespace detail {
template <typename T>
constexpr bool computes() {
  return std::is_same<T, float>::value || std::is_same<T, half>::value || std::is_same<T, int32_t>::value ||
         std::is_same<T, int16_t>::value;
}
template <typename T>
constexpr bool floats() {
  return std::is_same<T, float>::value || std::is_same<T, half>::value;
}
template <typename T>
uint32_t bytes_of(int32_t count, Where at, const char* what) {
  if (count < 0) fault("length", at, "%s of %d elements", what, count);
  return static_cast<uint32_t>(count) * static_cast<uint32_t>(sizeof(T));
}
template <typename T>
const T* source(const LocalTensor<T>& src, int32_t count, Where at, const char* what) {
  return src.aligned(at, what).read(kw::ascend::V, bytes_of<T>(count, at, what), at, what);
}
template <typename T>
T* target(const LocalTensor<T>& dst, int32_t count, Where at, const char* what) {
  return dst.aligned(at, what).write(kw::ascend::V, bytes_of<T>(count, at, what), at, what);
}
}  // namespace detail

#define KW_BINARY(Name, takes, expression)                                                                            \
  template <typename T>                                                                                               \
  void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, int32_t count, KW_AT) { \
    static_assert(detail::takes<T>(), #Name " does not take this type on Atlas A2");                                  \
    using W = typename detail::Wide<T>::type;                                                                         \
    core()->issue(kw::ascend::V);                                                                                     \
    const T *x = detail::source(src0, count, KW_HERE, #Name), *y = detail::source(src1, count, KW_HERE, #Name);       \
    T* to = detail::target(dst, count, KW_HERE, #Name);                                                               \
    for (int32_t i = 0; i < count; ++i) {                                                                             \
      const W a = x[i], b = y[i];                                                                                     \
      to[i] = static_cast<T>(expression);                                                                             \
    }                                                                                                                 \
  }
#define KW_SCALAR(Name, takes, expression)                                                                            \
  template <typename T, typename U>                                                                                   \
  void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, U scalar, int32_t count, KW_AT) {                   \
    static_assert(detail::takes<T>(), #Name " does not take this type on Atlas A2");                                  \
    using W = typename detail::Wide<T>::type;                                                                         \
    core()->issue(kw::ascend::V);                                                                                     \
    const T* x = detail::source(src, count, KW_HERE, #Name);                                                          \
    T* to = detail::target(dst, count, KW_HERE, #Name);                                                               \
    const W b = static_cast<W>(static_cast<T>(scalar));                                                               \
    for (int32_t i = 0; i < count; ++i) {                                                                             \
      const W a = x[i];                                                                                               \
      to[i] = static_cast<T>(expression);                                                                             \
    }                                                                                                                 \
  }
#define KW_UNARY(Name, takes, expression)                                                                             \
  template <typename T>                                                                                               \
  void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, int32_t count, KW_AT) {                             \
    static_assert(detail::takes<T>(), #Name " does not take this type on Atlas A2");                                  \
    using W = typename detail::Wide<T>::type;                                                                         \
    core()->issue(kw::ascend::V);                                                                                     \
    const T* x = detail::source(src, count, KW_HERE, #Name);                                                          \
    T* to = detail::target(dst, count, KW_HERE, #Name);                                                               \
    for (int32_t i = 0; i < count; ++i) {                                                                             \
      const W a = x[i];                                                                                               \
      to[i] = static_cast<T>(expression);                                                                             \
    }                                                                                                                 \
  }
KW_BINARY(Add, computes, a + b)
KW_BINARY(Sub, computes, a - b)
KW_BINARY(Mul, computes, a * b)
KW_BINARY(Div, floats, a / b)
KW_BINARY(Max, computes, a < b ? b : a)
KW_BINARY(Min, computes, b < a ? b : a)
KW_SCALAR(Adds, computes, a + b)
KW_SCALAR(Muls, computes, a * b)
KW_SCALAR(Maxs, computes, a < b ? b : a)
KW_SCALAR(Mins, computes, b < a ? b : a)
KW_SCALAR(LeakyRelu, floats, a < 0 ? a * b : a)
KW_UNARY(Abs, floats, a < 0 ? -a : a)
KW_UNARY(Exp, floats, expf(a))
KW_UNARY(Ln, floats, logf(a))
KW_UNARY(Sqrt, floats, sqrtf(a))
KW_UNARY(Rsqrt, floats, 1 / sqrtf(a))
KW_UNARY(Reciprocal, floats, 1 / a)
KW_UNARY(Relu, floats, a < 0 ? W(0) : a)
#undef KW_BINARY
#undef KW_SCALAR
#undef KW_UNARY

template <typename T, typename U>
void Axpy(const LocalTensor<T>& dst, const LocalTensor<T>& src, U scalar, int32_t count, KW_AT) {
  static_assert(detail::floats<T>(), "Axpy takes float and half");
  core()->issue(kw::ascend::V);
  const T *x = detail::source(src, count, KW_HERE, "Axpy"), *before = detail::source(dst, count, KW_HERE, "Axpy");
  T* to = detail::target(dst, count, KW_HERE, "Axpy");
  for (int32_t i = 0; i < count; ++i)
    to[i] = static_cast<T>(static_cast<float>(x[i]) * static_cast<float>(scalar) + static_cast<float>(before[i]));
}

template <typename T, typename U>
void Duplicate(const LocalTensor<T>& dst, U value, int32_t count, KW_AT) {
  core()->issue(kw::ascend::V);
  std::fill_n(detail::target(dst, count, KW_HERE, "Duplicate"), count, static_cast<T>(value));
}

template <typename To, typename From>
void Cast(const LocalTensor<To>& dst, const LocalTensor<From>& src, RoundMode mode, int32_t count, KW_AT) {
  core()->issue(kw::ascend::V);
  constexpr bool narrows = !std::is_same<To, float>::value;
  constexpr bool to_integer = std::is_integral<To>::value && !std::is_integral<From>::value;
  if (narrows && !to_integer && mode != RoundMode::CAST_NONE && mode != RoundMode::CAST_RINT)
    fault("not-executed", KW_HERE, "Cast to a float rounds to nearest here; other modes are not executed");
  const From* x = detail::source(src, count, KW_HERE, "Cast");
  To* to = detail::target(dst, count, KW_HERE, "Cast");
  for (int32_t i = 0; i < count; ++i) {
    float value = static_cast<float>(x[i]);
    if (to_integer) {
      switch (mode) {
        case RoundMode::CAST_FLOOR: value = floorf(value); break;
        case RoundMode::CAST_CEIL: value = ceilf(value); break;
        case RoundMode::CAST_ROUND: value = roundf(value); break;
        case RoundMode::CAST_TRUNC: value = truncf(value); break;
        case RoundMode::CAST_RINT: value = nearbyintf(value); break;
        default: fault("not-executed", KW_HERE, "Cast to an integer needs a mode that rounds");
      }
    }
    to[i] = static_cast<To>(value);
  }
}

namespace detail {
template <typename T, typename Fold>
T folded(const T* x, int32_t count, const Fold& fold) {  // a tree in each repeat, the repeats in order
  constexpr int32_t lanes = kw::ascend::kRepeat / sizeof(T);
  T total = T();
  for (int32_t begin = 0; begin < count; begin += lanes) {
    std::vector<T> row(x + begin, x + std::min(count, begin + lanes));
    while (row.size() > 1) {
      std::vector<T> next;
      for (size_t i = 0; i < row.size(); i += 2) next.push_back(i + 1 < row.size() ? fold(row[i], row[i + 1]) : row[i]);
      row.swap(next);
    }
    total = begin ? fold(total, row[0]) : row[0];
  }
  return total;
}
template <typename T, typename Fold>
void reduce(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& work, int32_t count, Where at,
            const char* what, const Fold& fold) {
  static_assert(floats<T>(), "reductions take float and half");
  if (count < 1) fault("length", at, "%s of %d elements", what, count);
  core()->issue(kw::ascend::V);
  const T* x = source(src, count, at, what);
  work.aligned(at, what).write(kw::ascend::V, sizeof(T), at, what, false);
  *dst.write(kw::ascend::V, sizeof(T), at, what) = folded(x, count, fold);
}
}  // namespace detail

#define KW_REDUCE(Name, expression)                                                                                      \
  template <typename T>                                                                                                  \
  void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& work, int32_t count, KW_AT) {    \
    detail::reduce(dst, src, work, count, KW_HERE, #Name, [](T x, T y) {                                                 \
      const float a = x, b = y;                                                                                          \
      return static_cast<T>(expression);                                                                                 \
    });                                                                                                                  \
  }
KW_REDUCE(ReduceSum, a + b)
KW_REDUCE(ReduceMax, a < b ? b : a)
KW_REDUCE(ReduceMin, b < a ? b : a)
#undef KW_REDUCE
