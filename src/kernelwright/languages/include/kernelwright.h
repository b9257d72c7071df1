// kernelwright.h: what a C++ or CUDA kernel needs to be called from Python, in one small header.
//
//   #include "kernelwright.h"
//
//   KW_KERNEL(axpy) {                                  // called as axpy(x, y, a, out)
//     auto x = args.tensor<const float>(0);
//     auto y = args.tensor<const float>(1);
//     float a = static_cast<float>(args.real(2));
//     auto out = args.tensor<float>(3);
//     KW_REQUIRE(x.numel() == y.numel(), "x and y differ in size");
//     if (x.ndim() != 1) KW_UNSUPPORTED("x must have 1 dimension");
//     const float *px = x.data(), *py = y.data();
//     float* po = out.data();
//     #pragma omp parallel for simd
//     for (int64_t i = 0; i < x.numel(); ++i) po[i] = a * px[i] + py[i];
//   }
//
// It stands on the C ABI of TVM FFI alone: the C++ API costs more than a second a compile, this costs
// hundredths. A kernel that wants that API includes <tvm/ffi/...> itself; both may be used in one file.
#ifndef KERNELWRIGHT_H_
#define KERNELWRIGHT_H_

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <tvm/ffi/c_api.h>

#include <exception>

#if defined(__HIP__)
#include <hip/hip_runtime.h>
#include <tvm/ffi/extra/c_env_api.h>
#elif defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <tvm/ffi/extra/c_env_api.h>
#endif

#define KW_INLINE inline __attribute__((always_inline))

namespace kw {

// ---- errors -----------------------------------------------------------------------------------------

struct Error {
  const char* kind;
  char message[512];
};

[[noreturn]] inline void raise(const char* kind, const char* prefix, const char* message) {
  Error error;
  error.kind = kind;
  snprintf(error.message, sizeof(error.message), "%s%s", prefix, message);
  throw error;
}

// Stops with a RuntimeError where the condition does not hold: the caller is wrong.
#define KW_REQUIRE(condition, message)                               \
  do {                                                               \
    if (!(condition)) ::kw::raise("RuntimeError", "", message);      \
  } while (0)

// Stops with "Unsupported: message": the call is right, and this kernel does not serve it.
#define KW_UNSUPPORTED(message) ::kw::raise("NotImplementedError", "Unsupported: ", message)

// ---- 16-bit floats ----------------------------------------------------------------------------------

namespace detail {
KW_INLINE uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}
KW_INLINE float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}
}  // namespace detail

// bfloat16: the upper half of a float. Both conversions are branch-free, so loops over them vectorise.
struct bfloat16 {
  uint16_t bits;
  bfloat16() = default;
  KW_INLINE bfloat16(float value) {  // to nearest, ties to even; NaN stays NaN
    uint32_t u = detail::bits_of(value);
    uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    bits = static_cast<uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? (u >> 16) | 0x40u : rounded);
  }
  KW_INLINE operator float() const { return detail::float_of(static_cast<uint32_t>(bits) << 16); }
};

