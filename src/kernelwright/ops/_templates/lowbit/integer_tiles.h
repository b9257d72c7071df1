// What `integers.h` sums, by the tile unit: up to 32 rows of one plane by 32 of a panel's outputs in four registers of sums, a
// tile of 32 inner elements at a time, which is half of what a register holds. Sums of a block are whole numbers, and what
// follows them is what vectors do, in the same order, so results are the same bit by bit.
#pragma once
#include "integers.h"
#include "tile_unit.h"

#if KW_TILES
namespace kw {

constexpr int64_t kLeastTileRows = 4;  // an estimate: fewer take as long as by vectors, whatever the unit's rate

// held[32][32] = the rows at `a`, `apart` bytes from each other, times two parts of so many tiles of codes.
inline void tile_sums(const int8_t* a, int64_t apart, const uint8_t* codes, int64_t tiles, bool two, int32_t* held) {
  constexpr int64_t kPartBytes = kPart * kTile, kHeld = 2 * kPart * 4;
  asm volatile("" ::: "memory");  // loads of registers do not say that they read memory
  KW_TILE_ZERO(0);
  KW_TILE_ZERO(1);
  if (two) KW_TILE_ZERO(2);
  if (two) KW_TILE_ZERO(3);
  for (int64_t t = 0; t < tiles; ++t, a += kTile, codes += kPanel * kTile) {
    KW_TILE_LOAD(6, codes, kUnitBytes);
    KW_TILE_LOAD(7, codes + kPartBytes, kUnitBytes);
    KW_TILE_LOAD(4, a, apart);
    if (two) KW_TILE_LOAD(5, a + kUnitRows * apart, apart);
    KW_TILE_QUADS(0, 4, 6);
    KW_TILE_QUADS(1, 4, 7);
    if (two) KW_TILE_QUADS(2, 5, 6);
    if (two) KW_TILE_QUADS(3, 5, 7);
  }
  KW_TILE_STORE(0, held, kHeld);
  KW_TILE_STORE(1, held + kPart, kHeld);
  if (two) KW_TILE_STORE(2, held + kUnitRows * 2 * kPart, kHeld);
  if (two) KW_TILE_STORE(3, held + kUnitRows * 2 * kPart + kPart, kHeld);
}

// `integer_rows` of one plane and codes of 8 bits: adds what blocks [first, last) sum to; `codes` begins with block `first`.
inline void integer_tiles(TileShapes& shapes, const Bytes<1>& x, int64_t row, int64_t count, const uint8_t* codes,
                          const Groups& g, float unit, int64_t panel, int64_t first, int64_t last, float* sums) {
  const bool two = count > kUnitRows;
  shapes.set(std::min(count, kUnitRows), two ? count - kUnitRows : 0, kQuads);
  alignas(64) int32_t held[2 * kUnitRows * 2 * kPart];
  const int64_t blocks_of_group = g.tiles / x.block;
  for (int64_t b = first; b < last; ++b, codes += x.block * kPanel * kTile) {
    const int64_t tiles = std::min(x.block, x.tiles - b * x.block), group = b / blocks_of_group;
    const int8_t* const a = x.data.data + row * x.plane + b * x.block * kTile;
    for (int64_t out = 0; out < kPanel; out += 2 * kPart) {
      tile_sums(a, x.plane, codes + out * kTile, tiles, two, held);
      for (int64_t c = 0; c < 2 * kPart; c += W) {
        const int v = static_cast<int>((out + c) / W);
        const F scale = g.scale(panel, group, v);
        const M zero = g.zero_of(panel, group, v);
        for (int64_t r = 0; r < count; ++r) {
          const int64_t at = (row + r) * x.blocks + b;
          float* const to = sums + r * kPanel + out + c;
          M dot;
          std::memcpy(&dot, held + r * 2 * kPart + c, sizeof dot);
          F sum = fma(from_integers(dot - zero * splat<M>(x.sums.data[at])), scale * splat(x.scale.data[at] * unit),
                      load(to, Full{}));
          if (g.minima) sum = fma(g.minimum(panel, group, v), splat(x.sum_of(row + r, b)), sum);
          store(to, sum, Full{});
        }
      }
    }
  }
}

}  // namespace kw
#endif
