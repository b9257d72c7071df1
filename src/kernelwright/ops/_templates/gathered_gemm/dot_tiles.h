// The sums of `dots.h` by the tile unit: 32 rows by the 32 columns of a panel in four registers of sums, 64 bytes of each row
// at a time. A panel's steps are what the unit wants of a right factor, so nothing is packed again.
//
// Reads: 2 KiB of a panel and 2 KiB of rows for 32 rows by 32 columns by 16 steps, which take 64 cycles. What is left of rows
// is a shape of its own, what is left of steps is copied with zeros behind, so that few shapes are set: a block's whole
// tiles go by panel after panel first, then the rest. Sums of bfloat16 are of 32 products at a time, first elements and second
// elements of pairs apart, and subnormal numbers count as zero, as in AVX512-BF16.
#pragma once
#include "gemm.h"
#include "tile_unit.h"

#if KW_TILES
namespace kw {

constexpr int64_t kTileHigh = 2 * kUnitRows;  // rows of a block of four registers
constexpr int64_t kTileBlock = 6 * kTileHigh;   // rows that meet panel after panel, at most
constexpr int64_t kPanelStep = 2 * kUnitBytes;  // bytes of a panel's step
// Rows from which on the unit is asked until a trial of the call says otherwise: an estimate, measured on no machine. A register
// of the right factor takes 8 cycles to load and as many to multiply as the left has rows, so few rows wait for loads.
// Source: Intel 64 and IA-32 Architectures Optimization Reference Manual, chapter 20 ("Intel AMX"), throughputs.
constexpr int64_t kTileLeast = 4;

// One rest of rows or of a panel, with zeros behind: `count` rows of `bytes`, `apart` from one to the next, as rows of `wide`.
inline void copy_rest(char* to, int64_t wide, const char* from, int64_t apart, int64_t count, int64_t bytes) {
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(to + i * wide, from + i * apart, static_cast<size_t>(bytes));
    std::memset(to + i * wide + bytes, 0, static_cast<size_t>(wide - bytes));
  }
}

// What a block of rows is multiplied from: `whole` registers of `deep` steps where the rows lie, and a rest that was copied.
struct TileSteps {
  int64_t deep, whole, left;
  explicit TileSteps(int64_t steps)
      : deep(std::min(steps, kUnitLanes)), whole(steps / deep), left(steps % deep) {}
};

template <class Dot> KW_INLINE void tile_products(const char* a, int64_t apart, const char* panel, bool two) {
  KW_TILE_LOAD(6, panel, kPanelStep);
  KW_TILE_LOAD(7, panel + kUnitBytes, kPanelStep);
  KW_TILE_LOAD(4, a, apart);
  if (two) KW_TILE_LOAD(5, a + kUnitRows * apart, apart);
  if constexpr (Dot::elements == 2) {
    KW_TILE_PAIRS(0, 4, 6);
    KW_TILE_PAIRS(1, 4, 7);
    if (two) KW_TILE_PAIRS(2, 5, 6);
    if (two) KW_TILE_PAIRS(3, 5, 7);
  } else {
    KW_TILE_QUADS(0, 4, 6);
    KW_TILE_QUADS(1, 4, 7);
    if (two) KW_TILE_QUADS(2, 5, 6);
    if (two) KW_TILE_QUADS(3, 5, 7);
  }
}