// float16: by the compiler's own type where it has one, by arithmetic on the bits elsewhere.
struct float16 {
  uint16_t bits;
  float16() = default;
#if defined(__FLT16_MANT_DIG__)
#if defined(__has_builtin) && !defined(__CUDACC__)
#define KW_HAS_BIT_CAST __has_builtin(__builtin_bit_cast)
#endif
#if KW_HAS_BIT_CAST
  KW_INLINE constexpr float16(float value) : bits(__builtin_bit_cast(uint16_t, static_cast<_Float16>(value))) {}
#else
  KW_INLINE float16(float value) {
    _Float16 half = static_cast<_Float16>(value);
    memcpy(&bits, &half, sizeof(bits));
  }
#endif
  KW_INLINE operator float() const {
    _Float16 half;
    memcpy(&half, &bits, sizeof(half));
    return static_cast<float>(half);
  }
#else
  KW_INLINE float16(float value) {
    uint32_t u = detail::bits_of(value), sign = (u >> 16) & 0x8000u, a = u & 0x7fffffffu, h;
    if (a > 0x7f800000u) {
      h = 0x7e00u | ((a >> 13) & 0x3ffu);
    } else if (a >= 0x477ff000u) {  // 65520 and beyond rounds to infinity
      h = 0x7c00u;
    } else if (a < 0x38800000u) {  // below 2^-14: adding 0.5 leaves the subnormal in the low bits
      h = detail::bits_of(detail::float_of(a) + 0.5f) - 0x3f000000u;
    } else {
      h = (a - 0x38000000u + 0xfffu + ((a >> 13) & 1u)) >> 13;
    }
    bits = static_cast<uint16_t>(sign | h);
  }
  KW_INLINE operator float() const {
    uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16, a = bits & 0x7fffu, u;
    if (a >= 0x7c00u) {
      u = 0x7f800000u | ((a & 0x3ffu) << 13);
    } else if (a >= 0x400u) {
      u = (a << 13) + 0x38000000u;
    } else {
      u = detail::bits_of(static_cast<float>(a) * 5.9604644775390625e-8f);  // 2^-24
    }
    return detail::float_of(sign | u);
  }
#endif
};

// Copies n elements to or from float, converting; vectorises for every element type of this header.
template <typename From>
KW_INLINE void load(const From* from, float* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<float>(from[i]);
}
template <typename To>
KW_INLINE void store(const float* from, To* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<To>(from[i]);
}

// ---- element types ----------------------------------------------------------------------------------

template <typename T>
struct dtype;  // dtype<T>::name, ::code, ::bits; an error here names an element type that has no torch dtype

#define KW_DTYPE(type, text, dl_code, dl_bits)      \
  template <>                                       \
  struct dtype<type> {                              \
    static constexpr const char* name = text;       \
    static constexpr uint8_t code = dl_code;        \
    static constexpr uint8_t bits = dl_bits;        \
  };
KW_DTYPE(float, "float32", kDLFloat, 32)
KW_DTYPE(double, "float64", kDLFloat, 64)
KW_DTYPE(bfloat16, "bfloat16", kDLBfloat, 16)
KW_DTYPE(float16, "float16", kDLFloat, 16)
KW_DTYPE(int8_t, "int8", kDLInt, 8)
KW_DTYPE(int16_t, "int16", kDLInt, 16)
KW_DTYPE(int32_t, "int32", kDLInt, 32)
KW_DTYPE(int64_t, "int64", kDLInt, 64)
KW_DTYPE(uint8_t, "uint8", kDLUInt, 8)
KW_DTYPE(uint16_t, "uint16", kDLUInt, 16)
KW_DTYPE(uint32_t, "uint32", kDLUInt, 32)
KW_DTYPE(uint64_t, "uint64", kDLUInt, 64)
KW_DTYPE(bool, "bool", kDLBool, 8)
#if defined(__CUDACC__)
KW_DTYPE(__half, "float16", kDLFloat, 16)
KW_DTYPE(__nv_bfloat16, "bfloat16", kDLBfloat, 16)
#endif
#undef KW_DTYPE

namespace detail {
template <typename T>
struct bare { using type = T; };
template <typename T>
struct bare<const T> { using type = T; };
}  // namespace detail

// ---- tensors ----------------------------------------------------------------------------------------

