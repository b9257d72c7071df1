// What host code of CUDA extensions uses of torch's C++ API, for tensors of the CPU that stand in for a GPU's. Everything
// that computes or allocates is asked of Python (`inline.py`). What is not declared here does not compile.
#pragma once
#include "kw_accessors.h"
#include "kw_dispatch.h"
#include "kw_types.h"

namespace at {
using namespace c10;
class Tensor;
namespace kw {
struct Value : TVMFFIAny {
  Value() { zero(kTVMFFINone); }
  Value(int64_t v) { zero(kTVMFFIInt); v_int64 = v; }
  Value(int v) : Value(int64_t(v)) {}
  Value(size_t v) : Value(int64_t(v)) {}
  Value(bool v) { zero(kTVMFFIBool); v_int64 = v; }
  Value(double v) { zero(kTVMFFIFloat); v_float64 = v; }
  Value(const char* v) { zero(kTVMFFIRawStr); v_c_str = v; }
  inline Value(const Tensor& t);
 private:
  void zero(int type) { type_index = type, zero_padding = 0, v_int64 = 0; }
};
inline TVMFFIAny ask(const char* name, std::vector<Value> given) {
  static TVMFFIObjectHandle torch = [] {
    TVMFFIByteArray key{"kernelwright.executor.torch", 27};
    TVMFFIObjectHandle found = nullptr;
    if (TVMFFIFunctionGetGlobal(&key, &found) || !found) throw Error("the executor's torch functions are not registered");
    return found;
  }();
  given.insert(given.begin(), Value(name));
  Value result;
  if (TVMFFIFunctionCall(torch, given.data(), int32_t(given.size()), &result)) throw Raised();
  return result;
}
template <class... A> Tensor op(const char* name, A&&... arguments);
}  // namespace kw

class Scalar {
 public:
  Scalar(double v) : value(v) {}
  template <class T> T to() const { return T(value); }
  double toDouble() const { return value; }
  float toFloat() const { return float(value); }
  int64_t toLong() const { return int64_t(value); }
  int toInt() const { return int(value); }
  double value;
};

struct Type {
  operator ScalarType() const { return held; }
  ScalarType scalarType() const { return held; }
  bool is_cuda() const { return true; }
  ScalarType held;
};

class Tensor {
 public:
  Tensor() = default;
  static Tensor owned(TVMFFIObjectHandle h) { Tensor t; t.handle = h; return t; }
  static Tensor of(TVMFFIObjectHandle h) { TVMFFIObjectIncRef(h); return owned(h); }
  Tensor(const Tensor& t) : handle(t.handle) { if (handle) TVMFFIObjectIncRef(handle); }
  Tensor(Tensor&& t) noexcept : handle(t.handle) { t.handle = nullptr; }
  Tensor& operator=(Tensor t) { std::swap(handle, t.handle); return *this; }
  ~Tensor() { if (handle) TVMFFIObjectDecRef(handle); }

