// Calls of an op that its kernel served, remembered, so that the next one alike goes straight to the kernel.
//
// `Served(kernel, differentiable)` stands for the kernel at that address. Called as the op, it allocates outputs as they
// were, runs the kernel and returns them, where a call alike was remembered; it returns None otherwise, and where the
// kernel refuses: then Python decides. `remember(arguments, outputs)` keeps a call; few are kept, the oldest goes first.
//
// Alike: of each tensor the type, dispatch keys, dtype, sizes and strides; of each number the type and the value; dispatch
// keys of the thread (transforms, modes, inference mode); no gradient is wanted of an op that has them. An op's checks and
// its guard must depend on nothing else. Tensors are plain ones of the CPU.
#include "python_tensors.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/AutogradState.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <tvm/ffi/c_api.h>

#include <array>
#include <memory>
#include <optional>
#include <vector>

PyObject* THPVariable_Wrap(const at::TensorBase& tensor);  // torch's

namespace {

constexpr size_t kKept = 8;
constexpr Py_ssize_t kMost = 24;  // arguments and outputs of a call
using Kernel = int (*)(void*, const TVMFFIAny*, int32_t, TVMFFIAny*);

const c10::DispatchKeySet kPlain(
    {c10::DispatchKey::CPU, c10::DispatchKey::AutogradCPU, c10::DispatchKey::ADInplaceOrView, c10::DispatchKey::AutocastCPU});

std::optional<DLDataType> element_of(caffe2::TypeMeta type) {
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

TVMFFIAny any_of(int32_t type, int64_t bits) {
  TVMFFIAny any{};
  any.type_index = type;
  any.v_int64 = bits;
  return any;
}

// What a kernel is given for None, a flag or a number; nothing for anything else.
std::optional<TVMFFIAny> scalar_of(PyObject* given) {
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

bool plain(PyObject* given) {
  if (!is_tensor(given) && !is_parameter(given)) return false;
  const auto& impl = impl_of(given);
  return (impl.key_set() | kPlain) == kPlain && impl.layout() == c10::kStrided && impl.device().is_cpu() &&
         element_of(impl.dtype()).has_value();
}

struct Argument {
  PyTypeObject* type = nullptr;  // of a tensor; none of a number
  TVMFFIAny value{};
  c10::DispatchKeySet keys;
  caffe2::TypeMeta dtype;
  DLDataType element{};
  std::vector<int64_t> sizes, strides;

  explicit Argument(PyObject* tensor) : type(Py_TYPE(tensor)) {
    const auto& impl = impl_of(tensor);
    keys = impl.key_set();
    dtype = impl.dtype();
    element = *element_of(dtype);
    sizes = impl.sizes().vec();
    strides = impl.strides().vec();
  }
  explicit Argument(TVMFFIAny number) : value(number) {}

  bool same(PyObject* given, bool gradients) const {
    if (type == nullptr) {
      const auto number = scalar_of(given);
      return number && number->type_index == value.type_index && number->v_int64 == value.v_int64;
    }
    if (Py_TYPE(given) != type) return false;
    const auto& impl = impl_of(given);
    return impl.key_set() == keys && impl.dtype() == dtype && impl.sizes() == c10::IntArrayRef(sizes) &&
           impl.strides() == c10::IntArrayRef(strides) && !(gradients && impl.requires_grad());
  }
};

struct Output {
  std::vector<int64_t> sizes;
  at::ScalarType dtype;
  DLDataType element;
};

struct Call {
  c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
  std::vector<Argument> arguments;
  std::vector<Output> outputs;
  bool several = false;  // outputs are a tuple

  bool same(PyObject* args, const c10::impl::LocalDispatchKeySet& now, bool gradients) const {
    if (static_cast<size_t>(PyTuple_GET_SIZE(args)) != arguments.size()) return false;
    if (now.included_ != keys.included_ || now.excluded_ != keys.excluded_) return false;
    for (size_t i = 0; i < arguments.size(); ++i)
      if (!arguments[i].same(PyTuple_GET_ITEM(args, static_cast<Py_ssize_t>(i)), gradients)) return false;
    return true;
  }
};

DLTensor view_of(const c10::TensorImpl& impl, DLDataType element) {
  DLTensor view{};
  view.data = const_cast<void*>(impl.data());
  view.device = {kDLCPU, 0};
  view.ndim = static_cast<int32_t>(impl.dim());
  view.dtype = element;
  view.shape = const_cast<int64_t*>(impl.sizes().data());
  view.strides = const_cast<int64_t*>(impl.strides().data());
  return view;
}

struct Served {
  PyObject_HEAD
  Kernel kernel;
  bool differentiable;
  std::array<std::shared_ptr<const Call>, kKept>* calls;
  size_t next;
};

Served& self_of(PyObject* self) { return *reinterpret_cast<Served*>(self); }

PyObject* make(PyTypeObject* type, PyObject* args, PyObject*) {
  return guarded([&]() -> PyObject* {
    unsigned long long kernel;
    int differentiable;
    if (!PyArg_ParseTuple(args, "Kp", &kernel, &differentiable)) return nullptr;
    PyObject* self = type->tp_alloc(type, 0);
    if (self == nullptr) return nullptr;
    self_of(self).kernel = reinterpret_cast<Kernel>(kernel);
    self_of(self).differentiable = differentiable;
    self_of(self).calls = new std::array<std::shared_ptr<const Call>, kKept>();
    return self;
  });
}

// Whether it is a tensor of its own memory, and of no call's arguments.
bool fresh(PyObject* given, PyObject* arguments) {
  if (!is_tensor(given) || !plain(given) || !impl_of(given).is_contiguous()) return false;
  if (impl_of(given).storage_offset() != 0 || impl_of(given).requires_grad()) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(arguments); ++i)
    if (PyTuple_GET_ITEM(arguments, i) == given) return false;
  return true;
}

PyObject* remember(PyObject* self, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *arguments, *outputs;
    if (!PyArg_ParseTuple(args, "O!O", &PyTuple_Type, &arguments, &outputs)) return nullptr;
    auto call = std::make_shared<Call>();
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(arguments); ++i) {
      PyObject* given = PyTuple_GET_ITEM(arguments, i);
      if (const auto number = scalar_of(given)) call->arguments.emplace_back(*number);
      else if (plain(given)) call->arguments.emplace_back(given);
      else Py_RETURN_NONE;
    }
    call->several = PyTuple_CheckExact(outputs);
    const Py_ssize_t count = call->several ? PyTuple_GET_SIZE(outputs) : 1;
    if (PyTuple_GET_SIZE(arguments) + count > kMost) Py_RETURN_NONE;
    for (Py_ssize_t i = 0; i < count; ++i) {
      PyObject* one = call->several ? PyTuple_GET_ITEM(outputs, i) : outputs;
      if (!fresh(one, arguments)) Py_RETURN_NONE;
      const auto& impl = impl_of(one);
      call->outputs.push_back({impl.sizes().vec(), impl.dtype().toScalarType(), *element_of(impl.dtype())});
    }
    Served& served = self_of(self);
    (*served.calls)[served.next] = std::move(call);
    served.next = (served.next + 1) % kKept;
    Py_RETURN_NONE;
  });
}

