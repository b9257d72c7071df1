// Torch's tensors behind Python's objects, for extension modules that cannot afford a call of Python for each.
//
// A module offers `use`, and is not used where that returns False: torch's objects are then not as known here.
#pragma once
#include <Python.h>

#include <c10/core/TensorImpl.h>

#include <cstring>
#include <exception>
#include <utility>

struct Refused : std::exception {};  // a Python error is set

class Ref {
 public:
  Ref() = default;
  explicit Ref(PyObject* borrowed) : object_(Py_XNewRef(borrowed)) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() { Py_XDECREF(object_); }
  static Ref taken(PyObject* owned) {
    Ref ref;
    ref.object_ = owned;
    return ref;
  }
  PyObject* get() const { return object_; }

 private:
  PyObject* object_ = nullptr;
};

inline PyTypeObject* tensor_type = nullptr;
inline PyTypeObject* parameter_type = nullptr;
inline size_t impl_offset = 0;  // of the pointer to the implementation in torch's Python object

inline c10::TensorImpl& impl_of(PyObject* tensor) {
  c10::TensorImpl* impl;
  std::memcpy(&impl, reinterpret_cast<const char*>(tensor) + impl_offset, sizeof(impl));
  return *impl;
}

inline bool is_tensor(PyObject* value) { return Py_TYPE(value) == tensor_type; }
inline bool is_parameter(PyObject* value) { return Py_TYPE(value) == parameter_type; }

template <typename Made>
void each(PyObject* items, const char* what, Made made) {
  const Ref list = Ref::taken(PySequence_Fast(items, what));
  if (list.get() == nullptr) throw Refused();
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(list.get()); ++i) made(PySequence_Fast_GET_ITEM(list.get(), i));
}

template <typename Body>
PyObject* guarded(Body body) {
  try {
    return body();
  } catch (const Refused&) {
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

// Learns how torch's Python objects hold their tensors; false if not as known here.
inline PyObject* use(PyObject*, PyObject* args) {
  PyObject *tensor, *parameter;
  unsigned long long of_tensor, of_parameter;
  if (!PyArg_ParseTuple(args, "OKOK", &tensor, &of_tensor, &parameter, &of_parameter)) return nullptr;
  const auto at = [](PyObject* object, size_t offset) {
    uintptr_t word;
    std::memcpy(&word, reinterpret_cast<const char*>(object) + offset, sizeof(word));
    return word;
  };
  for (size_t offset = sizeof(PyObject); offset < sizeof(PyObject) + 4 * sizeof(void*); offset += sizeof(void*)) {
    if (at(tensor, offset) == of_tensor && at(parameter, offset) == of_parameter) {
      impl_offset = offset;
      tensor_type = Py_TYPE(tensor);
      parameter_type = Py_TYPE(parameter);
      Py_RETURN_TRUE;
    }
  }
  Py_RETURN_FALSE;
}