// sums[32][32] of rows at `a` times a panel; `a_rest` and `panel_rest` hold what is left of the steps.
template <class Dot>
void tile_block(const char* a, int64_t apart, const char* panel, const TileSteps& s, const char* a_rest,
                const char* panel_rest, bool two, char* sums) {
  asm volatile("" ::: "memory");  // loads of registers do not say that they read memory
  KW_TILE_ZERO(0);
  KW_TILE_ZERO(1);
  if (two) KW_TILE_ZERO(2);
  if (two) KW_TILE_ZERO(3);
  for (int64_t i = 0; i < s.whole; ++i)
    tile_products<Dot>(a + i * 4 * s.deep, apart, panel + i * s.deep * kPanelStep, two);
  if (s.left) tile_products<Dot>(a_rest, kUnitBytes, panel_rest, two);
  KW_TILE_STORE(0, sums, kPanelStep);
  KW_TILE_STORE(1, sums + kUnitBytes, kPanelStep);
  if (two) KW_TILE_STORE(2, sums + kUnitRows * kPanelStep, kPanelStep);
  if (two) KW_TILE_STORE(3, sums + kUnitRows * kPanelStep + kUnitBytes, kPanelStep);
}

// Rows [first, first + here) of a product by panels [begin, end).
template <class Dot, class Put>
void tile_rows(TileShapes& shapes, const char* a, int64_t apart, int64_t first, int64_t here, const uint32_t* panels,
               int64_t begin, int64_t end, int64_t steps, const Put& put) {
  typedef typename Dot::Sum Sum;
  const TileSteps s(steps);
  alignas(64) char panel_rest[kUnitLanes * kPanelStep] = {};
  alignas(64) char sums[kTileHigh * kPanelStep];
  const Temporary<char> a_rest(s.left ? here * kUnitBytes : 0);
  if (s.left) copy_rest(a_rest.data, kUnitBytes, a + first * apart + s.whole * 4 * s.deep, apart, here, 4 * s.left);
  const auto of_height = [&](int64_t from, int64_t to, int64_t high) {
    const bool two = high > kUnitRows;
    shapes.set(std::min(high, kUnitRows), two ? high - kUnitRows : 0, s.deep);
    for (int64_t p = begin; p < end; ++p) {
      const char* panel = reinterpret_cast<const char*>(panels) + p * steps * kPanelStep;
      if (s.left) std::memcpy(panel_rest, panel + s.whole * s.deep * kPanelStep, static_cast<size_t>(s.left * kPanelStep));
      for (int64_t m = from; m < to; m += high) {
        tile_block<Dot>(a + (first + m) * apart, apart, panel, s, a_rest.data + m * kUnitBytes, panel_rest, two, sums);
        for (int64_t r = 0; r < high; ++r)
          for (int64_t c = 0; c < kTileHigh; c += W) {
            Sum sum;
            std::memcpy(&sum, sums + r * kPanelStep + c * 4, sizeof sum);
            put(sum, first + m + r, p * kTileHigh + c);
          }
      }
    }
  };
  const int64_t whole = here / kTileHigh * kTileHigh;
  if (whole) of_height(0, whole, kTileHigh);
  if (whole < here) of_height(whole, here, here - whole);
}

// `multiply_dots` by the tile unit; there is a step and a row.
template <class Dot, class Put>
void multiply_tiles(const char* a, int64_t apart, int64_t rows, const uint32_t* panels, int64_t count, int64_t steps,
                    Put put) {
  const bool alone = rows * count * kTileHigh * steps * Dot::elements < kSerialProducts;
  const int64_t threads = alone || omp_in_parallel() ? 1 : omp_get_max_threads();
  const int64_t most = std::max<int64_t>(1, kRowsBytes / (steps * 4) / kTileHigh) * kTileHigh;
  const int64_t high = std::min(kTileBlock, most), blocks = (rows + high - 1) / high;
  const int64_t groups = threads > 1 ? std::min(count, std::max<int64_t>(1, kTasks * threads / blocks)) : 1;
#pragma omp parallel num_threads(threads)
  {
    TileShapes shapes;
#pragma omp for schedule(dynamic, 1)
    for (int64_t i = 0; i < groups * blocks; ++i) {
      const int64_t first = i % blocks * high, group = i / blocks;
      tile_rows<Dot>(shapes, a, apart, first, std::min(high, rows - first), panels, count * group / groups,
                     count * (group + 1) / groups, steps, put);
    }
  }
}

}  // namespace kw
#endif
