// Calls that one run of a kernel answered, remembered, so that the next one alike goes straight to the kernel.
//
// `Served(differentiable)` is called as the op or the function is. Where a call alike was remembered it allocates
// outputs as they were, runs the kernel and returns them; it returns None otherwise, and where the kernel refuses: then
// Python decides. `remember(kernel, args, kwargs, given, outputs, result, number)` keeps a call if what the kernel was given is of its
// arguments, and its result is what the kernel wrote; few are kept, the oldest goes first. `number` is what was chosen for the call,
// which the kernel is given behind its outputs; below 0 nothing is.
//
// Alike: the same names and number of arguments, which `alike.h` compares; dispatch keys of the thread (transforms, modes,
// inference mode); no gradient is wanted of what has them. Checks, guards and functions must depend on nothing else.
#include "alike.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/AutogradState.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <memory>

PyObject* THPVariable_Wrap(const at::TensorBase& tensor);  // torch's

namespace {

using namespace alike;

constexpr size_t kKept = 8;
constexpr Py_ssize_t kMost = 24;  // arguments and outputs of a call
using Kernel = int (*)(void*, const TVMFFIAny*, int32_t, TVMFFIAny*);

// One argument of the kernel: a number, a part of an argument of the call, or a tensor that is the same in every call.
struct Given {
  TVMFFIAny value{};
  int argument = -1;
  size_t part = 0;
  int64_t apart = 0;  // bytes from where the part begins
  View view;
  Ref fixed;
};

struct Output {
  std::vector<int64_t> sizes;  // of the tensor that is returned
  at::ScalarType dtype;
  View view;
};

// The arguments of a call in order, those by name last; instead of an object that is as its fields its class and they.
struct Arguments {
  PyObject *args, *kwargs;
  template <typename Body>
  bool each(Body body) const {  // body(name or none, argument), as long as it returns true
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i)
      if (!one(nullptr, PyTuple_GET_ITEM(args, i), body)) return false;
    PyObject *name, *value;
    for (Py_ssize_t at = 0; kwargs != nullptr && PyDict_Next(kwargs, &at, &name, &value);)
      if (!one(name, value, body)) return false;
    return true;
  }

 private:
  template <typename Body>
  static bool one(PyObject* name, PyObject* value, Body& body) {
    PyObject* fields = is_tensor(value) || value == Py_None ? nullptr : said_of(value, "by_fields");
    if (fields == nullptr || !PyTuple_CheckExact(fields)) return body(name, value);
    if (!body(name, reinterpret_cast<PyObject*>(Py_TYPE(value)))) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(fields); ++i) {
      const Ref field = Ref::taken(PyObject_GetAttr(value, PyTuple_GET_ITEM(fields, i)));  // the object holds it
      if (field.get() == nullptr) throw Refused();
      if (!body(nullptr, field.get())) return false;
    }
    return true;
  }
};

struct Call {
  Kernel kernel = nullptr;
  c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
  std::vector<Ref> names;  // none of an argument by place
  std::vector<Argument> arguments;
  std::vector<size_t> twins;  // where the same object was given first
  std::vector<Given> given;
  std::vector<Output> outputs;
  std::vector<size_t> returned;
  bool several = false;  // what is returned is a tuple
  int64_t number = -1;   // that was chosen for the call

  bool same(const Arguments& now, const c10::impl::LocalDispatchKeySet& set, bool gradients) const {
    if (set.included_ != keys.included_ || set.excluded_ != keys.excluded_) return false;
    std::array<PyObject*, kMost> seen{};
    size_t i = 0;
    const bool all = now.each([&](PyObject* name, PyObject* value) {
      if (i == arguments.size()) return false;
      PyObject* known = names[i].get();
      if (name != known && (name == nullptr || known == nullptr || PyUnicode_Compare(name, known) != 0)) return false;
      seen[i] = value;
      if (seen[twins[i]] != value) return false;
      return arguments[i++].same(value, gradients);
    });
    return all && i == arguments.size();
  }
};

struct Served {
  PyObject_HEAD
  bool differentiable;
  std::array<std::shared_ptr<const Call>, kKept>* calls;
  size_t next;
};

Served& self_of(PyObject* self) { return *reinterpret_cast<Served*>(self); }

