// Arguments of calls told apart by all that may decide what becomes of them but what lies in tensors.
//
// Of a tensor the type, dispatch keys, dtype, sizes and strides; of a number, a word, and a list or tuple of numbers the
// type and the value; of an object whose class says `by_value` its equality; of one whose class says `by_fields`, a tuple
// of names that are set once, all of these. Tensors are plain ones of the CPU, or matrices in CSR form of such.
#pragma once
#include "python_tensors.h"

#include <ATen/SparseCsrTensorImpl.h>
#include <tvm/ffi/c_api.h>

#include <array>
#include <optional>
#include <vector>

namespace alike {

inline const c10::DispatchKeySet kPlain(
    {c10::DispatchKey::CPU, c10::DispatchKey::AutogradCPU, c10::DispatchKey::ADInplaceOrView, c10::DispatchKey::AutocastCPU});

inline const c10::DispatchKeySet kPlainCsr({c10::DispatchKey::SparseCsrCPU, c10::DispatchKey::AutogradCPU,
                                     c10::DispatchKey::ADInplaceOrView, c10::DispatchKey::AutocastCPU});

inline std::optional<DLDataType> element_of(caffe2::TypeMeta type) {
  const auto of = [](int code, int bits) {
    return DLDataType{static_cast<uint8_t>(code), static_cast<uint8_t>(bits), 1};
  };
  if (type == caffe2::TypeMeta::Make<float>()) return of(kDLFloat, 32);
  if (type == caffe2::TypeMeta::Make<c10::BFloat16>()) return of(kDLBfloat, 16);
  if (type == caffe2::TypeMeta::Make<c10::Half>()) return of(kDLFloat, 16);
  if (type == caffe2::TypeMeta::Make<double>()) return of(kDLFloat, 64);
  if (type == caffe2::TypeMeta::Make<int64_t>()) return of(kDLInt, 64);
  if (type == caffe2::TypeMeta::Make<int32_t>()) return of(kDLInt, 32);
  if (type == caffe2::TypeMeta::Make<int8_t>()) return of(kDLInt, 8);
  if (type == caffe2::TypeMeta::Make<uint8_t>()) return of(kDLUInt, 8);
  if (type == caffe2::TypeMeta::Make<bool>()) return of(kDLBool, 8);
  return std::nullopt;
}

inline TVMFFIAny any_of(int32_t type, int64_t bits) {
  TVMFFIAny any{};
  any.type_index = type;
  any.v_int64 = bits;
  return any;
}

// What a kernel is given for None, a flag or a number; nothing for anything else.
inline std::optional<TVMFFIAny> scalar_of(PyObject* given) {
  if (given == Py_None) return any_of(kTVMFFINone, 0);
  if (PyBool_Check(given)) return any_of(kTVMFFIBool, given == Py_True);
  if (PyLong_CheckExact(given)) {
    int beyond = 0;
    const long long value = PyLong_AsLongLongAndOverflow(given, &beyond);
    if (beyond == 0) return any_of(kTVMFFIInt, value);
  }
  if (PyFloat_CheckExact(given)) {
    const double value = PyFloat_AS_DOUBLE(given);
    int64_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    return any_of(kTVMFFIFloat, bits);
  }
  return std::nullopt;
}

// The one implementation of a plain tensor, or the three of a matrix in CSR form: beginnings of rows, columns, values.
struct Parts {
  std::array<const c10::TensorImpl*, 3> of{};
  size_t count = 1;
  explicit Parts(PyObject* tensor) {
    of[0] = &impl_of(tensor);
    if (of[0]->layout() == c10::kStrided) return;
    const auto& csr = static_cast<const at::SparseCsrTensorImpl&>(*of[0]);
    of = {csr.compressed_indices().unsafeGetTensorImpl(), csr.plain_indices().unsafeGetTensorImpl(),
          csr.values().unsafeGetTensorImpl()};
    count = 3;
  }
};

inline bool plain(const c10::TensorImpl& impl) {
  return (impl.key_set() | kPlain) == kPlain && impl.layout() == c10::kStrided && impl.device().is_cpu() &&
         element_of(impl.dtype()).has_value();
}
inline bool served(PyObject* given) {
  if (!is_tensor(given) && !is_parameter(given)) return false;
  if (impl_of(given).layout() == c10::kStrided) return plain(impl_of(given));
  if (impl_of(given).layout() != c10::kSparseCsr || (impl_of(given).key_set() | kPlainCsr) != kPlainCsr) return false;
  const Parts parts(given);
  return plain(*parts.of[0]) && plain(*parts.of[1]) && plain(*parts.of[2]);
}

// How a tensor lies in memory, and what becomes of calls with it.
struct Shape {
  c10::DispatchKeySet keys;
  caffe2::TypeMeta dtype;
  std::vector<int64_t> sizes, strides;

