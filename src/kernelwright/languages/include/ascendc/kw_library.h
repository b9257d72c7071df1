// kw_library.h: calls of the high-level library that are several instructions of the vector pipe. Part of kernel_operator.h,
// inside its namespace.
//
// Only the operands are checked: each is read or written as one instruction would, and a buffer to work in is taken as
// written, with nothing known in it.
//
// Sum and Mean are those of the Ascend C API reference (CANN 8.0, pages Sum and Mean: outter, inner and n), Sigmoid has the
// forms of its page. Erf, Gelu and Silu have those of the API's public headers; the other functions are taken to have Erf's.
// Tanh and BroadCast are as NPUKernelBench's operators call them, and were not compared with their pages.

namespace detail {
template <typename T, typename U>
void works_in(const LocalTensor<T>& dst, const LocalTensor<U>& work, Where at, const char* what) {
  core()->issue(kw::ascend::V, at, what);
  work.in(kw::ascend::UB, at, what).aligned(at, what).write(kw::ascend::V, sizeof(U), at, what, false);
  if (work.address() == dst.address()) fault("overlap", at, "%s works in the tensor that it writes", what);
}
template <typename T>
void apart(const LocalTensor<T>& dst, const LocalTensor<T>& src, Where at, const char* what) {
  if (dst.address() == src.address()) fault("overlap", at, "%s writes the tensor that it reads", what);
}
}  // namespace detail

