// Half and BFloat16 as torch has them: numbers that turn into float by themselves and compute in it.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

namespace c10 {
#define KW_ANYWHERE inline __host__ __device__
struct alignas(2) Half {
  unsigned short x;
  Half() = default;
  __host__ __device__ Half(float v) : Half(__float2half_rn(v)) {}
  __host__ __device__ Half(const __half& v) : x(__half_as_ushort(v)) {}
  __host__ __device__ operator float() const { return __half2float(__ushort_as_half(x)); }
  __host__ __device__ operator __half() const { return __ushort_as_half(x); }
};
struct alignas(2) BFloat16 {
  unsigned short x;
  BFloat16() = default;
  __host__ __device__ BFloat16(float v) : BFloat16(__float2bfloat16_rn(v)) {}
  __host__ __device__ BFloat16(const __nv_bfloat16& v) : x(__bfloat16_as_ushort(v)) {}
  __host__ __device__ operator float() const { return __bfloat162float(__ushort_as_bfloat16(x)); }
  __host__ __device__ explicit operator __nv_bfloat16() const { return __ushort_as_bfloat16(x); }
};
#define KW_MIXED(type, other, result, op)                                                                  \
  KW_ANYWHERE result operator op(type a, other b) { return static_cast<result>(a) op static_cast<result>(b); } \
  KW_ANYWHERE result operator op(other a, type b) { return static_cast<result>(a) op static_cast<result>(b); }
#define KW_OPERATOR(type, op)                                                                              \
  KW_ANYWHERE type operator op(const type& a, const type& b) { return float(a) op float(b); }              \
  KW_ANYWHERE type& operator op##=(type& a, const type& b) { return a = a op b; }                          \
  KW_ANYWHERE float& operator op##=(float& a, const type& b) { return a = a op float(b); }                 \
  KW_MIXED(type, float, float, op) KW_MIXED(type, double, double, op)                                      \
  KW_ANYWHERE type operator op(type a, int b) { return a op static_cast<type>(float(b)); }                 \
  KW_ANYWHERE type operator op(int a, type b) { return static_cast<type>(float(a)) op b; }                 \
  KW_ANYWHERE type operator op(type a, int64_t b) { return a op static_cast<type>(float(b)); }             \
  KW_ANYWHERE type operator op(int64_t a, type b) { return static_cast<type>(float(a)) op b; }
#define KW_OPERATORS(type)                                                                                 \
  KW_OPERATOR(type, +) KW_OPERATOR(type, -) KW_OPERATOR(type, *) KW_OPERATOR(type, /)                      \
  KW_ANYWHERE type operator-(const type& a) { return -float(a); }
KW_OPERATORS(Half)
KW_OPERATORS(BFloat16)
KW_ANYWHERE bool operator<(BFloat16& a, BFloat16& b) { return float(a) < float(b); }
KW_ANYWHERE bool operator>(BFloat16& a, BFloat16& b) { return float(a) > float(b); }
#undef KW_MIXED
#undef KW_OPERATOR
#undef KW_OPERATORS
}  // namespace c10