PyObject* make(PyTypeObject* type, PyObject* args, PyObject*) {
  return guarded([&]() -> PyObject* {
    int differentiable;
    if (!PyArg_ParseTuple(args, "p", &differentiable)) return nullptr;
    PyObject* self = type->tp_alloc(type, 0);
    if (self == nullptr) return nullptr;
    self_of(self).differentiable = differentiable;
    self_of(self).calls = new std::array<std::shared_ptr<const Call>, kKept>();
    return self;
  });
}

bool same_memory(const c10::TensorImpl& one, const c10::TensorImpl& other) {
  return one.unsafe_storage().unsafeGetStorageImpl() == other.unsafe_storage().unsafeGetStorageImpl();
}

int64_t begin_of(const c10::TensorImpl& impl) {
  return impl.storage_offset() * static_cast<int64_t>(impl.dtype().itemsize());
}

// Counts the arguments in whose memory a tensor lies, and notes the last.
int owners(Given& made, const c10::TensorImpl& impl, const std::vector<PyObject*>& arguments) {
  int count = 0;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == nullptr) continue;
    const Parts parts(arguments[i]);
    for (size_t part = 0; part < parts.count; ++part) {
      if (!same_memory(*parts.of[part], impl)) continue;
      ++count;
      made.argument = static_cast<int>(i), made.part = part;
      made.apart = begin_of(impl) - begin_of(*parts.of[part]);
    }
  }
  return count;
}

// Whether it is a tensor of its own memory that nothing has written since the kernel did.
bool fresh(PyObject* given) {
  if (!is_tensor(given) || !plain(impl_of(given))) return false;
  const auto& impl = impl_of(given);
  const auto& version = impl.version_counter();
  return impl.is_contiguous() && impl.storage_offset() == 0 && !impl.requires_grad() &&
         !(version.enabled() && version.current_version() != 0);
}

// The places of what was given to the kernel among the arguments; false if some of it is of no argument.
bool learn_given(Call& call, PyObject* given, const std::vector<PyObject*>& arguments, bool in_order) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(given); ++i) {
    PyObject* one = PyTuple_GET_ITEM(given, i);
    Given made;
    if (const auto number = scalar_of(one)) {
      made.value = *number;
    } else if (!served(one) || impl_of(one).layout() != c10::kStrided) {
      return false;
    } else {
      made.view = View(impl_of(one));
      if (in_order) made.argument = static_cast<int>(i);
      else if (PyObject_HasAttrString(one, "is_fixed")) made.fixed = Ref(one);
      else if (owners(made, impl_of(one), arguments) != 1) return false;
    }
    call.given.push_back(std::move(made));
  }
  return true;
}

// What the kernel wrote, and which of it is returned, in which shape; false if anything else is.
bool learn_outputs(Call& call, PyObject* outputs, PyObject* result, const std::vector<PyObject*>& arguments) {
  const auto each_of = [](PyObject* some, auto body) {
    const bool many = PyTuple_CheckExact(some);
    for (Py_ssize_t i = 0; i < (many ? PyTuple_GET_SIZE(some) : 1); ++i)
      if (!body(many ? PyTuple_GET_ITEM(some, i) : some)) return false;
    return true;
  };
  std::vector<const c10::TensorImpl*> written;
  const bool own = each_of(outputs, [&](PyObject* one) {
    if (!fresh(one)) return false;
    const auto& impl = impl_of(one);
    Given none;
    if (owners(none, impl, arguments) != 0) return false;
    written.push_back(&impl);
    call.outputs.push_back({impl.sizes().vec(), impl.dtype().toScalarType(), View(impl)});
    return true;
  });
  call.several = PyTuple_CheckExact(result);
  return own && each_of(result, [&](PyObject* one) {
    for (size_t i = 0; i < written.size() && fresh(one); ++i) {
      const auto& impl = impl_of(one);
      if (!same_memory(*written[i], impl)) continue;
      if (impl.numel() != written[i]->numel() || impl.dtype() != written[i]->dtype()) return false;
      for (const size_t known : call.returned)
        if (known == i) return false;
      call.outputs[i].sizes = impl.sizes().vec();
      call.returned.push_back(i);
      return true;
    }
    return false;
  });
}

