// Types, sizes, options and messages of `kw_torch.h`. Headers take most of the compiler's time, so those of halves and of
// what few sources use are left out where `inline.py` says so.
#pragma once
#ifndef KW_NO_HALVES
#include "kw_halves.h"
#endif
#include <cuda_runtime.h>
#include <stdint.h>
#include <stdio.h>
#include <tvm/ffi/c_api.h>

#ifndef KW_FEW_HEADERS
#include <algorithm>
#include <array>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <numeric>
#include <sstream>
#include <unordered_map>
#endif
#include <cmath>
#include <initializer_list>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace c10 {
struct Raised {};  // an error that is set already

enum class DeviceType { CPU, CUDA };
enum class ScalarType { Float, Double, Half, BFloat16, Int, Long, Short, Char, Byte, Bool };
constexpr DeviceType kCPU = DeviceType::CPU, kCUDA = DeviceType::CUDA;
constexpr ScalarType kFloat = ScalarType::Float, kFloat32 = kFloat, kDouble = ScalarType::Double, kFloat64 = kDouble,
    kHalf = ScalarType::Half, kFloat16 = kHalf, kBFloat16 = ScalarType::BFloat16, kInt = ScalarType::Int, kInt32 = kInt,
    kLong = ScalarType::Long, kInt64 = kLong, kShort = ScalarType::Short, kInt16 = kShort, kChar = ScalarType::Char,
    kInt8 = kChar, kByte = ScalarType::Byte, kUInt8 = kByte, kBool = ScalarType::Bool;
template <class T> struct type_of;
template <ScalarType t> struct cpp_type;
template <ScalarType t> using cpp_type_t = typename cpp_type<t>::type;
#define KW_NAMED(given, name) template <> struct type_of<given> { static constexpr ScalarType value = ScalarType::name; };
#define KW_TYPE(given, name) KW_NAMED(given, name) template <> struct cpp_type<ScalarType::name> { using type = given; };
#ifndef KW_NO_HALVES
KW_TYPE(Half, Half) KW_TYPE(BFloat16, BFloat16) KW_NAMED(__half, Half) KW_NAMED(__nv_bfloat16, BFloat16)
#endif
KW_TYPE(float, Float) KW_TYPE(double, Double) KW_TYPE(int32_t, Int) KW_TYPE(int64_t, Long) KW_NAMED(long long, Long)
KW_TYPE(int16_t, Short) KW_TYPE(int8_t, Char) KW_TYPE(uint8_t, Byte) KW_TYPE(bool, Bool)
#undef KW_NAMED
#undef KW_TYPE
inline const char* name_of(ScalarType t) {
  static const char* names[] = {"float32", "float64", "float16", "bfloat16", "int32", "int64", "int16", "int8", "uint8", "bool"};
  return names[int(t)];
}
inline const char* title_of(ScalarType t) {
  static const char* names[] = {"Float", "Double", "Half", "BFloat16", "Int", "Long", "Short", "Char", "Byte", "Bool"};
  return names[int(t)];
}
inline const char* toString(ScalarType t) { return title_of(t); }

struct Error : std::runtime_error { using std::runtime_error::runtime_error; };

struct Device {
  Device(DeviceType type = kCUDA, int index = 0) : kind(type), number(index) {}
  Device(const std::string& name) : Device(name.rfind("cuda", 0) == 0 ? kCUDA : kCPU) {}
  bool is_cuda() const { return kind == kCUDA; }
  bool is_cpu() const { return kind == kCPU; }
  DeviceType type() const { return kind; }
  int index() const { return number; }
  bool operator==(const Device& d) const { return kind == d.kind; }
  bool operator!=(const Device& d) const { return kind != d.kind; }
  DeviceType kind;
  int number;
};

struct TensorOptions {
  ScalarType type = kFloat;
  TensorOptions() = default;
  TensorOptions(ScalarType t) : type(t) {}
  TensorOptions(DeviceType) {}
  TensorOptions(Device) {}
  TensorOptions dtype(ScalarType t) const { TensorOptions o = *this; o.type = t; return o; }
  TensorOptions device(Device) const { return *this; }
  TensorOptions device(DeviceType, int = 0) const { return *this; }
  TensorOptions requires_grad(bool) const { return *this; }
};

struct Sizes : std::vector<int64_t> {
  using std::vector<int64_t>::vector;
  Sizes(const std::vector<int64_t>& v) : std::vector<int64_t>(v) {}
  std::vector<int64_t> vec() const { return *this; }
  Sizes slice(size_t from) const { return Sizes(begin() + from, end()); }
};
using IntArrayRef = Sizes;

// Messages, put together without streams.
inline std::string text(const char* s) { return s; }
inline std::string text(const std::string& s) { return s; }
inline std::string text(char c) { return std::string(1, c); }
inline std::string text(ScalarType t) { return title_of(t); }
inline std::string text(const Device& d) { return d.is_cuda() ? "cuda:0" : "cpu"; }
inline std::string text(const Sizes& sizes) {
  std::string out = "[";
  for (size_t i = 0; i < sizes.size(); i++) out += (i ? ", " : "") + std::to_string(sizes[i]);
  return out + "]";
}
template <class T> std::enable_if_t<std::is_arithmetic_v<T> || std::is_enum_v<T>, std::string> text(T v) {
  if constexpr (!std::is_floating_point_v<T>) return std::to_string(static_cast<long long>(v));
  char out[32];
  snprintf(out, sizeof out, "%g", double(v));
  return out;
}
template <class... T> [[noreturn]] void fail(const char* condition, const T&... words) {
  std::string out;
  if (sizeof...(words) == 0) out = std::string("Expected ") + condition + " to be true, but got false.";
  ((out += text(words)), ...);
  throw Error(out);
}
#ifndef KW_FEW_HEADERS
inline std::ostream& operator<<(std::ostream& out, ScalarType t) { return out << text(t); }
inline std::ostream& operator<<(std::ostream& out, const Device& d) { return out << text(d); }
inline std::ostream& operator<<(std::ostream& out, const Sizes& s) { return out << text(s); }
#endif
}  // namespace c10
