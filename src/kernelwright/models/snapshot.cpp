// A served call of a patched model, remembered, so that the next one is compared with it in one step.
//
// `Snapshot(kernel, tail, arguments, names, held, sized, empty, read, placed)` takes the state of this moment; it is None
// where a tensor cannot be followed. Values of `read` tensors count; `placed` ones are given to the kernel in each call.
// Called like the model, it returns `kernel(*tensors of the call, *tail)` if everything is as it was then, and None
// otherwise. It decides nothing: Python decided that such a call is to be served.
//
// Compared: the kind, dtype and sizes of each argument, or its value; what lies in containers, by identity; that
// dictionaries have as many entries as they had, or none; of each tensor the memory, sizes, strides and whether it wants a
// gradient, and where its values count, the version counter and up to 32 bytes in its middle;
// dispatch keys of the thread (autocast, transforms, dispatch modes, inference mode) and whether gradients are wanted.
#include "python_tensors.h"

#include <c10/core/AutogradState.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

namespace {

constexpr size_t kSampled = 32;

const char* memory_of(const c10::TensorImpl& impl) {
  const auto* storage = static_cast<const char*>(impl.unsafe_storage().data());
  return storage + impl.storage_offset() * static_cast<int64_t>(impl.itemsize());
}

struct Argument {
  Ref value;  // of one that is no tensor
  c10::DispatchKeySet keys;
  caffe2::TypeMeta dtype;
  std::vector<int64_t> sizes;

  explicit Argument(PyObject* given) {
    if (!is_tensor(given)) {
      value = Ref(given);
      return;
    }
    const auto& impl = impl_of(given);
    keys = impl.key_set();
    dtype = impl.dtype();
    sizes = impl.sizes().vec();
  }

  bool same(PyObject* given, bool gradients) const {
    if (PyObject* known = value.get()) {
      if (known == given) return true;
      if (Py_TYPE(known) != Py_TYPE(given)) return false;
      const int equal = PyObject_RichCompareBool(known, given, Py_EQ);
      if (equal < 0) throw Refused();
      return equal == 1;
    }
    if (!is_tensor(given)) return false;
    const auto& impl = impl_of(given);
    return impl.key_set() == keys && impl.dtype() == dtype && impl.sizes() == c10::IntArrayRef(sizes) &&
           impl.is_contiguous() && !(gradients && impl.requires_grad());
  }
};

struct Dictionary {  // what dictionary `of` holds under some keys, by identity; what is not there counts as None
  Ref of;
  Py_ssize_t size = -1;  // how many entries it must have, where that counts
  std::vector<std::pair<Ref, Ref>> entries;
  mutable uint64_t tag = 0;  // where it was last found the same

  explicit Dictionary(PyObject* of) : of(of) {}

  bool same() const {
#if PY_VERSION_HEX < 0x030C0000  // until Python 3.11 every change of a dictionary gives it another tag
    const auto now = reinterpret_cast<PyDictObject*>(of.get())->ma_version_tag;
    if (now == tag) return true;
    if (!same_entries()) return false;
    tag = now;
    return true;
#else
    return same_entries();
#endif
  }

  bool same_entries() const {
    if (size >= 0 && PyDict_GET_SIZE(of.get()) != size) return false;
    for (const auto& [key, value] : entries) {
      PyObject* found = PyDict_GetItemWithError(of.get(), key.get());
      if (found == nullptr && PyErr_Occurred()) throw Refused();
      if ((found == nullptr ? Py_None : found) != value.get()) return false;
    }
    return true;
  }
};

struct Held {  // `holder[key] is value` of another container
  Ref holder, key, value;

  bool same() const {
    PyObject* found = PyObject_GetItem(holder.get(), key.get());
    if (found == nullptr) {
      if (!PyErr_ExceptionMatches(PyExc_LookupError)) throw Refused();
      PyErr_Clear();
      return false;
    }
    Py_DECREF(found);  // the container holds it
    return found == value.get();
  }
};

struct Tensor {
  Ref tensor;
  bool read, wants;
  uint32_t version;
  const char* memory;
  std::vector<int64_t> sizes, strides;
  size_t sampled = 0, sampled_from = 0;
  char sample[kSampled];

