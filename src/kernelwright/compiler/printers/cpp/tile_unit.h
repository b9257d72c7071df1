// The tile unit of x86 processors (AMX): eight registers of up to 16 rows of 64 bytes, and products of two of them that are
// added to a third. Whoever uses it must have asked `tile_unit_usable()`, and holds a `TileShapes` meanwhile.
//
// KW_TILES is 1 where the compiler has the unit's instructions, and 2 with KW_TILE_MODEL, which puts a model of the unit
// in its place that any machine runs (`tile_model.h`); what is written on it is the same source. Compiled and modelled: no
// machine that has the unit has run it.
//
// Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter 18 ("Programming with Intel
// Advanced Matrix Extensions"), and volume 2, TILELOADD, TDPBF16PS, TDPBSUD.
#pragma once
#include <cstdint>
#include <cstring>

#if defined(KW_TILE_MODEL)
#define KW_TILES 2
#include "tile_model.h"
#elif defined(__AMX_TILE__) && defined(__AMX_BF16__) && defined(__AMX_INT8__) && defined(__linux__)
#define KW_TILES 1
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#else
#define KW_TILES 0
#endif

// Registers are written into instructions, so their numbers are macros' arguments.
#if KW_TILES == 1
#define KW_TILE_ZERO(t) _tile_zero(t)
#define KW_TILE_LOAD(t, from, apart) _tile_loadd(t, from, apart)
#define KW_TILE_STORE(t, to, apart) _tile_stored(t, to, apart)
#define KW_TILE_PAIRS(sums, left, right) _tile_dpbf16ps(sums, left, right)  // bfloat16 in pairs, to float32
#define KW_TILE_QUADS(sums, left, right) _tile_dpbsud(sums, left, right)    // int8 times uint8 in fours, to int32
#elif KW_TILES == 2
#define KW_TILE_ZERO(t) ::kw::tile_model::zero(t)
#define KW_TILE_LOAD(t, from, apart) ::kw::tile_model::load(t, from, apart)
#define KW_TILE_STORE(t, to, apart) ::kw::tile_model::store(t, to, apart)
#define KW_TILE_PAIRS(sums, left, right) ::kw::tile_model::pairs(sums, left, right)
#define KW_TILE_QUADS(sums, left, right) ::kw::tile_model::quads(sums, left, right)
#endif

#if KW_TILES
namespace kw {

constexpr int64_t kUnitRows = 16;    // of a register
constexpr int64_t kUnitBytes = 64;     // of a register's row
constexpr int64_t kUnitLanes = 16;     // of four bytes in a row

#if KW_TILES == 1
// Whether the processor has the unit, the system saves its registers, and this process may use them: Linux grants that to
// a process that asks, all its threads and what it forks, and refuses it where a filter of system calls or a signal stack
// that is too small says so.
// Source: Linux, Documentation/arch/x86/xstate.rst ("Using XSTATE features in user space applications").
inline bool ask_for_tile_unit() {
  constexpr unsigned kBf16 = 1u << 22, kTile = 1u << 24, kInt8 = 1u << 25, kSavesExtended = 1u << 27;
  constexpr unsigned kConfiguration = 1u << 17, kData = 1u << 18;  // of XCR0
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  unsigned a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & kSavesExtended)) return false;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & (kBf16 | kTile | kInt8)) != (kBf16 | kTile | kInt8)) return false;
  unsigned low, high;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  if ((low & (kConfiguration | kData)) != (kConfiguration | kData)) return false;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}
#endif

// The shapes of a thread's registers, which a new configuration also makes zero; the unit is released at the end.
//
//   0 1     sums of `rows` by two registers of 16 columns        4   rows of the left factor    6 7   of the right factor,
//   2 3     sums of `more` rows below; 0 for none                5   `more` rows below                columns 0 to 15, 16 to 31
class TileShapes {
 public:
  TileShapes() = default;
  TileShapes(const TileShapes&) = delete;
  ~TileShapes() {
    if (!configured_) return;
#if KW_TILES == 1
    _tile_release();
#else
    tile_model::release();
#endif
  }
  // `steps` of four bytes in a row of the left factor, 1 to 16. Nothing happens where the shapes are these already.
  void set(int64_t rows, int64_t more, int64_t steps) {
    Configuration next;
    const auto shape = [&](int t, int64_t r, int64_t bytes) {
      next.rows[t] = static_cast<uint8_t>(r);
      next.bytes[t] = static_cast<uint16_t>(r ? bytes : 0);
    };
    for (int t = 0; t < 2; ++t) shape(t, rows, kUnitBytes), shape(2 + t, more, kUnitBytes), shape(6 + t, steps, kUnitBytes);
    shape(4, rows, 4 * steps), shape(5, more, 4 * steps);
    if (configured_ && std::memcmp(&next, &now_, sizeof next) == 0) return;
    now_ = next;
    configured_ = true;
#if KW_TILES == 1
    _tile_loadconfig(&now_);
#else
    tile_model::configure(&now_);
#endif
  }