// A view of one tensor argument; owns nothing, copies freely. T is const for what is only read.
template <typename T>
class Tensor {
 public:
  explicit Tensor(const DLTensor* tensor) : tensor_(tensor) {}
  KW_INLINE T* data() const {
    return reinterpret_cast<T*>(static_cast<char*>(tensor_->data) + tensor_->byte_offset);
  }
  KW_INLINE T& operator[](int64_t i) const { return data()[i]; }
  KW_INLINE int ndim() const { return tensor_->ndim; }
  // Size of an axis; negative axes count from the end.
  KW_INLINE int64_t shape(int axis) const { return tensor_->shape[wrapped(axis)]; }
  // Elements between neighbours along an axis; negative axes count from the end.
  int64_t stride(int axis) const {
    axis = wrapped(axis);
    if (tensor_->strides) return tensor_->strides[axis];
    int64_t step = 1;
    for (int i = tensor_->ndim - 1; i > axis; --i) step *= tensor_->shape[i];
    return step;
  }
  int64_t numel() const { return numel(0, tensor_->ndim); }
  // Product of the sizes of axes [first, last).
  int64_t numel(int first, int last) const {
    int64_t n = 1;
    for (int i = first; i < last; ++i) n *= tensor_->shape[i];
    return n;
  }
  bool contiguous() const {
    if (!tensor_->strides) return true;
    int64_t step = 1;
    for (int i = tensor_->ndim - 1; i >= 0; --i) {
      if (tensor_->shape[i] == 0) return true;
      if (tensor_->shape[i] != 1 && tensor_->strides[i] != step) return false;
      step *= tensor_->shape[i];
    }
    return true;
  }
  template <typename U>
  bool same_shape(const Tensor<U>& other) const {
    if (ndim() != other.ndim()) return false;
    for (int i = 0; i < ndim(); ++i)
      if (shape(i) != other.shape(i)) return false;
    return true;
  }
  DLDevice device() const { return tensor_->device; }
  const DLTensor* dl() const { return tensor_; }

 private:
  KW_INLINE int wrapped(int axis) const { return axis < 0 ? axis + tensor_->ndim : axis; }
  const DLTensor* tensor_;
};

// ---- arguments --------------------------------------------------------------------------------------

class Args {
 public:
  Args(const TVMFFIAny* values, int32_t size) : values_(values), size_(size) {}
  int32_t size() const { return size_; }

  // Argument i as a tensor of T; stops with an error that names the argument where it is something else.
  template <typename T>
  Tensor<T> tensor(int i) const {
    using E = typename detail::bare<T>::type;
    const DLTensor* t = any_tensor(i);
    if (t->dtype.code != dtype<E>::code || t->dtype.bits != dtype<E>::bits || t->dtype.lanes != 1)
      wrong(i, dtype<E>::name);
    return Tensor<T>(t);
  }
  // Whether argument i is a tensor with elements of T.
  template <typename T>
  bool is(int i) const {
    if (!is_tensor(i)) return false;
    DLDataType d = any_tensor(i)->dtype;
    return d.code == dtype<T>::code && d.bits == dtype<T>::bits;
  }
  bool is_tensor(int i) const {
    int32_t type = at(i).type_index;
    return type == kTVMFFIDLTensorPtr || type == kTVMFFITensor;
  }
  bool is_none(int i) const { return at(i).type_index == kTVMFFINone; }
  // Argument i as its DLTensor, whatever its elements.
  const DLTensor* any_tensor(int i) const {
    const TVMFFIAny& value = at(i);
    if (value.type_index == kTVMFFIDLTensorPtr) return static_cast<const DLTensor*>(value.v_ptr);
    if (value.type_index == kTVMFFITensor) return TVMFFITensorGetDLTensorPtr(value.v_obj);
    wrong(i, "a tensor");
  }
  int64_t integer(int i) const {
    const TVMFFIAny& value = at(i);
    if (value.type_index == kTVMFFIInt || value.type_index == kTVMFFIBool) return value.v_int64;
    wrong(i, "an integer");
  }
  double real(int i) const {
    const TVMFFIAny& value = at(i);
    if (value.type_index == kTVMFFIFloat) return value.v_float64;
    if (value.type_index == kTVMFFIInt || value.type_index == kTVMFFIBool)
      return static_cast<double>(value.v_int64);
    wrong(i, "a number");
  }
  bool boolean(int i) const { return integer(i) != 0; }