// Runs the kernel on new outputs; none where it refuses.
std::optional<std::vector<at::TensorBase>> run(Kernel kernel, const Call& call, PyObject* args) {
  std::vector<at::TensorBase> outputs;
  outputs.reserve(call.outputs.size());
  TVMFFIAny values[kMost], result{};
  DLTensor views[kMost];
  int32_t count = 0;
  const auto give = [&](const c10::TensorImpl& impl, DLDataType element) {
    views[count] = view_of(impl, element);
    values[count] = any_of(kTVMFFIDLTensorPtr, 0);
    values[count].v_ptr = &views[count];
    ++count;
  };
  for (size_t i = 0; i < call.arguments.size(); ++i) {
    const Argument& argument = call.arguments[i];
    if (argument.type == nullptr) values[count++] = argument.value;
    else give(impl_of(PyTuple_GET_ITEM(args, static_cast<Py_ssize_t>(i))), argument.element);
  }
  for (const auto& output : call.outputs) {
    outputs.push_back(at::detail::empty_cpu(output.sizes, output.dtype));
    give(*outputs.back().unsafeGetTensorImpl(), output.element);
  }
  int failed;
  Py_BEGIN_ALLOW_THREADS;
  failed = kernel(nullptr, values, count, &result);
  Py_END_ALLOW_THREADS;
  if (failed == 0) return outputs;
  TVMFFIObjectHandle error = nullptr;
  TVMFFIErrorMoveFromRaised(&error);  // Python calls again, and raises it as it should be
  if (error != nullptr) TVMFFIObjectDecRef(error);
  return std::nullopt;
}

PyObject* wrapped(const Call& call, const std::vector<at::TensorBase>& outputs) {
  if (!call.several) return THPVariable_Wrap(outputs[0]);
  const Ref tuple = Ref::taken(PyTuple_New(static_cast<Py_ssize_t>(outputs.size())));
  if (tuple.get() == nullptr) return nullptr;
  for (size_t i = 0; i < outputs.size(); ++i) {
    PyObject* one = THPVariable_Wrap(outputs[i]);
    if (one == nullptr) return nullptr;
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), one);
  }
  return Py_NewRef(tuple.get());
}

PyObject* call(PyObject* self, PyObject* args, PyObject*) {
  return guarded([&]() -> PyObject* {
    const Served& served = self_of(self);
    const auto keys = c10::impl::tls_local_dispatch_key_set();
    const bool gradients = served.differentiable && c10::AutogradState::get_tls_state().get_grad_mode();
    for (const auto& one : *served.calls) {
      if (one == nullptr || !one->same(args, keys, gradients)) continue;
      const auto known = one;  // another thread may take its place while the kernel runs
      const auto outputs = run(served.kernel, *known, args);
      if (outputs) return wrapped(*known, *outputs);
      break;
    }
    Py_RETURN_NONE;
  });
}

void dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  delete self_of(self).calls;
  type->tp_free(self);
  Py_DECREF(type);
}

PyMethodDef of_served[] = {{"remember", remember, METH_VARARGS, nullptr}, {nullptr, nullptr, 0, nullptr}};
PyMethodDef of_module[] = {{"use", use, METH_VARARGS, nullptr}, {nullptr, nullptr, 0, nullptr}};
PyType_Slot slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(make)},         {Py_tp_call, reinterpret_cast<void*>(call)},
    {Py_tp_methods, reinterpret_cast<void*>(of_served)}, {Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
    {0, nullptr},
};
PyType_Spec spec = {"served.Served", sizeof(Served), 0, Py_TPFLAGS_DEFAULT, slots};
PyModuleDef module = {PyModuleDef_HEAD_INIT, "served", nullptr, -1, of_module, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_served() {
  PyObject* made = PyModule_Create(&module);
  PyObject* type = made == nullptr ? nullptr : PyType_FromSpec(&spec);
  return type == nullptr || PyModule_AddObject(made, "Served", type) < 0 ? nullptr : made;
}
