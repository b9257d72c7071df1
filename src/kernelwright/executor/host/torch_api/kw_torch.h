// What host code of CUDA extensions uses of torch's C++ API, for tensors of the CPU that stand in for a GPU's. Everything
// that computes or allocates is asked of Python (`inline.py`). What is not declared here does not compile.
#pragma once
#include "kw_types.h"

namespace at {
using namespace c10;
class Tensor;
namespace kw {
struct Value : TVMFFIAny {
  Value() { zero(kTVMFFINone); }
  Value(int64_t v) { zero(kTVMFFIInt); v_int64 = v; }
  Value(int v) : Value(int64_t(v)) {}
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
  Device type_device() const { return Device(); }
  Device type() const { return Device(); }
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
  Tensor view(const Sizes& s) const;
  Tensor reshape(const Sizes& s) const;
  Tensor flatten() const { return kw::op("flatten", *this); }
  Tensor t() const { return kw::op("t", *this); }
  Tensor transpose(int64_t a, int64_t b) const { return kw::op("transpose", *this, a, b); }
  Tensor squeeze(int64_t a) const { return kw::op("squeeze", *this, a); }
  Tensor unsqueeze(int64_t a) const { return kw::op("unsqueeze", *this, a); }
  Tensor permute(const Sizes& s) const;
  Tensor sum() const { return kw::op("sum", *this); }
  Tensor& zero_() { kw::op("zero_", *this); return *this; }
  Tensor& fill_(double v) { kw::op("fill_", *this, v); return *this; }
  Tensor& copy_(const Tensor& other) { kw::op("copy_", *this, other); return *this; }
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
inline Tensor empty(const Sizes& s, const TensorOptions& o = {}) { return kw::sized("empty", {name_of(o.type)}, s); }
inline Tensor zeros(const Sizes& s, const TensorOptions& o = {}) { return kw::sized("zeros", {name_of(o.type)}, s); }
inline Tensor ones(const Sizes& s, const TensorOptions& o = {}) { return kw::sized("ones", {name_of(o.type)}, s); }
inline Tensor full(const Sizes& s, double v, const TensorOptions& o = {}) { return kw::sized("full", {name_of(o.type), v}, s); }
inline Tensor empty_like(const Tensor& t) { return empty(t.sizes(), t.options()); }
inline Tensor empty_like(const Tensor& t, const TensorOptions& o) { return empty(t.sizes(), o); }
inline Tensor zeros_like(const Tensor& t) { return zeros(t.sizes(), t.options()); }
inline Tensor ones_like(const Tensor& t) { return ones(t.sizes(), t.options()); }
inline Tensor full_like(const Tensor& t, double v) { return full(t.sizes(), v, t.options()); }
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
}  // namespace at

namespace c10 {
template <class T> using optional = std::optional<T>;
using std::nullopt;
namespace cuda = at::cuda;
}  // namespace c10
namespace torch {
using namespace at;
namespace cuda = at::cuda;
}  // namespace torch

#define TORCH_CHECK(condition, ...) do { if (!(condition)) ::c10::fail(#condition, ##__VA_ARGS__); } while (0)
#define TORCH_INTERNAL_ASSERT TORCH_CHECK
#define AT_ASSERTM TORCH_CHECK
#define AT_ASSERT TORCH_CHECK
#define AT_ERROR(...) ::c10::fail("", ##__VA_ARGS__)
#define C10_CUDA_CHECK(call) do { cudaError_t kw_e = (call); if (kw_e) ::c10::fail("", "CUDA error: ", cudaGetErrorString(kw_e)); } while (0)
#define AT_CUDA_CHECK C10_CUDA_CHECK
#define C10_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_CHECK(cudaGetLastError())
#define KW_CASE(name, type, ...) case ::c10::ScalarType::name: { using scalar_t = type; return __VA_ARGS__(); }
#define KW_SWITCH(given, label, ...)                                                               \
  [&] {                                                                                            \
    const ::c10::ScalarType kw_type = (given);                                                     \
    switch (kw_type) { __VA_ARGS__ default: ::c10::fail("", label, " not implemented for ", kw_type); } \
  }()
#define KW_FLOATING(...) KW_CASE(Float, float, __VA_ARGS__) KW_CASE(Double, double, __VA_ARGS__)
#define KW_INTEGRAL(...) KW_CASE(Int, int32_t, __VA_ARGS__) KW_CASE(Long, int64_t, __VA_ARGS__) KW_CASE(Short, int16_t, __VA_ARGS__) \
  KW_CASE(Char, int8_t, __VA_ARGS__) KW_CASE(Byte, uint8_t, __VA_ARGS__)
#define KW_HALVES(...) KW_CASE(Half, ::c10::Half, __VA_ARGS__) KW_CASE(BFloat16, ::c10::BFloat16, __VA_ARGS__)
#define AT_DISPATCH_FLOATING_TYPES(t, n, ...) KW_SWITCH(t, n, KW_FLOATING(__VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND_HALF(t, n, ...) KW_SWITCH(t, n, KW_FLOATING(__VA_ARGS__) KW_CASE(Half, ::c10::Half, __VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND2(a, b, t, n, ...) KW_SWITCH(t, n, KW_FLOATING(__VA_ARGS__) KW_HALVES(__VA_ARGS__))
#define AT_DISPATCH_INTEGRAL_TYPES(t, n, ...) KW_SWITCH(t, n, KW_INTEGRAL(__VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES(t, n, ...) KW_SWITCH(t, n, KW_FLOATING(__VA_ARGS__) KW_INTEGRAL(__VA_ARGS__))

// ---- functions that Python calls ---------------------------------------------------------------------------------

namespace pybind11 {
struct arg {
  explicit arg(const char*) {}
  template <class T> arg& operator=(const T&) { return *this; }
};
struct module_ {
  struct Function {
    const char* name;
    void (*f)();
    void (*with)(void (*f)(), const TVMFFIAny* given, int count);
  };
  std::vector<Function> functions;
  template <class R, class... A, class... Rest> void def(const char* name, R (*f)(A...), const Rest&...) {
    functions.push_back({name, reinterpret_cast<void (*)()>(f), [](void (*held)(), const TVMFFIAny* given, int count) {
      if (count != int(sizeof...(A))) ::c10::fail("", "the function takes ", sizeof...(A), " arguments, not ", count);
      call(reinterpret_cast<R (*)(A...)>(held), given, std::index_sequence_for<A...>());
    }});
  }
  const char* doc = "";
  const char* const& operator()() const { return doc; }