  Tensor(PyObject* given, bool read) : tensor(given), read(read) {
    const auto& impl = impl_of(given);
    wants = impl.requires_grad();
    version = impl.version_counter().current_version();
    memory = memory_of(impl);
    sizes = impl.sizes().vec();
    strides = impl.strides().vec();
    const size_t bytes = static_cast<size_t>(impl.numel()) * impl.itemsize();
    if (read && impl.is_contiguous()) sampled = std::min(kSampled, bytes);
    sampled_from = (bytes - sampled) / 2;
    if (sampled) std::memcpy(sample, memory + sampled_from, sampled);
  }

  bool same(bool gradients) const {
    const auto& impl = impl_of(tensor.get());
    return impl.has_storage() && (!read || impl.version_counter().current_version() == version) && memory_of(impl) == memory &&
           impl.sizes() == c10::IntArrayRef(sizes) && impl.strides() == c10::IntArrayRef(strides) &&
           !(gradients && impl.requires_grad() != wants) &&
           (sampled == 0 || std::memcmp(sample, memory + sampled_from, sampled) == 0);
  }
};

bool followed(PyObject* value) {  // whether changes of a tensor can be seen from here
  if (!is_tensor(value) && !is_parameter(value)) return false;
  auto& impl = impl_of(value);
  return impl.layout() == c10::kStrided && impl.device().is_cpu() && impl.has_storage() && !impl.is_inference();
}

struct State {
  Ref kernel;
  std::vector<Argument> arguments;
  std::vector<Ref> tail, names, empty;
  std::vector<Dictionary> dictionaries;
  std::vector<Held> held;
  std::vector<Tensor> tensors;
  c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
  bool gradients = c10::AutogradState::get_tls_state().get_grad_mode();

  bool same_mode() const {
    const auto now = c10::impl::tls_local_dispatch_key_set();
    return now.included_ == keys.included_ && now.excluded_ == keys.excluded_ &&
           c10::AutogradState::get_tls_state().get_grad_mode() == gradients;
  }

  // Fills `stack` with the tensors of a call that is as it was; returns how many, or -1.
  Py_ssize_t taken(PyObject* args, PyObject* named, PyObject** stack) const {
    const auto positional = static_cast<size_t>(PyTuple_GET_SIZE(args));
    const size_t by_name = named == nullptr ? 0 : static_cast<size_t>(PyDict_GET_SIZE(named));
    if (by_name != names.size() || positional + by_name != arguments.size()) return -1;
    Py_ssize_t count = 0;
    for (size_t i = 0; i < arguments.size(); ++i) {
      PyObject* given = i < positional ? PyTuple_GET_ITEM(args, static_cast<Py_ssize_t>(i))
                                       : PyDict_GetItemWithError(named, names[i - positional].get());
      if (given == nullptr && PyErr_Occurred()) throw Refused();
      if (given == nullptr || !arguments[i].same(given, gradients)) return -1;
      if (arguments[i].value.get() == nullptr) stack[count++] = given;
    }
    return count;
  }

