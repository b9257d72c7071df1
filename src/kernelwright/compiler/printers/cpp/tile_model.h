// A model of the tile unit of x86 processors (AMX) in plain C++: what each of its instructions computes, element by element,
// in the order in which the manual has it. A use that the processor would refuse ends the process with a message.
//
// Covers: shapes and what they demand of operands, zeroing of what a load or a product leaves out, loads and stores by rows,
// float32 sums of bfloat16 pairs (subnormal operands count as zero, subnormal results become zero, rounding to nearest even),
// int32 sums of bytes, which wrap. Does not cover: payloads of NaN, exceptions while memory is read, how long anything takes.
//
// Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, LDTILECFG, TILELOADD, TILESTORED, TILEZERO,
// TDPBF16PS, TDPBSUD ("Operation").
#pragma once
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>

namespace kw::tile_model {

constexpr int kRegisters = 8, kRows = 16, kBytes = 64;

struct Unit {
  bool configured = false;
  int rows[kRegisters] = {}, bytes[kRegisters] = {};
  uint8_t data[kRegisters][kRows][kBytes] = {};
  int64_t configurations = 0, releases = 0, products = 0;  // how often
};
inline Unit& unit() {
  static thread_local Unit of_thread;
  return of_thread;
}

inline void demand(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "tile unit: %s\n", what);
  std::abort();
}

// Bytes: palette, first row, 14 of zero; 16 lengths of rows, two bytes each; 16 numbers of rows.
inline void configure(const void* from) {
  uint8_t bytes[64];
  std::memcpy(bytes, from, sizeof bytes);
  demand(bytes[0] == 1, "palette is not 1");
  for (int i = 1; i < 16; ++i) demand(bytes[i] == 0, "a reserved byte or the first row is not 0");
  Unit& u = unit();
  for (int t = 0; t < 16; ++t) {
    const int length = bytes[16 + 2 * t] | bytes[17 + 2 * t] << 8, rows = bytes[48 + t];
    demand(t < kRegisters || (length == 0 && rows == 0), "more than eight registers");
    demand(length <= kBytes && rows <= kRows, "a register of more than 16 rows or 64 bytes");
    demand((length == 0) == (rows == 0), "a register with rows and no bytes, or bytes and no rows");
    if (t < kRegisters) u.rows[t] = rows, u.bytes[t] = length;
  }
  std::memset(u.data, 0, sizeof u.data);
  u.configured = true;
  ++u.configurations;
}
inline void release() {
  Unit& u = unit();
  const int64_t configurations = u.configurations, releases = u.releases + 1, products = u.products;
  u = Unit{};
  u.configurations = configurations, u.releases = releases, u.products = products;
}

inline Unit& used(int t) {
  Unit& u = unit();
  demand(u.configured && t >= 0 && t < kRegisters && u.rows[t] > 0, "a register is used that is not configured");
  return u;
}
inline void zero(int t) {
  Unit& u = used(t);
  std::memset(u.data[t], 0, sizeof u.data[t]);
}
inline void load(int t, const void* from, int64_t apart) {
  zero(t);
  Unit& u = used(t);
  for (int r = 0; r < u.rows[t]; ++r)
    std::memcpy(u.data[t][r], static_cast<const char*>(from) + r * apart, static_cast<size_t>(u.bytes[t]));
}
inline void store(int t, void* to, int64_t apart) {
  Unit& u = used(t);
  for (int r = 0; r < u.rows[t]; ++r)
    std::memcpy(static_cast<char*>(to) + r * apart, u.data[t][r], static_cast<size_t>(u.bytes[t]));
}

template <class T> T element(int t, int row, int i) {
  T value;
  std::memcpy(&value, unit().data[t][row] + i * sizeof(T), sizeof value);
  return value;
}

// Arithmetic that knows no subnormal numbers ------------------------------------------------------------------
constexpr float kLeast = std::numeric_limits<float>::min();

inline float taken(float x) { return std::fabs(x) < kLeast ? std::copysign(0.0f, x) : x; }
// x * y + z, rounded once. A result is subnormal that would be so with an exponent of any size, which one that rounds to
// the least normal number may be: where the exact sum is below that by more than a quarter of a unit.
inline float fma(float x, float y, float z) {
  x = taken(x), y = taken(y), z = taken(z);
  const float sum = std::fmaf(x, y, z);
  if (std::fabs(sum) > kLeast || sum != sum) return sum;
  if (std::fabs(sum) < kLeast) return std::copysign(0.0f, sum);
  const double limit = static_cast<double>(kLeast) * (1.0 - 0x1p-25), product = static_cast<double>(x) * y;
  const bool below = sum > 0 ? product < limit - z : -product < limit + z;  // all of these are exact
  return below ? std::copysign(0.0f, sum) : sum;
}
inline float add(float x, float y) { return taken(taken(x) + taken(y)); }
inline float of_bfloat16(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

// Products: each row of `left` by each four bytes of `right`; one(k, row, column) adds step k, and last(row, column) ends.
template <class Begin, class One, class Last> void product(int sums, int left, int right, Begin begin, One one, Last last) {
  Unit& u = used(sums);
  used(left), used(right);
  demand(sums != left && sums != right && left != right, "operands of a product are one register");
  demand(u.rows[sums] == u.rows[left], "sums and left factor have different rows");
  demand(u.bytes[sums] == u.bytes[right], "sums and right factor have different columns");
  demand(u.bytes[left] == 4 * u.rows[right], "the right factor has other rows than the left has steps");
  demand(u.bytes[sums] % 4 == 0, "a row of sums is not of whole lanes");
  ++u.products;
  for (int m = 0; m < u.rows[sums]; ++m) {
    for (int n = 0; n < u.bytes[sums] / 4; ++n) {
      begin();
      for (int k = 0; k < u.bytes[left] / 4; ++k) one(k, m, n);
      last(m, n);
    }
    std::memset(u.data[sums][m] + u.bytes[sums], 0, static_cast<size_t>(kBytes - u.bytes[sums]));
  }
  for (int m = u.rows[sums]; m < kRows; ++m) std::memset(u.data[sums][m], 0, kBytes);
}

// TDPBF16PS: first and second elements of pairs are summed apart, from zero, in order; then both, then with what was there.
inline void pairs(int sums, int left, int right) {
  float one = 0, two = 0;
  product(
      sums, left, right, [&] { one = two = 0; },
      [&](int k, int m, int n) {
        const auto at = [](int t, int row, int i) { return of_bfloat16(element<uint16_t>(t, row, i)); };
        one = fma(at(left, m, 2 * k), at(right, k, 2 * n), one);
        two = fma(at(left, m, 2 * k + 1), at(right, k, 2 * n + 1), two);
      },
      [&](int m, int n) {
        const float sum = add(element<float>(sums, m, n), add(one, two));
        std::memcpy(unit().data[sums][m] + 4 * n, &sum, sizeof sum);
      });
}

// TDPBSUD: bytes with signs times bytes without, summed modulo 2^32.
inline void quads(int sums, int left, int right) {
  uint32_t sum = 0;
  product(
      sums, left, right, [&] { sum = 0; },
      [&](int k, int m, int n) {
        for (int i = 0; i < 4; ++i)
          sum += static_cast<uint32_t>(element<int8_t>(left, m, 4 * k + i) * element<uint8_t>(right, k, 4 * n + i));
      },
      [&](int m, int n) {
        sum += element<uint32_t>(sums, m, n);
        std::memcpy(unit().data[sums][m] + 4 * n, &sum, sizeof sum);
      });
}

}  // namespace kw::tile_model