 private:
  struct alignas(64) Configuration {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t bytes[16] = {};  // of a row, by register
    uint8_t rows[16] = {};
  };
  static_assert(sizeof(Configuration) == 64);
  Configuration now_;
  bool configured_ = false;
};

// Four registers of products of small numbers, `kElements` to four bytes: whether they are what plain loops make of them, exactly.
template <int kElements> bool small_products_are_right(int64_t more, int64_t steps) {
  const int64_t rows = kUnitRows + more, inner = steps * kElements;
  const auto left = [](int64_t m, int64_t k) { return static_cast<int>((m * 7 + k * 3) % 13) - 6; };
  const auto right = [](int64_t k, int64_t n) { return static_cast<int>((k * 5 + n * 11) % 9); };
  const auto write = [](char* to, int64_t element, int value) {
    const float wide = static_cast<float>(value);
    if (kElements == 2) std::memcpy(to + 2 * element, reinterpret_cast<const char*>(&wide) + 2, 2);  // its upper half: bfloat16
    else to[element] = static_cast<char>(value);
  };
  alignas(64) char a[2 * kUnitRows * kUnitBytes] = {}, b[kUnitRows * 2 * kUnitBytes] = {}, sums[2 * kUnitRows * 2 * kUnitBytes];
  for (int64_t k = 0; k < inner; ++k) {
    for (int64_t m = 0; m < rows; ++m) write(a + m * kUnitBytes, k, left(m, k));
    for (int64_t n = 0; n < 2 * kUnitLanes; ++n)
      write(b + k / kElements * 2 * kUnitBytes, n * kElements + k % kElements, right(k, n));
  }
  TileShapes shapes;
  shapes.set(kUnitRows, more, steps);
  asm volatile("" ::: "memory");
  KW_TILE_LOAD(4, a, kUnitBytes);
  KW_TILE_LOAD(5, a + kUnitRows * kUnitBytes, kUnitBytes);
  KW_TILE_LOAD(6, b, 2 * kUnitBytes);
  KW_TILE_LOAD(7, b + kUnitBytes, 2 * kUnitBytes);
  if constexpr (kElements == 2) {
    KW_TILE_PAIRS(0, 4, 6);
    KW_TILE_PAIRS(1, 4, 7);
    KW_TILE_PAIRS(2, 5, 6);
    KW_TILE_PAIRS(3, 5, 7);
  } else {
    KW_TILE_QUADS(0, 4, 6);
    KW_TILE_QUADS(1, 4, 7);
    KW_TILE_QUADS(2, 5, 6);
    KW_TILE_QUADS(3, 5, 7);
  }
  KW_TILE_STORE(0, sums, 2 * kUnitBytes);
  KW_TILE_STORE(1, sums + kUnitBytes, 2 * kUnitBytes);
  KW_TILE_STORE(2, sums + kUnitRows * 2 * kUnitBytes, 2 * kUnitBytes);
  KW_TILE_STORE(3, sums + kUnitRows * 2 * kUnitBytes + kUnitBytes, 2 * kUnitBytes);
  for (int64_t m = 0; m < rows; ++m)
    for (int64_t n = 0; n < 2 * kUnitLanes; ++n) {
      int exact = 0;
      for (int64_t k = 0; k < inner; ++k) exact += left(m, k) * right(k, n);
      char found[4], wanted[4];
      std::memcpy(found, sums + (m * 2 * kUnitLanes + n) * 4, 4);
      const float wide = static_cast<float>(exact);
      if (kElements == 2) std::memcpy(wanted, &wide, 4);
      else std::memcpy(wanted, &exact, 4);
      if (std::memcmp(found, wanted, 4) != 0) return false;
    }
  return true;
}

// Looked at once a process: no machine that has the unit has run this, so it has to show first that it multiplies right.
inline bool tile_unit_usable() {
  static const bool usable = [] {
#if KW_TILES == 1
    if (!ask_for_tile_unit()) return false;
#endif
    return small_products_are_right<2>(kUnitRows, 16) && small_products_are_right<2>(9, 5) &&
           small_products_are_right<4>(kUnitRows, 16) && small_products_are_right<4>(9, 5);
  }();
  return usable;
}

}  // namespace kw
#endif