  bool same_model() const {
    for (const auto& one : empty)
      if (PyDict_GET_SIZE(one.get()) != 0) return false;
    for (const auto& one : dictionaries)
      if (!one.same()) return false;
    for (const auto& one : held)
      if (!one.same()) return false;
    for (const auto& one : tensors)
      if (!one.same(gradients)) return false;
    return true;
  }
};

struct Snapshot {
  PyObject_HEAD
  State* state;
};

PyObject* make(PyTypeObject* type, PyObject* args, PyObject*) {
  return guarded([&]() -> PyObject* {
    PyObject *kernel, *tail, *arguments, *names, *held, *sized, *empty, *read, *placed;
    if (!PyArg_ParseTuple(args, "OOOOOOOOO", &kernel, &tail, &arguments, &names, &held, &sized, &empty, &read, &placed))
      return nullptr;
    auto state = std::make_unique<State>();
    state->kernel = Ref(kernel);
    each(tail, "tail", [&](PyObject* one) { state->tail.emplace_back(one); });
    each(arguments, "arguments", [&](PyObject* one) { state->arguments.emplace_back(one); });
    each(names, "names", [&](PyObject* one) { state->names.emplace_back(one); });
    const auto dictionary = [](PyObject* one) {
      if (PyDict_Check(one)) return one;
      PyErr_SetString(PyExc_TypeError, "expected dictionaries");
      throw Refused();
    };
    each(empty, "empty", [&](PyObject* one) { state->empty.emplace_back(dictionary(one)); });
    std::unordered_map<PyObject*, size_t> places;
    const auto known = [&](PyObject* one) -> Dictionary& {
      const auto [found, is_new] = places.try_emplace(one, state->dictionaries.size());
      if (is_new) state->dictionaries.emplace_back(one);
      return state->dictionaries[found->second];
    };
    each(sized, "sized", [&](PyObject* one) { known(dictionary(one)).size = PyDict_GET_SIZE(one); });
    each(held, "held", [&](PyObject* one) {
      PyObject *holder, *key, *value;
      if (!PyArg_ParseTuple(one, "OOO", &holder, &key, &value)) throw Refused();
      if (PyDict_CheckExact(holder)) {
        known(holder).entries.emplace_back(Ref(key), Ref(value));
      } else {
        state->held.push_back(Held{Ref(holder), Ref(key), Ref(value)});
      }
    });
    bool all = true;
    const auto follow = [&](bool values) {
      return [&all, &state, values](PyObject* one) {
        all = all && followed(one);
        if (all) state->tensors.emplace_back(one, values);
      };
    };
    each(read, "read", follow(true));
    each(placed, "placed", follow(false));
    if (!all) Py_RETURN_NONE;
    auto* self = reinterpret_cast<Snapshot*>(type->tp_alloc(type, 0));
    if (self != nullptr) self->state = state.release();
    return reinterpret_cast<PyObject*>(self);
  });
}

PyObject* call(PyObject* self, PyObject* args, PyObject* named) {
  return guarded([&]() -> PyObject* {
    const State* state = reinterpret_cast<Snapshot*>(self)->state;
    if (state == nullptr || !state->same_mode()) Py_RETURN_NONE;
    constexpr size_t few = 64;
    PyObject* small[few];
    std::vector<PyObject*> many;
    const size_t most = state->arguments.size() + state->tail.size();
    if (most > few) many.resize(most);
    PyObject** stack = most > few ? many.data() : small;
    const Py_ssize_t count = state->taken(args, named, stack);
    if (count < 0 || !state->same_model()) Py_RETURN_NONE;
    for (size_t i = 0; i < state->tail.size(); ++i) stack[count + i] = state->tail[i].get();
    const Ref kept(self);  // the state lives until the kernel returns
    return PyObject_Vectorcall(state->kernel.get(), stack, static_cast<size_t>(count) + state->tail.size(), nullptr);
  });
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  const State* state = reinterpret_cast<Snapshot*>(self)->state;
  if (state == nullptr) return 0;
  Py_VISIT(state->kernel.get());
  for (const auto& one : state->tail) Py_VISIT(one.get());
  for (const auto& one : state->arguments) Py_VISIT(one.value.get());
  for (const auto& one : state->empty) Py_VISIT(one.get());
  for (const auto& one : state->dictionaries) {
    Py_VISIT(one.of.get());
    for (const auto& entry : one.entries) Py_VISIT(entry.second.get());
  }
  for (const auto& one : state->held) {
    Py_VISIT(one.holder.get());
    Py_VISIT(one.value.get());
  }
  for (const auto& one : state->tensors) Py_VISIT(one.tensor.get());
  return 0;
}

int clear(PyObject* self) {
  delete std::exchange(reinterpret_cast<Snapshot*>(self)->state, nullptr);
  return 0;
}

void dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  clear(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyMethodDef of_module[] = {{"use", use, METH_VARARGS, nullptr}, {nullptr, nullptr, 0, nullptr}};
PyType_Slot slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(make)},         {Py_tp_call, reinterpret_cast<void*>(call)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)}, {Py_tp_clear, reinterpret_cast<void*>(clear)},
    {Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},  {0, nullptr},
};
PyType_Spec spec = {"snapshot.Snapshot", sizeof(Snapshot), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots};
PyModuleDef module = {PyModuleDef_HEAD_INIT, "snapshot", nullptr, -1, of_module, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_snapshot() {
  PyObject* made = PyModule_Create(&module);
  PyObject* type = made == nullptr ? nullptr : PyType_FromSpec(&spec);
  return type == nullptr || PyModule_AddObject(made, "Snapshot", type) < 0 ? nullptr : made;
}