  bool defined() const { return handle; }
  int64_t dim() const { return dl()->ndim; }
  int64_t ndimension() const { return dim(); }
  int64_t size(int64_t i) const { return dl()->shape[i < 0 ? i + dim() : i]; }
  Sizes sizes() const { return Sizes(dl()->shape, dl()->shape + dim()); }
  int64_t stride(int64_t axis) const { return strides()[size_t(axis < 0 ? axis + dim() : axis)]; }
  Sizes strides() const {
    if (dl()->strides) return Sizes(dl()->strides, dl()->strides + dim());
    Sizes steps(size_t(dim()), 1);
    for (int64_t i = dim() - 2; i >= 0; i--) steps[size_t(i)] = steps[size_t(i) + 1] * size(i + 1);
    return steps;
  }
  int64_t numel() const { int64_t n = 1; for (int64_t s : sizes()) n *= s; return n; }
  int64_t itemsize() const { return dl()->dtype.bits / 8; }
  int64_t element_size() const { return itemsize(); }
  int64_t nbytes() const { return numel() * itemsize(); }
  bool is_contiguous() const {
    int64_t step = 1;
    Sizes steps = strides();
    for (int64_t i = dim() - 1; i >= 0; i--) {
      if (size(i) != 1 && steps[size_t(i)] != step) return numel() == 0;
      step *= size(i);
    }
    return true;
  }
  ScalarType scalar_type() const {
    const DLDataType d = dl()->dtype;
    switch (d.code) {
      case kDLFloat: return d.bits == 64 ? kDouble : d.bits == 32 ? kFloat : kHalf;
      case kDLBfloat: return kBFloat16;
      case kDLBool: return kBool;
      case kDLUInt: return kByte;
      default: return d.bits == 64 ? kLong : d.bits == 32 ? kInt : d.bits == 16 ? kShort : kChar;
    }
  }
  ScalarType dtype() const { return scalar_type(); }
  Device device() const { return Device(); }
  Type type() const { return {scalar_type()}; }
  bool is_cuda() const { return true; }
  bool is_cpu() const { return false; }
  bool requires_grad() const { return false; }
  bool is_floating_point() const { return dl()->dtype.code == kDLFloat || dl()->dtype.code == kDLBfloat; }
  int get_device() const { return 0; }
  TensorOptions options() const { return TensorOptions(scalar_type()); }
  void* data_ptr() const {
    kw::ask("lend", {kw::Value(*this)});
    return static_cast<char*>(dl()->data) + dl()->byte_offset;
  }
  template <class T> T* data_ptr() const {
    using E = std::remove_const_t<T>;
    if (type_of<E>::value != scalar_type())
      fail("", "expected scalar type ", type_of<E>::value, " but found ", scalar_type());
    return static_cast<T*>(data_ptr());
  }
  template <class T> T* data() const { return data_ptr<T>(); }
  template <class T> const T* const_data_ptr() const { return data_ptr<T>(); }
  template <class T> T* mutable_data_ptr() const { return data_ptr<T>(); }
  const void* const_data_ptr() const { return data_ptr(); }
  void* mutable_data_ptr() const { return data_ptr(); }