 private:
  const TVMFFIAny& at(int i) const {
    if (i < 0 || i >= size_) {
      char text[96];
      snprintf(text, sizeof(text), "the kernel reads argument %d of %d", i, static_cast<int>(size_));
      raise("TypeError", "", text);
    }
    return values_[i];
  }
  [[noreturn]] static void wrong(int i, const char* expected) {
    char text[128];
    snprintf(text, sizeof(text), "argument %d is not %s, which is all this kernel takes there", i, expected);
    raise("NotImplementedError", "Unsupported: ", text);
  }
  const TVMFFIAny* values_;
  int32_t size_;
};

// ---- CUDA and HIP -----------------------------------------------------------------------------------

#if defined(__HIP__)
// The stream that torch uses now on the tensor's device; launch on this one.
template <typename T>
hipStream_t stream(const Tensor<T>& tensor) {
  DLDevice d = tensor.device();
  return static_cast<hipStream_t>(TVMFFIEnvGetStream(d.device_type, d.device_id));
}
// Stops with an error where the last launch failed.
#define KW_CHECK_LAUNCH()                                                              \
  do {                                                                                 \
    hipError_t kw_status = hipGetLastError();                                          \
    if (kw_status != hipSuccess) ::kw::raise("RuntimeError", "", hipGetErrorString(kw_status)); \
  } while (0)
#elif defined(__CUDACC__)
// The stream that torch uses now on the tensor's device; launch on this one.
template <typename T>
cudaStream_t stream(const Tensor<T>& tensor) {
  DLDevice d = tensor.device();
  return static_cast<cudaStream_t>(TVMFFIEnvGetStream(d.device_type, d.device_id));
}
// Stops with an error where the last launch failed.
#define KW_CHECK_LAUNCH()                                                              \
  do {                                                                                 \
    cudaError_t kw_status = cudaGetLastError();                                        \
    if (kw_status != cudaSuccess) ::kw::raise("RuntimeError", "", cudaGetErrorString(kw_status)); \
  } while (0)
#endif

namespace detail {
inline int call(void (*body)(const Args&), const TVMFFIAny* values, int32_t size, TVMFFIAny* result) {
  try {
    body(Args(values, size));
  } catch (const Error& error) {
    TVMFFIErrorSetRaisedFromCStr(error.kind, error.message);
    return -1;
  } catch (const std::exception& error) {
    TVMFFIErrorSetRaisedFromCStr("RuntimeError", error.what());
    return -1;
  }
  result->type_index = kTVMFFINone;
  result->zero_padding = 0;
  result->v_int64 = 0;
  return 0;
}
}  // namespace detail
}  // namespace kw

// Defines and exports a kernel; the body that follows sees its arguments as `args`. With KW_SOME, those whose
// KW_WITH_name is `0,` alone: the bodies of others are templates that nothing instantiates, and cost no compilation.
#ifdef KW_SOME
#define KW_KERNEL(name) KW_CHOSEN_(KW_WITH_##name KW_EXPORTED_, KW_LEFT_OUT_, 0)(name)
#else
#define KW_KERNEL(name) KW_EXPORTED_(name)
#endif
#define KW_CHOSEN_(...) KW_SECOND_(__VA_ARGS__)
#define KW_SECOND_(first, second, ...) second
#define KW_LEFT_OUT_(name) \
  template <class> [[maybe_unused]] static void kw_body_##name(const ::kw::Args& args)
#define KW_EXPORTED_(name)                                                                      \
  static void kw_body_##name(const ::kw::Args& args);                                           \
  extern "C" TVM_FFI_DLL_EXPORT int __tvm_ffi_##name(void*, const TVMFFIAny* values, int32_t size, \
                                                     TVMFFIAny* result) {                       \
    return ::kw::detail::call(&kw_body_##name, values, size, result);                           \
  }                                                                                             \
  static void kw_body_##name(const ::kw::Args& args)

#endif  // KERNELWRIGHT_H_
