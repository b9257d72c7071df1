// Products of bfloat16 by the tile unit (AMX), for whole tiles of columns: 32 rows by 32 columns in four registers of sums, 32
// inner elements at a time. Columns of a panel come in pairs of inner elements here, as the unit wants them, for all rows of
// a block at once.
//
// Reads: 2 KiB of columns and 2 KiB of rows for 32 × 32 × 32 products, which take 64 cycles. Rows and inner elements that are
// left are shapes of their own and copies with zeros behind. As in AVX512-BF16, subnormal numbers count as zero.
#pragma once
#include "micro_kernel.h"
#include "tile_unit.h"

namespace kw {

#if KW_TILES
constexpr int64_t kUnitDeep = kUnitBytes / 2;  // inner elements of a register
constexpr int64_t kUnitHigh = 2 * kUnitRows;   // rows of the sums that registers hold
constexpr int64_t kUnitBlock = 256;            // rows whose sums wait at once for more inner elements
// Rows from which on the unit is asked: an estimate, measured on no machine. A register of columns takes 8 cycles to load and as
// many to multiply as there are rows.
// Source: Intel 64 and IA-32 Architectures Optimization Reference Manual, chapter 20 ("Intel AMX"), throughputs.
constexpr int64_t kUnitLeast = 8;

// Where the columns of a tile lie: `side` of them side by side, and the next as many `apart` elements further.
template <int64_t side_> struct Columns {
  static constexpr int64_t side = side_;
  const bfloat16* data;
  int64_t row, apart;
};

// Inner elements of `lanes` columns from `k` on, those of a pair next to each other and zeros behind: [pairs][lanes][2].
template <int64_t lanes, class From> void pair_up(const From& b, int64_t first, int64_t depth, bfloat16* to) {
  constexpr int64_t side = std::min(lanes, From::side);
  static_assert(lanes % side == 0);
  const int64_t whole = depth / 2 * 2, all = (depth + kUnitDeep - 1) / kUnitDeep * kUnitDeep;
  for (int64_t k = 0; k < depth; k += 2)
    for (int64_t at = 0; at < lanes; at += side) {
      const bfloat16* from = b.data + (first + k) * b.row + at / side * b.apart;
      bfloat16* pairs = to + k * lanes + 2 * at;
      for (int64_t c = 0; c < side; ++c) {
        pairs[2 * c] = from[c];
        pairs[2 * c + 1] = k < whole ? from[b.row + c] : bfloat16{};
      }
    }
  const int64_t k = (depth + 1) / 2 * 2;
  std::memset(static_cast<void*>(to + k * lanes), 0, static_cast<size_t>((all - k) * lanes) * sizeof(bfloat16));
}

// What is left of rows' inner elements after whole registers, with zeros behind: [rows][kUnitDeep].
inline void copy_ends(const bfloat16* a, int64_t a_row, int64_t rows, int64_t left, bfloat16* to) {
  for (int64_t r = 0; r < rows; ++r, a += a_row, to += kUnitDeep) {
    std::memcpy(static_cast<void*>(to), a, static_cast<size_t>(left) * sizeof(bfloat16));
    std::memset(static_cast<void*>(to + left), 0, static_cast<size_t>(kUnitDeep - left) * sizeof(bfloat16));
  }
}

// One register deep; `two` registers of rows, V of columns.
template <int V> KW_INLINE void unit_step(const bfloat16* a, int64_t a_row, const bfloat16* pairs, bool two) {
  constexpr int64_t kPairs = V * kUnitBytes;  // bytes of the pairs of all columns
  KW_TILE_LOAD(6, pairs, kPairs);
  if constexpr (V == 2) KW_TILE_LOAD(7, pairs + kUnitBytes / 2, kPairs);
  KW_TILE_LOAD(4, a, a_row * 2);
  KW_TILE_PAIRS(0, 4, 6);
  if constexpr (V == 2) KW_TILE_PAIRS(1, 4, 7);
  if (!two) return;
  KW_TILE_LOAD(5, a + kUnitRows * a_row, a_row * 2);
  KW_TILE_PAIRS(2, 5, 6);
  if constexpr (V == 2) KW_TILE_PAIRS(3, 5, 7);
}

// sums[rows][V * 16] = up to 32 rows times columns in pairs, `depth` inner elements; `ends` holds what is left of the rows.
template <int V>
void unit_sums(const bfloat16* a, int64_t a_row, const bfloat16* ends, const bfloat16* pairs, int64_t depth, bool two, float* sums) {
  constexpr int64_t kRow = V * kUnitBytes;
  asm volatile("" ::: "memory");  // loads of registers do not say that they read memory
  KW_TILE_ZERO(0);
  if constexpr (V == 2) KW_TILE_ZERO(1);
  if (two) KW_TILE_ZERO(2);
  if (two && V == 2) KW_TILE_ZERO(3);
  int64_t k = 0;
  for (; k + kUnitDeep <= depth; k += kUnitDeep) unit_step<V>(a + k, a_row, pairs + k * V * kUnitLanes, two);
  if (k < depth) unit_step<V>(ends, kUnitDeep, pairs + k * V * kUnitLanes, two);
  KW_TILE_STORE(0, sums, kRow);
  if constexpr (V == 2) KW_TILE_STORE(1, sums + kUnitLanes, kRow);
  if (two) KW_TILE_STORE(2, sums + kUnitRows * V * kUnitLanes, kRow);
  if (two && V == 2) KW_TILE_STORE(3, sums + kUnitRows * V * kUnitLanes + kUnitLanes, kRow);
}

// sums[rows][V * 16] = rows times columns, kChain inner elements summed at a time. `ends` are those rows'
// `copy_ends`, where there are any.
template <int V, class From>
void unit_rows(TileShapes& shapes, const bfloat16* a, int64_t a_row, int64_t rows, const bfloat16* ends, const From& b,
               int64_t inner, float* sums) {
  constexpr int64_t kLanes = V * kUnitLanes;
  static_assert(kChain % kUnitDeep == 0);
  alignas(64) bfloat16 pairs[kChain * kLanes];
  alignas(64) float found[kUnitHigh * kLanes];
  for (int64_t k = 0; k < inner; k += kChain) {
    const int64_t depth = std::min(kChain, inner - k);
    pair_up<kLanes>(b, k, depth, pairs);
    for (int64_t m = 0; m < rows; m += kUnitHigh) {
      const int64_t high = std::min(kUnitHigh, rows - m);
      const bool two = high > kUnitRows;
      shapes.set(std::min(high, kUnitRows), two ? high - kUnitRows : 0, kUnitLanes);
      unit_sums<V>(a + m * a_row + k, a_row, ends + m * kUnitDeep, pairs, depth, two, found);
      for (int64_t i = 0; i < high * kLanes; i += W) {
        float* to = sums + m * kLanes + i;
        const F sum = load(found + i, Full{});
        store(to, k ? load(to, Full{}) + sum : sum, Full{});
      }
    }
  }
}
#endif

}  // namespace kw
