// torch's switches over element types, and its checks.
#pragma once
#include "kw_types.h"

#define TORCH_CHECK(condition, ...) do { if (!(condition)) ::c10::fail(#condition, ##__VA_ARGS__); } while (0)
#define TORCH_INTERNAL_ASSERT TORCH_CHECK
#define TORCH_CHECK_EQ(a, b) TORCH_CHECK((a) == (b))
#define TORCH_CHECK_NOT_IMPLEMENTED TORCH_CHECK
#define TORCH_CHECK_VALUE TORCH_CHECK
#define TORCH_CHECK_TYPE TORCH_CHECK
#define AT_ASSERTM TORCH_CHECK
#define AT_ASSERT TORCH_CHECK
#define AT_ERROR(...) ::c10::fail("", ##__VA_ARGS__)
#define TORCH_WARN(...) ((void)0)
#define C10_CUDA_CHECK(call) do { cudaError_t kw_e = (call); if (kw_e) ::c10::fail("", "CUDA error: ", cudaGetErrorString(kw_e)); } while (0)
#define AT_CUDA_CHECK C10_CUDA_CHECK
#define C10_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_CHECK(cudaGetLastError())

#define KW_CASE(name, type, ...) case ::c10::ScalarType::name: { using scalar_t = type; return __VA_ARGS__(); }
#define KW_FLOATING(...) KW_CASE(Double, double, __VA_ARGS__) KW_CASE(Float, float, __VA_ARGS__)
#define KW_INTEGRAL(...) KW_CASE(Byte, uint8_t, __VA_ARGS__) KW_CASE(Char, int8_t, __VA_ARGS__) KW_CASE(Int, int32_t, __VA_ARGS__) \
  KW_CASE(Long, int64_t, __VA_ARGS__) KW_CASE(Short, int16_t, __VA_ARGS__)
#define KW_REDUCED(...) KW_CASE(Half, ::c10::Half, __VA_ARGS__) KW_CASE(BFloat16, ::c10::BFloat16, __VA_ARGS__)
#define AT_DISPATCH_SWITCH(given, label, ...)                                                      \
  [&] {                                                                                            \
    const ::c10::ScalarType kw_type = (given);                                                     \
    switch (kw_type) { __VA_ARGS__ default: ::c10::fail("", "\"", label, "\" not implemented for '", ::c10::title_of(kw_type), "'"); } \
  }()
#define AT_DISPATCH_CASE(which, ...) case which: { using scalar_t = ::c10::cpp_type_t<which>; return __VA_ARGS__(); }
#define AT_DISPATCH_CASE_FLOATING_TYPES KW_FLOATING
#define AT_DISPATCH_CASE_INTEGRAL_TYPES KW_INTEGRAL
#define AT_DISPATCH_CASE_REDUCED_FLOATING_TYPES KW_REDUCED
#define AT_DISPATCH_CASE_ALL_TYPES(...) KW_FLOATING(__VA_ARGS__) KW_INTEGRAL(__VA_ARGS__)
#define AT_DISPATCH_FLOATING_TYPES(t, n, ...) AT_DISPATCH_SWITCH(t, n, KW_FLOATING(__VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND_HALF(t, n, ...) AT_DISPATCH_FLOATING_TYPES_AND(::c10::ScalarType::Half, t, n, __VA_ARGS__)
#define AT_DISPATCH_FLOATING_TYPES_AND(a, t, n, ...) AT_DISPATCH_SWITCH(t, n, KW_FLOATING(__VA_ARGS__) AT_DISPATCH_CASE(a, __VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND2(a, b, t, n, ...) \
  AT_DISPATCH_SWITCH(t, n, KW_FLOATING(__VA_ARGS__) AT_DISPATCH_CASE(a, __VA_ARGS__) AT_DISPATCH_CASE(b, __VA_ARGS__))
#define AT_DISPATCH_REDUCED_FLOATING_TYPES(t, n, ...) AT_DISPATCH_SWITCH(t, n, KW_REDUCED(__VA_ARGS__))
#define AT_DISPATCH_INTEGRAL_TYPES(t, n, ...) AT_DISPATCH_SWITCH(t, n, KW_INTEGRAL(__VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES(t, n, ...) AT_DISPATCH_SWITCH(t, n, AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND(a, t, n, ...) \
  AT_DISPATCH_SWITCH(t, n, AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__) AT_DISPATCH_CASE(a, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND_HALF(t, n, ...) AT_DISPATCH_ALL_TYPES_AND(::c10::ScalarType::Half, t, n, __VA_ARGS__)
#define AT_DISPATCH_ALL_TYPES_AND2(a, b, t, n, ...) \
  AT_DISPATCH_SWITCH(t, n, AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__) AT_DISPATCH_CASE(a, __VA_ARGS__) AT_DISPATCH_CASE(b, __VA_ARGS__))