 private:
  template <class T> static std::decay_t<T> from(const TVMFFIAny& v) {
    using D = std::decay_t<T>;
    if constexpr (std::is_same_v<D, at::Tensor>) {
      if (v.type_index == kTVMFFINone) return D();
      if (v.type_index != kTVMFFITensor) ::c10::fail("", "expected a tensor");
      return at::Tensor::of(v.v_obj);
    } else if constexpr (std::is_same_v<D, std::optional<at::Tensor>>) {
      return v.type_index == kTVMFFINone ? D() : D(from<at::Tensor>(v));
    } else {
      static_assert(std::is_arithmetic_v<D>, "not executed: an argument that is no tensor and no number");
      if (v.type_index == kTVMFFIFloat) return D(v.v_float64);
      if (v.type_index != kTVMFFIInt && v.type_index != kTVMFFIBool) ::c10::fail("", "expected a number");
      return D(v.v_int64);
    }
  }
  static at::kw::Value to(const at::Tensor& t) { return t; }
  template <class T, std::enable_if_t<std::is_floating_point_v<T>, int> = 0> static at::kw::Value to(T v) { return double(v); }
  template <class T, std::enable_if_t<std::is_integral_v<T>, int> = 0> static at::kw::Value to(T v) { return int64_t(v); }
  template <class R> static void give(const R& r) { at::kw::ask("return", {to(r)}); }
  static void give(const std::vector<at::Tensor>& r) { at::kw::ask("return_list", {r.begin(), r.end()}); }
  template <class... T> static void give(const std::tuple<T...>& r) {
    std::apply([](const T&... each) { at::kw::ask("return_tuple", {to(each)...}); }, r);
  }
  template <class R, class... A, size_t... I> static void call(R (*f)(A...), const TVMFFIAny* given, std::index_sequence<I...>) {
    if constexpr (std::is_void_v<R>) f(from<A>(given[I])...);
    else give(f(from<A>(given[I])...));
  }
};
using module = module_;
inline module_& the_module() { static module_ m; return m; }
}  // namespace pybind11
namespace py = pybind11;

#define PYBIND11_MODULE(name, m)                              \
  static void kw_define(pybind11::module_& m);                \
  static int kw_defined = (kw_define(pybind11::the_module()), 0); \
  static void kw_define(pybind11::module_& m)
#define TORCH_EXTENSION_NAME kw_extension

extern "C" __attribute__((visibility("default"))) int __tvm_ffi_kw_extension(void*, const TVMFFIAny* given, int32_t count,
                                                                                  TVMFFIAny* result) {
  try {
    result->type_index = kTVMFFINone, result->zero_padding = 0, result->v_int64 = 0;
    const auto& called = pybind11::the_module().functions[size_t(given[0].v_int64)];
    called.with(called.f, given + 1, count - 1);
    return 0;
  } catch (const c10::Raised&) {
    return -1;
  } catch (const std::exception& error) {
    TVMFFIErrorSetRaisedFromCStr("RuntimeError", error.what());
    return -1;
  }
}
extern "C" __attribute__((visibility("default"))) const char* kw_functions() {
  static std::string names;
  names.clear();
  for (const auto& f : pybind11::the_module().functions) names += std::string(f.name) + "\n";
  return names.c_str();
}