  Tensor contiguous() const { return is_contiguous() ? *this : kw::op("contiguous", *this); }
  Tensor clone() const { return kw::op("clone", *this); }
  Tensor detach() const { return *this; }
  Tensor cuda() const { return *this; }
  Tensor to(ScalarType t) const { return t == scalar_type() ? *this : kw::op("to", *this, name_of(t)); }
  Tensor to(const TensorOptions& o) const { return to(o.type); }
  Tensor to(Device) const { return *this; }
  Tensor to(Device, ScalarType t) const { return to(t); }
  Tensor toType(ScalarType t) const { return to(t); }
  Tensor view(const Sizes& s) const;
  Tensor reshape(const Sizes& s) const;
  Tensor view_as(const Tensor& other) const { return view(other.sizes()); }
  Tensor reshape_as(const Tensor& other) const { return reshape(other.sizes()); }
  Tensor expand(const Sizes& s) const;
  Tensor flatten(int64_t from = 0, int64_t to = -1) const { return kw::op("flatten", *this, from, to); }
  Tensor narrow(int64_t axis, int64_t from, int64_t n) const { return kw::op("narrow", *this, axis, from, n); }
  Tensor select(int64_t axis, int64_t i) const { return kw::op("select", *this, axis, i); }
  Tensor operator[](int64_t i) const { return select(0, i); }
  Tensor t() const { return kw::op("t", *this); }
  Tensor transpose(int64_t a, int64_t b) const { return kw::op("transpose", *this, a, b); }
  Tensor squeeze() const { return kw::op("squeeze", *this); }
  Tensor squeeze(int64_t a) const { return kw::op("squeeze", *this, a); }
  Tensor unsqueeze(int64_t a) const { return kw::op("unsqueeze", *this, a); }
  Tensor permute(const Sizes& s) const;
#define KW_REDUCTION(name)                                                              \
  Tensor name() const { return kw::op(#name, *this); }                                  \
  Tensor name(const Sizes& axes, bool keep = false) const;                              \
  Tensor name(int64_t axis, bool keep = false) const { return name(Sizes{axis}, keep); }
  KW_REDUCTION(sum) KW_REDUCTION(mean) KW_REDUCTION(amax) KW_REDUCTION(amin)
#undef KW_REDUCTION
#define KW_UNARY_OPS(F) F(relu) F(sigmoid) F(tanh) F(exp) F(log) F(sqrt) F(rsqrt) F(abs) F(neg) F(square) F(max) F(min)
#define KW_BINARY_OPS(F) F(add) F(sub) F(mul) F(div) F(matmul) F(mm) F(bmm) F(pow) F(softmax)
#define KW_METHOD(name) Tensor name() const { return kw::op(#name, *this); }
  KW_UNARY_OPS(KW_METHOD)
#undef KW_METHOD
#define KW_METHOD(name) template <class B> Tensor name(const B& b) const { return kw::op(#name, *this, b); }
  KW_BINARY_OPS(KW_METHOD)
#undef KW_METHOD
  Tensor& zero_() { kw::op("zero_", *this); return *this; }
  Tensor& fill_(double v) { kw::op("fill_", *this, v); return *this; }
  Tensor& copy_(const Tensor& other) { kw::op("copy_", *this, other); return *this; }
  Scalar item() const { return Scalar(item<double>()); }
  template <class T, size_t N, template <class> class P = DefaultPtrTraits, class I = int64_t>
  GenericPackedTensorAccessor<T, N, P, I> packed_accessor() const {
    if (dim() != int64_t(N)) fail("", "expected ", N, " dims but tensor has ", dim());
    const Sizes lengths = sizes(), steps = strides();
    return {data_ptr<T>(), lengths.data(), steps.data()};
  }
  template <class T, size_t N, template <class> class P = DefaultPtrTraits> PackedTensorAccessor32<T, N, P> packed_accessor32() const {
    return packed_accessor<T, N, P, int32_t>();
  }
  template <class T, size_t N, template <class> class P = DefaultPtrTraits> PackedTensorAccessor64<T, N, P> packed_accessor64() const {
    return packed_accessor<T, N, P, int64_t>();
  }
  template <class T> T item() const {
    TVMFFIAny v = kw::ask("item", {kw::Value(*this)});
    return v.type_index == kTVMFFIFloat ? T(v.v_float64) : T(v.v_int64);
  }
  TVMFFIObjectHandle handle = nullptr;

 private:
  const DLTensor* dl() const {
    if (!handle) throw Error("this tensor is undefined");
    return TVMFFITensorGetDLTensorPtr(handle);
  }
};

inline kw::Value::Value(const Tensor& t) {
  zero(t.handle ? int(kTVMFFITensor) : int(kTVMFFINone));
  v_obj = static_cast<TVMFFIObject*>(t.handle);
}
namespace kw {
inline Tensor taken(TVMFFIAny v) { return v.type_index == kTVMFFITensor ? Tensor::owned(v.v_obj) : Tensor(); }
template <class... A> Tensor op(const char* name, A&&... arguments) { return taken(ask(name, {Value(arguments)...})); }
inline Tensor sized(const char* name, std::vector<Value> first, const Sizes& sizes) {
  for (int64_t s : sizes) first.push_back(s);
  return taken(ask(name, std::move(first)));
}
}  // namespace kw
inline Tensor Tensor::view(const Sizes& s) const { return kw::sized("view", {*this}, s); }
inline Tensor Tensor::reshape(const Sizes& s) const { return kw::sized("reshape", {*this}, s); }
inline Tensor Tensor::permute(const Sizes& s) const { return kw::sized("permute", {*this}, s); }
inline Tensor Tensor::expand(const Sizes& s) const { return kw::sized("expand", {*this}, s); }
#define KW_REDUCTION(name)                                                                                       \
  inline Tensor Tensor::name(const Sizes& s, bool keep) const { return kw::sized("reduce", {*this, #name, keep}, s); } \
  template <class... A> Tensor name(const Tensor& t, A&&... rest) { return t.name(std::forward<A>(rest)...); }    \
  inline Tensor name(const Tensor& t, std::initializer_list<int64_t> s, bool keep = false) { return t.name(Sizes(s), keep); }
KW_REDUCTION(sum) KW_REDUCTION(mean) KW_REDUCTION(amax) KW_REDUCTION(amin)
#undef KW_REDUCTION
#define KW_FUNCTION(name) inline Tensor name(const Tensor& t) { return t.name(); }
KW_UNARY_OPS(KW_FUNCTION)
#undef KW_FUNCTION
#define KW_FUNCTION(name) template <class B> Tensor name(const Tensor& a, const B& b) { return a.name(b); }
KW_BINARY_OPS(KW_FUNCTION)
#undef KW_FUNCTION
#define KW_SIGN(op, name) \
  inline Tensor operator op(const Tensor& a, const Tensor& b) { return a.name(b); } \
  template <class B, std::enable_if_t<std::is_arithmetic_v<B>, int> = 0> Tensor operator op(const Tensor& a, B b) { return a.name(b); }
KW_SIGN(+, add) KW_SIGN(-, sub) KW_SIGN(*, mul) KW_SIGN(/, div)
#undef KW_SIGN
inline Tensor cat(const std::vector<Tensor>& parts, int64_t axis = 0) {
  std::vector<kw::Value> given{axis};
  given.insert(given.end(), parts.begin(), parts.end());
  return kw::taken(kw::ask("cat", given));
}
inline Tensor stack(const std::vector<Tensor>& parts, int64_t axis = 0) {
  std::vector<kw::Value> given{axis};
  given.insert(given.end(), parts.begin(), parts.end());
  return kw::taken(kw::ask("stack", given));
}
inline Tensor empty(const Sizes& s, const TensorOptions& o = {}) { return kw::sized("empty", {name_of(o.type)}, s); }
inline Tensor zeros(const Sizes& s, const TensorOptions& o = {}) { return kw::sized("zeros", {name_of(o.type)}, s); }
inline Tensor ones(const Sizes& s, const TensorOptions& o = {}) { return kw::sized("ones", {name_of(o.type)}, s); }
inline Tensor full(const Sizes& s, double v, const TensorOptions& o = {}) { return kw::sized("full", {name_of(o.type), v}, s); }
inline Tensor empty_like(const Tensor& t) { return empty(t.sizes(), t.options()); }
inline Tensor empty_like(const Tensor& t, const TensorOptions& o) { return empty(t.sizes(), o); }
inline Tensor zeros_like(const Tensor& t) { return zeros(t.sizes(), t.options()); }
inline Tensor ones_like(const Tensor& t) { return ones(t.sizes(), t.options()); }
inline Tensor full_like(const Tensor& t, double v) { return full(t.sizes(), v, t.options()); }
inline Tensor zeros_like(const Tensor& t, const TensorOptions& o) { return zeros(t.sizes(), o); }
inline Tensor ones_like(const Tensor& t, const TensorOptions& o) { return ones(t.sizes(), o); }
template <class T, bool = true> using acc_type = std::conditional_t<sizeof(T) == 2 && !std::is_integral_v<T>, float, T>;
template <class T> using opmath_type = acc_type<T>;
inline TensorOptions dtype(ScalarType t) { return TensorOptions(t); }
inline TensorOptions device(Device) { return {}; }

namespace cuda {
struct CUDAStream {
  operator cudaStream_t() const { return nullptr; }
  cudaStream_t stream() const { return nullptr; }
  void synchronize() const {}
};
inline CUDAStream getCurrentCUDAStream(int = 0) { return {}; }
inline CUDAStream getDefaultCUDAStream(int = 0) { return {}; }
inline CUDAStream getStreamFromPool(bool = false, int = 0) { return {}; }
inline cudaDeviceProp* getCurrentDeviceProperties() {
  static cudaDeviceProp facts;
  cudaGetDeviceProperties(&facts, 0);
  return &facts;
}
struct CUDAGuard { template <class T> explicit CUDAGuard(const T&) {} };
struct OptionalCUDAGuard { template <class... T> explicit OptionalCUDAGuard(const T&...) {} };
}  // namespace cuda
inline Device device_of(const Tensor&) { return {}; }
template <class T> T ceil_div(T a, T b) { return (a + b - 1) / b; }
struct NoGradGuard {};
#define KW_ATOMIC(type, body) __device__ inline void gpuAtomicAdd(type* p, type v) { body; } \
  __device__ inline void gpuAtomicAddNoReturn(type* p, type v) { body; }
KW_ATOMIC(float, atomicAdd(p, v)) KW_ATOMIC(double, atomicAdd(p, v)) KW_ATOMIC(int, atomicAdd(p, v))
KW_ATOMIC(int64_t, atomicAdd(reinterpret_cast<unsigned long long*>(p), static_cast<unsigned long long>(v)))
#ifndef KW_NO_HALVES
KW_ATOMIC(Half, atomicAdd(reinterpret_cast<__half*>(p), static_cast<__half>(v)))
KW_ATOMIC(BFloat16, atomicAdd(reinterpret_cast<__nv_bfloat16*>(p), static_cast<__nv_bfloat16>(v)))
#endif
#undef KW_ATOMIC
}  // namespace at
using at::gpuAtomicAdd;
using at::gpuAtomicAddNoReturn;

namespace c10 {
template <class T> using optional = std::optional<T>;
using std::nullopt;
namespace cuda = at::cuda;
}  // namespace c10
namespace torch {
using namespace at;
namespace cuda = at::cuda;
}  // namespace torch

#include "kw_python.h"