// Of `count` elements, or of the whole tensor; with and without a buffer to work in.
#define KW_FUNCTION(Name, expression)                                                                                   \
  namespace detail {                                                                                                    \
  template <typename T>                                                                                                 \
  struct Name##Lane {                                                                                                   \
    static_assert(floats<T>(), #Name " takes float and half");                                                          \
    T operator()(T x) const {                                                                                           \
      const float a = static_cast<float>(x);                                                                            \
      return static_cast<T>(expression);                                                                                \
    }                                                                                                                   \
  };                                                                                                                    \
  }                                                                                                                     \
  template <typename T, bool isReuseSource = false>                                                                     \
  void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint32_t count, KW_AT) {                              \
    detail::unary(dst, src, int64_t{count}, KW_HERE, #Name, detail::Name##Lane<T>());                                   \
  }                                                                                                                     \
  template <typename T, bool isReuseSource = false>                                                                     \
  void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& work, uint32_t count, KW_AT) { \
    detail::works_in(dst, work, KW_HERE, #Name);                                                                        \
    detail::unary(dst, src, int64_t{count}, KW_HERE, #Name, detail::Name##Lane<T>());                                   \
  }                                                                                                                     \
  template <typename T, bool isReuseSource = false>                                                                     \
  void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& work, KW_AT) {            \
    detail::works_in(dst, work, KW_HERE, #Name);                                                                        \
    detail::unary(dst, src, int64_t{src.GetSize()}, KW_HERE, #Name, detail::Name##Lane<T>());                           \
  }                                                                                                                     \
  template <typename T, bool isReuseSource = false>                                                                     \
  void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, KW_AT) {                                              \
    detail::unary(dst, src, int64_t{src.GetSize()}, KW_HERE, #Name, detail::Name##Lane<T>());                           \
  }
KW_FUNCTION(Tanh, tanhf(a))
KW_FUNCTION(Sigmoid, 1 / (1 + expf(-a)))
KW_FUNCTION(Erf, erff(a)) KW_FUNCTION(Erfc, erfcf(a))
KW_FUNCTION(Sin, sinf(a)) KW_FUNCTION(Cos, cosf(a)) KW_FUNCTION(Tan, tanf(a))
KW_FUNCTION(Asin, asinf(a)) KW_FUNCTION(Acos, acosf(a)) KW_FUNCTION(Atan, atanf(a))
KW_FUNCTION(Sinh, sinhf(a)) KW_FUNCTION(Cosh, coshf(a))
KW_FUNCTION(Floor, floorf(a)) KW_FUNCTION(Ceil, ceilf(a)) KW_FUNCTION(Trunc, truncf(a)) KW_FUNCTION(Frac, a - truncf(a))
#undef KW_FUNCTION

// Gelu by its approximation with tanh, as the API has it.
template <typename T, bool highPrecision = false, bool highPerformance = false>
void Gelu(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint32_t count, KW_AT) {
  detail::unary(dst, src, int64_t{count}, KW_HERE, "Gelu", [](T x) {
    const float a = static_cast<float>(x);
    return static_cast<T>(a / (1 + expf(-1.5957691216f * (a + 0.044715f * a * a * a))));
  });
}
template <typename T, bool highPrecision = false, bool highPerformance = false>
void Gelu(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& work, uint32_t count, KW_AT) {
  detail::works_in(dst, work, KW_HERE, "Gelu");
  Gelu(dst, src, count, kw_file, kw_line);
}
template <typename T>
void Silu(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint32_t count, KW_AT) {
  detail::apart(dst, src, KW_HERE, "Silu");
  detail::unary(dst, src, int64_t{count}, KW_HERE, "Silu", [](T x) {
    const float a = static_cast<float>(x);
    return static_cast<T>(a / (1 + expf(-a)));
  });
}

// Rows of `inner` elements, a multiple of 32 bytes, of which the first `n` count.
struct SumParams {
  uint32_t outter = 1, inner = 0, n = 0;
};
using MeanParams = SumParams;
namespace detail {
template <typename T, typename Store>
void rows(const LocalTensor<T>& dst, const LocalTensor<T>& src, const SumParams& by, Where at, const char* what,
          const Store& store) {
  static_assert(floats<T>(), "sums of rows take float and half");
  if (by.n < 1 || by.n > by.inner || by.inner * sizeof(T) % kBlock)
    fault("length", at, "%s of %u elements in rows of %u: rows are multiples of 32 bytes and hold what is summed", what, by.n,
          by.inner);
  core()->issue(kw::ascend::V, at, what);
  dst.in(kw::ascend::UB, at, what).aligned(at, what);
  src.in(kw::ascend::UB, at, what).aligned(at, what);
  std::vector<T> sums;
  for (uint32_t r = 0; r < by.outter; ++r) {
    const T* x = src[r * by.inner].read(kw::ascend::V, by.n * sizeof(T), at, what);
    sums.push_back(store(tree<SumOf>(std::vector<float>(x, x + by.n))));
  }
  std::copy(sums.begin(), sums.end(), dst.write(kw::ascend::V, by.outter * sizeof(T), at, what));
}
}  // namespace detail
template <typename T, int32_t reduceDim = -1, bool isReuseSource = false, bool isBasicBlock = false>
void Sum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const SumParams& by, KW_AT) {
  detail::rows(dst, src, by, KW_HERE, "Sum", [](float sum) { return static_cast<T>(sum); });
}
template <typename T, int32_t reduceDim = -1, bool isReuseSource = false, bool isBasicBlock = false>
void Sum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& work, const SumParams& by, KW_AT) {
  detail::works_in(dst, work, KW_HERE, "Sum");
  Sum(dst, src, by, kw_file, kw_line);
}
template <typename T, typename accType = T, bool isReuseSource = false, bool isBasicBlock = false, int32_t reduceDim = -1>
void Mean(const LocalTensor<T>& dst, const LocalTensor<T>& src, const MeanParams& by, KW_AT) {
  detail::rows(dst, src, by, KW_HERE, "Mean", [&](float sum) { return static_cast<T>(sum / static_cast<float>(by.n)); });
}
template <typename T, typename accType = T, bool isReuseSource = false, bool isBasicBlock = false, int32_t reduceDim = -1>
void Mean(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& work, const MeanParams& by, KW_AT) {
  detail::works_in(dst, work, KW_HERE, "Mean");
  Mean(dst, src, by, kw_file, kw_line);
}

// A tensor of one or two dimensions, of which the one called `axis` is 1, along that dimension.
template <typename T, int32_t dim, int32_t axis, bool isReuseSource = false>
void BroadCast(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t dstShape[dim], const uint32_t srcShape[dim],
               KW_AT) {
  static_assert((dim == 1 || dim == 2) && axis >= 0 && axis < dim, "BroadCast takes one or two dimensions");
  static_assert(sizeof(T) == 2 || sizeof(T) == 4, "BroadCast takes types of 16 and 32 bits");
  for (int32_t d = 0; d < dim; ++d)
    if (srcShape[d] != (d == axis ? 1 : dstShape[d]))
      fault("length", KW_HERE, "BroadCast along dimension %d from %u to %u elements in dimension %d", axis, srcShape[d],
            dstShape[d], d);
  core()->issue(kw::ascend::V, KW_HERE, "BroadCast");
  const uint32_t columns = dstShape[dim - 1], total = dim == 2 ? dstShape[0] * columns : columns;
  const uint32_t from = total / dstShape[axis];
  const T* x = src.in(kw::ascend::UB, KW_HERE, "BroadCast").aligned(KW_HERE, "BroadCast")
                   .read(kw::ascend::V, from * sizeof(T), KW_HERE, "BroadCast");
  const std::vector<T> values(x, x + from);
  T* to = dst.in(kw::ascend::UB, KW_HERE, "BroadCast").aligned(KW_HERE, "BroadCast")
              .write(kw::ascend::V, total * sizeof(T), KW_HERE, "BroadCast");
  for (uint32_t i = 0; i < total; ++i) to[i] = values[axis == dim - 1 ? i / columns : i % columns];
}
template <typename T, int32_t dim, int32_t axis, bool isReuseSource = false>
void BroadCast(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t dstShape[dim], const uint32_t srcShape[dim],
               const LocalTensor<uint8_t>& work, KW_AT) {
  detail::works_in(dst, work, KW_HERE, "BroadCast");
  BroadCast<T, dim, axis>(dst, src, dstShape, srcShape, kw_file, kw_line);
}