  explicit Shape(const c10::TensorImpl& impl) : keys(impl.key_set()), dtype(impl.dtype()), sizes(impl.sizes().vec()) {
    if (impl.layout() == c10::kStrided) strides = impl.strides().vec();
  }
  bool same(const c10::TensorImpl& impl, bool gradients) const {
    return impl.key_set() == keys && impl.dtype() == dtype && impl.sizes() == c10::IntArrayRef(sizes) &&
           (impl.layout() != c10::kStrided || impl.strides() == c10::IntArrayRef(strides)) &&
           !(gradients && impl.requires_grad());
  }
};

// What an object's class says of it under this name; none if nothing.
inline PyObject* said_of(PyObject* given, const char* name) {
  return PyDict_GetItemString(Py_TYPE(given)->tp_dict, name);
}
inline bool by_value(PyObject* given) { return PyType_Check(given) || said_of(given, "by_value") == Py_True; }

// What a call was given in one place: a number, a tensor's shape, numbers in a row, or what never has another value.
class Argument {
 public:
  static std::optional<Argument> of(PyObject* given) {
    Argument made;
    made.type_ = Py_TYPE(given);
    if (const auto number = scalar_of(given)) {
      made.type_ = nullptr;
      made.numbers_.push_back(*number);
    } else if (served(given)) {
      const Parts parts(given);
      made.shapes_.emplace_back(impl_of(given));
      for (size_t i = 0; parts.count > 1 && i < parts.count; ++i) made.shapes_.emplace_back(*parts.of[i]);
    } else if (PyTuple_CheckExact(given) || PyList_CheckExact(given)) {
      made.list_ = true;
      for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(given); ++i) {
        const auto one = scalar_of(PySequence_Fast_GET_ITEM(given, i));
        if (!one) return std::nullopt;
        made.numbers_.push_back(*one);
      }
    } else if (PyUnicode_CheckExact(given) || by_value(given)) {
      made.value_ = Ref(given);
    } else {
      return std::nullopt;
    }
    return made;
  }

  bool same(PyObject* given, bool gradients) const {
    if (type_ == nullptr) return same_number(numbers_[0], given);
    if (Py_TYPE(given) != type_) return false;
    if (list_) {
      const Py_ssize_t count = PySequence_Fast_GET_SIZE(given);
      if (static_cast<size_t>(count) != numbers_.size()) return false;
      for (Py_ssize_t i = 0; i < count; ++i)
        if (!same_number(numbers_[static_cast<size_t>(i)], PySequence_Fast_GET_ITEM(given, i))) return false;
      return true;
    }
    if (shapes_.empty()) {
      const int equal = PyObject_RichCompareBool(given, value_.get(), Py_EQ);
      if (equal < 0) throw Refused();
      return equal == 1;
    }
    if (!shapes_[0].same(impl_of(given), gradients)) return false;
    const Parts parts(given);
    for (size_t i = 1; i < shapes_.size(); ++i)
      if (!shapes_[i].same(*parts.of[i - 1], gradients)) return false;
    return true;
  }
  bool is_tensor() const { return !shapes_.empty(); }

 private:
  static bool same_number(TVMFFIAny one, PyObject* given) {
    const auto number = scalar_of(given);
    return number && number->type_index == one.type_index && number->v_int64 == one.v_int64;
  }
  PyTypeObject* type_ = nullptr;  // none of a number
  bool list_ = false;
  std::vector<TVMFFIAny> numbers_;
  std::vector<Shape> shapes_;
  Ref value_;
};

// What the kernel sees of memory.
struct View {
  std::vector<int64_t> sizes, strides;
  DLDataType element{};

  View() = default;
  explicit View(const c10::TensorImpl& impl)
      : sizes(impl.sizes().vec()), strides(impl.strides().vec()), element(*element_of(impl.dtype())) {}
  DLTensor at(const void* data) const {
    DLTensor view{};
    view.data = const_cast<void*>(data);
    view.device = {kDLCPU, 0};
    view.ndim = static_cast<int32_t>(sizes.size());
    view.dtype = element;
    view.shape = const_cast<int64_t*>(sizes.data());
    view.strides = const_cast<int64_t*>(strides.data());
    return view;
  }
};

}  // namespace alike
