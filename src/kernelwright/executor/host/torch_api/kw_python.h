// Functions that Python calls: their arguments, what they return, and how they are named.
#pragma once
#include "kw_torch.h"

namespace pybind11 {
struct arg {
  explicit arg(const char* name) : said(name) {}
  arg& none(bool = true) { return *this; }
  arg& noconvert(bool = true) { return *this; }
  arg& operator=(bool v) { return given(v ? "True" : "False"); }
  arg& operator=(std::nullopt_t) { return given("None"); }
  arg& operator=(const char* v) { return given("'" + std::string(v) + "'"); }
  template <class T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0> arg& operator=(T v) {
    char out[32];
    if constexpr (std::is_floating_point_v<T>) snprintf(out, sizeof out, "%.17g", double(v));
    else snprintf(out, sizeof out, "%lld", static_cast<long long>(v));
    return given(out);
  }
  std::string said;

 private:
  arg& given(const std::string& v) { said += "=" + v; return *this; }
};
struct none { operator std::nullopt_t() const { return std::nullopt; } };
struct gil_scoped_release {};
template <class... T> struct call_guard {};
namespace literals {
inline arg operator""_a(const char* name, size_t) { return arg(name); }
}  // namespace literals

// The arguments of a call, one after the other: Python puts the length of a list or string before what it holds.
struct Arguments {
  const TVMFFIAny *next, *end;
  const TVMFFIAny& take() {
    if (next == end) ::c10::fail("", "the function takes more arguments");
    return *next++;
  }
  template <class T> struct Read {
    static T from(Arguments& a) {
      static_assert(std::is_arithmetic_v<T>, "not executed: an argument that is no tensor, number, string or list of them");
      const TVMFFIAny& v = a.take();
      if (v.type_index == kTVMFFIFloat && std::is_floating_point_v<T>) return T(v.v_float64);
      if (v.type_index != kTVMFFIInt && v.type_index != kTVMFFIBool)
        ::c10::fail("", std::is_floating_point_v<T> ? "expected a number" : "expected a whole number");
      return T(v.v_int64);
    }
  };
};
template <> struct Arguments::Read<at::Tensor> {
  static at::Tensor from(Arguments& a) {
    const TVMFFIAny& v = a.take();
    if (v.type_index == kTVMFFINone) return at::Tensor();
    if (v.type_index != kTVMFFITensor) ::c10::fail("", "expected a tensor");
    return at::Tensor::of(v.v_obj);
  }
};
template <> struct Arguments::Read<at::Scalar> {
  static at::Scalar from(Arguments& a) { return at::Scalar(Read<double>::from(a)); }
};
template <class T> struct Arguments::Read<std::optional<T>> {
  static std::optional<T> from(Arguments& a) {
    if (a.next == a.end || a.next->type_index != kTVMFFINone) return Read<T>::from(a);
    a.next++;
    return std::nullopt;
  }
};
template <class T> struct Arguments::Read<std::vector<T>> {
  static std::vector<T> from(Arguments& a) {
    std::vector<T> all;
    for (int64_t n = Read<int64_t>::from(a); n > 0; n--) all.push_back(Read<T>::from(a));
    return all;
  }
};
template <> struct Arguments::Read<at::Sizes> {
  static at::Sizes from(Arguments& a) { return Read<std::vector<int64_t>>::from(a); }
};
template <> struct Arguments::Read<std::string> {
  static std::string from(Arguments& a) {
    const std::vector<int64_t> bytes = Read<std::vector<int64_t>>::from(a);
    return std::string(bytes.begin(), bytes.end());
  }
};

struct module_ {
  struct Function {
    std::string signature;  // "name\tx\teps=0.5"; no arguments where none was named
    void (*f)();
    void (*with)(void (*f)(), Arguments given);
  };
  std::vector<Function> functions;
  template <class R, class... A, class... Rest> void def(const char* name, R (*f)(A...), const Rest&... rest) {
    std::string said = name;
    (name_argument(said, rest), ...);
    functions.push_back({said, reinterpret_cast<void (*)()>(f), [](void (*held)(), Arguments given) {
      std::tuple<std::decay_t<A>...> read{Arguments::Read<std::decay_t<A>>::from(given)...};  // in order, by the braces
      if (given.next != given.end) ::c10::fail("", "the function takes fewer arguments");
      call(reinterpret_cast<R (*)(A...)>(held), read);
    }});
  }
  template <class F, class... Rest, class = decltype(+std::declval<F>())> void def(const char* name, F lambda, const Rest&... rest) {
    def(name, +lambda, rest...);
  }
  std::string& doc() { return words; }

 private:
  std::string words;
  static void name_argument(std::string& said, const arg& a) { said += "\t" + a.said; }
  template <class T> static void name_argument(std::string&, const T&) {}
  static at::kw::Value to(const at::Tensor& t) { return t; }
  template <class T, std::enable_if_t<std::is_floating_point_v<T>, int> = 0> static at::kw::Value to(T v) { return double(v); }
  template <class T, std::enable_if_t<std::is_integral_v<T>, int> = 0> static at::kw::Value to(T v) { return int64_t(v); }
  template <class R> static void give(const R& r) { at::kw::ask("return", {to(r)}); }
  static void give(const std::vector<at::Tensor>& r) { at::kw::ask("return_list", {r.begin(), r.end()}); }
  template <class... T> static void give(const std::tuple<T...>& r) {
    std::apply([](const T&... each) { at::kw::ask("return_tuple", {to(each)...}); }, r);
  }
  template <class A, class B> static void give(const std::pair<A, B>& r) { give(std::tuple<A, B>(r)); }
  template <class R, class... A, class T> static void call(R (*f)(A...), T& read) {
    auto made = [&](auto&... each) -> R { return f(static_cast<A&&>(each)...); };
    if constexpr (std::is_void_v<R>) std::apply(made, read);
    else give(std::apply(made, read));
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
    called.with(called.f, {given + 1, given + count});
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
  for (const auto& f : pybind11::the_module().functions) names += f.signature + "\n";
  return names.c_str();
}