PyObject* remember(PyObject* self, PyObject* args) {
  return guarded([&]() -> PyObject* {
    unsigned long long kernel;
    long long number;
    Arguments arguments{};
    PyObject *given, *outputs, *result;
    if (!PyArg_ParseTuple(args, "KO!O!O!OOL", &kernel, &PyTuple_Type, &arguments.args, &PyDict_Type, &arguments.kwargs,
                          &PyTuple_Type, &given, &outputs, &result, &number))
      return nullptr;
    auto call = std::make_shared<Call>();
    call->kernel = reinterpret_cast<Kernel>(kernel), call->number = number;
    std::vector<PyObject*> tensors;  // none where an argument is no tensor, or is one of those before
    const bool known = arguments.each([&](PyObject* name, PyObject* value) {
      auto argument = Argument::of(value);
      if (!argument) return false;
      if (tensors.size() == kMost) return false;
      const auto first = std::find(tensors.begin(), tensors.end(), value);
      call->twins.push_back(static_cast<size_t>(first - tensors.begin()));
      tensors.push_back(argument->is_tensor() && first == tensors.end() ? value : nullptr);
      call->names.emplace_back(name);
      call->arguments.push_back(std::move(*argument));
      return true;
    });
    if (!known || !learn_given(*call, given, tensors, given == arguments.args)) Py_RETURN_FALSE;
    if (!learn_outputs(*call, outputs, result, tensors)) Py_RETURN_FALSE;
    if (call->given.size() + call->outputs.size() + 1 > kMost) Py_RETURN_FALSE;
    Served& served = self_of(self);
    (*served.calls)[served.next] = std::move(call);
    served.next = (served.next + 1) % kKept;
    Py_RETURN_TRUE;
  });
}

// Runs the kernel on new outputs; none where it refuses.
std::optional<std::vector<at::TensorBase>> run(const Call& call, const Arguments& arguments) {
  std::array<PyObject*, kMost> held{};
  size_t at = 0;
  arguments.each([&](PyObject*, PyObject* value) { return held[at++] = value, at < kMost; });
  std::vector<at::TensorBase> outputs;
  outputs.reserve(call.outputs.size());
  TVMFFIAny values[kMost], result{};
  DLTensor views[kMost];
  int32_t count = 0;
  const auto give = [&](const View& view, const void* data) {
    views[count] = view.at(data);
    values[count] = any_of(kTVMFFIDLTensorPtr, 0);
    values[count].v_ptr = &views[count];
    ++count;
  };
  for (const Given& given : call.given) {
    if (given.argument >= 0) {
      const Parts parts(held[static_cast<size_t>(given.argument)]);
      give(given.view, static_cast<const char*>(parts.of[given.part]->data()) + given.apart);
    } else if (given.fixed.get() != nullptr) {
      give(given.view, impl_of(given.fixed.get()).data());
    } else {
      values[count++] = given.value;
    }
  }
  for (const auto& output : call.outputs) {
    outputs.push_back(at::detail::empty_cpu(output.sizes, output.dtype));
    give(output.view, outputs.back().unsafeGetTensorImpl()->data());
  }
  if (call.number >= 0) values[count++] = any_of(kTVMFFIInt, call.number);
  int failed;
  Py_BEGIN_ALLOW_THREADS;
  failed = call.kernel(nullptr, values, count, &result);
  Py_END_ALLOW_THREADS;
  if (failed == 0) return outputs;
  TVMFFIObjectHandle error = nullptr;
  TVMFFIErrorMoveFromRaised(&error);  // Python calls again, and raises it as it should be
  if (error != nullptr) TVMFFIObjectDecRef(error);
  return std::nullopt;
}

PyObject* wrapped(const Call& call, const std::vector<at::TensorBase>& outputs) {
  if (!call.several) return THPVariable_Wrap(outputs[call.returned[0]]);
  const Ref tuple = Ref::taken(PyTuple_New(static_cast<Py_ssize_t>(call.returned.size())));
  if (tuple.get() == nullptr) return nullptr;
  for (size_t i = 0; i < call.returned.size(); ++i) {
    PyObject* one = THPVariable_Wrap(outputs[call.returned[i]]);
    if (one == nullptr) return nullptr;
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), one);
  }
  return Py_NewRef(tuple.get());
}

PyObject* call(PyObject* self, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    const Served& served = self_of(self);
    const auto keys = c10::impl::tls_local_dispatch_key_set();
    const bool gradients = served.differentiable && c10::AutogradState::get_tls_state().get_grad_mode();
    const Arguments arguments{args, kwargs};
    for (size_t i = 0; i < kKept; ++i) {
      const auto known = (*served.calls)[i];  // another thread may take its place meanwhile
      if (known == nullptr || !known->same(arguments, keys, gradients)) continue;
      const auto outputs = run(*known, arguments);
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
