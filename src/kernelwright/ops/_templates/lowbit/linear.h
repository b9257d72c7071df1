// out[m, n] = sum over k of x[m, k] * weight[n, k] + bias[n], the weight in codes: rows by panels, shared among threads.
//
// One row multiplies the codes as they lie, and so do more where a code comes out by a shift and a mask. Else they have a
// stretch of each panel expanded to bytes once, which the first caches hold, and multiply it in tiles of rows.
#pragma once
#include "integer_tiles.h"
#include "integers.h"
#include "reals.h"
#include "tuned.h"

namespace kw {

// A build may be for activations of so many bytes alone (`Parts` of the op): 2, 3, or 1 where they are quantised, and then
// for codes of 4 and 8 bits (1) or of others (4).
#ifdef KW_PLANES
constexpr bool has_planes(int count) { return count == (KW_PLANES == 4 ? 1 : KW_PLANES); }
constexpr bool has_bits(int bits) { return KW_PLANES == 2 || KW_PLANES == 3 || (bits % 4 == 0) == (KW_PLANES == 1); }
#else
constexpr bool has_planes(int) { return true; }
constexpr bool has_bits(int) { return true; }
#endif

constexpr int64_t kStretch = 8;       // tiles that are expanded at once: 16 KiB
constexpr int64_t kMostStretch = 32;  // and the most that may be
constexpr int64_t kRowsOfPanel = 32;  // rows whose sums a panel keeps: 8 KiB

struct LowBit {
  const uint8_t* codes;
  Meaning meaning;
  Groups groups;
  int64_t outputs, inner, tiles;  // tiles of a row

  int64_t panels() const { return (outputs + kPanel - 1) / kPanel; }
  const uint8_t* tile(int64_t panel, int64_t t) const {
    return codes + (panel * tiles + t) * (kPanel * kTile / 8) * meaning.bits;
  }
  // Tiles of a block, which divides a group and is no longer than 256 elements.
  int64_t block() const {
    int64_t tiles = std::min<int64_t>(8, groups.tiles);
    while (groups.tiles % tiles) --tiles;
    return tiles;
  }
  // Whether rows of one plane, or of more, are multiplied by them as integers.
  bool integers(bool one_plane) const {
    if (groups.halves) return false;
    if (meaning.exponent) return kDotBits && Table::holds(meaning);
    return meaning.bits <= (kDotLess128 && one_plane ? 8 : kDotBits);
  }
};

template <class T> void copy_floats(const void* from, int64_t inner, int64_t column, float* to) {
  const T* const x = static_cast<const T*>(from);
  int64_t k = 0;
  if (column == 1)
    for (; k + W <= inner; k += W) store(to + k, load(x + k, Full{}), Full{});
  for (; k < inner; ++k) to[k] = to_scalar(x[k * column]);
}
// The sums of a panel, `width` of them, with what is added to them.
template <class T> void leave(const float* sums, int64_t first, int64_t width, const void* bias, void* out) {
  T* const to = static_cast<T*>(out);
  const T* const more = bias ? static_cast<const T*>(bias) + first : nullptr;
  const auto put = [&](int64_t n, auto lanes) KW_INLINED {
    const F sum = load(sums + n, Full{});
    store(to + n, more ? sum + load(more + n, lanes) : sum, lanes);
  };
  int64_t n = 0;
  for (; n + W <= width; n += W) put(n, Full{});
  if (n < width) put(n, Part{static_cast<int>(width - n)});
}

// Rows of any type, a bias and what comes out of them: what multiplies is compiled once for all types.
struct Rows {
  const char* data;
  int64_t count, inner, row, column, size;  // size: bytes of an element
  const void* bias;  // of the outputs, or none
  char* out;
  void (*copied)(const void*, int64_t, int64_t, float*);
  void (*left)(const float*, int64_t, int64_t, const void*, void*);

  template <class T> static Rows of(const Tensor<const T>& x, const T* bias, T* out) {
    return {reinterpret_cast<const char*>(x.data()), x.shape(0), x.shape(1), x.stride(0), x.stride(1), int64_t(sizeof(T)),
            bias, reinterpret_cast<char*>(out), copy_floats<T>, leave<T>};
  }
  // A row as floats, zeros from its end to `padded`.
  void copy(int64_t i, float* to, int64_t padded) const {
    copied(data + i * row * size, inner, column, to);
    std::fill(to + inner, to + padded, 0.0f);
  }
};

// Rows as they are multiplied: one, or an even number, of which the last may be zeros.
inline int64_t even(int64_t rows) { return rows == 1 ? 1 : (rows + 1) / 2 * 2; }

// Calls body(panel, first row, rows, sums [rows][64]) for every panel and every block of rows; then the sums leave.
template <class Body> void by_panel(const LowBit& w, const Rows& x, Body body) {
  const int64_t panels = w.panels(), blocks = (x.count + kRowsOfPanel - 1) / kRowsOfPanel;
  const bool alone = x.count * w.outputs * w.inner < kSerialProducts || omp_in_parallel();
  const int64_t each = std::max<int64_t>(1, panels / (8 * omp_get_max_threads()));
#pragma omp parallel for collapse(2) schedule(dynamic, each) if (!alone)
  for (int64_t i = 0; i < blocks; ++i)
    for (int64_t p = 0; p < panels; ++p) {
      alignas(64) float sums[kRowsOfPanel * kPanel];
      const int64_t first = i * kRowsOfPanel, count = std::min(kRowsOfPanel, x.count - first);
      std::memset(sums, 0, static_cast<size_t>(even(count) * kPanel) * sizeof(float));
      body(p, first, count, sums);
      for (int64_t r = 0; r < count; ++r)
        x.left(sums + r * kPanel, p * kPanel, std::min(kPanel, w.outputs - p * kPanel), x.bias,
               x.out + ((first + r) * w.outputs + p * kPanel) * x.size);
    }
}

// Calls body(codes, a byte each; first tile, last tile) for the stretches of a panel.
template <class Change, class Body> void expanded(const LowBit& w, int64_t panel, int64_t step, Change change, Body body) {
  alignas(64) uint8_t bytes[kMostStretch * kPanel * kTile];
  for (int64_t t = 0; t < w.tiles; t += step) {
    const int64_t last = std::min(w.tiles, t + step);
    // The machine's own prefetching ends while rows are multiplied; the next stretch, or panel, is asked for by then.
    const uint8_t* const ahead = w.tile(panel, last);
    const int64_t size = step * (kPanel * kTile / 8) * w.meaning.bits;
    for (int64_t i = 0; i < size; i += 64) __builtin_prefetch(ahead + i, 0, 2);
    if (w.meaning.bits == 8) {
      body(w.tile(panel, t), t, last);
      continue;
    }
    by_bits(w.meaning.bits, [&](auto b) {
      for (int64_t i = t; i < last; ++i) expand<b.value>(w.tile(panel, i), bytes + (i - t) * kPanel * kTile);
    });
    change(bytes, (last - t) * kPanel * kTile);
    body(bytes, t, last);
  }
}

template <int P> bool by_integers(const LowBit& w, const Rows& x) {
  const int64_t padded = w.tiles * kTile;
  Bytes<P> bytes(even(x.count), w.tiles, w.block());
  bool held = true;
#pragma omp parallel if (x.count * padded > kSerialProducts && !omp_in_parallel())
  {
    const Temporary<float> row(padded);
#pragma omp for schedule(static) reduction(&& : held)
    for (int64_t r = 0; r < even(x.count); ++r) {
      if (r < x.count) x.copy(r, row.data, padded);
      else std::fill_n(row.data, padded, 0.0f);
      held = bytes.fill(r, row.data) && held;
    }
  }
  if (!held) return false;
  const Table table(w.meaning);
  Groups g = w.groups;
  const bool looked = w.meaning.exponent > 0;
  if (looked) g.zeros = nullptr, g.zero = Table::kOffset;
  const float unit = w.meaning.unit();
  // Tiles that are expanded at once; 0: none, codes are multiplied as they lie, which one row and some widths may be.
  const int64_t block = bytes.block, number = tuned_or(0);
  const int64_t step = std::max(block, std::min(kMostStretch, number ? number : kStretch) / block * block);
  const auto change = [&](uint8_t* codes, int64_t size) {
    if (!looked) return;
    for (int64_t i = 0; i < size; i += W * 4) {
      const U c = table.look(load_codes(codes + i));
      std::memcpy(codes + i, &c, sizeof c);
    }
  };
  by_panel(w, x, [&](int64_t p, int64_t first, int64_t count, float* sums) {
    count = even(count);
    const auto as_they_lie = [&](auto bits, auto looks) {
      constexpr bool kLess128 = bits.value == 8 && P == 1 && kDotLess128;
      if constexpr (!has_bits(bits.value)) KW_UNSUPPORTED("this build is for other codes");
      else integer_rows<bits.value, P, looks.value, kLess128>(bytes, first, count, w.tile(p, 0), g, table, unit, p, 0,
                                                         bytes.blocks, sums);
    };
#if KW_TILES
    if constexpr (P == 1)
      if (count >= kLeastTileRows && tile_unit_usable()) {
        TileShapes shapes;
        return expanded(w, p, step, change, [&](const uint8_t* codes, int64_t t, int64_t last) {
          integer_tiles(shapes, bytes, first, count, codes, g, unit, p, t / block, (last + block - 1) / block, sums);
        });
      }
#endif
    if (looked && count == 1 && w.meaning.bits == 4)
      return as_they_lie(std::integral_constant<int, 4>{}, std::true_type{});
    const bool whole = w.meaning.bits == 8;  // nothing to expand
    if (!looked && (number == 0 || whole) && (count == 1 || one_limb(w.meaning.bits)))
      return by_bits(w.meaning.bits, [&](auto bits) { as_they_lie(bits, std::false_type{}); });
    expanded(w, p, step, change, [&](const uint8_t* codes, int64_t t, int64_t last) {
      integer_rows<8, P, false>(bytes, first, count, codes, g, table, unit, p, t / block, (last + block - 1) / block, sums);
    });
  });
  return true;
}

template <class X> void by_reals(const LowBit& w, const X& x) {
  const int64_t padded = w.tiles * kTile;
  const Temporary<float> rows(x.count * padded);
#pragma omp parallel for schedule(static) if (x.count * padded > kSerialProducts && !omp_in_parallel())
  for (int64_t r = 0; r < x.count; ++r) x.copy(r, rows.data + r * padded, padded);
  const ToReal to(w.meaning);
  const auto all = [&](auto small) {
    by_panel(w, x, [&](int64_t p, int64_t first, int64_t count, float* sums) {
      expanded(w, p, kStretch, [](uint8_t*, int64_t) {}, [&](const uint8_t* codes, int64_t t, int64_t last) {
        const auto tiles = [&](auto high, int64_t r) {
          for (int v = 0; v < kVectors; v += 4)
            real_tile<small.value, high.value, 4>(rows.data + (first + r) * padded, padded, codes, w.groups, to, p, v, t,
                                                  last, sums + r * kPanel);
        };
        int64_t r = 0;
        for (; r + 4 <= count; r += 4) tiles(std::integral_constant<int, 4>{}, r);
        for (; r < count; ++r) tiles(std::integral_constant<int, 1>{}, r);
      });
    });
  };
  if (to.small) all(std::true_type{});
  else all(std::false_type{});
}

// Activations keep what their dtype holds, in two bytes of bfloat16 and three of float32, or are quantised to 8 bits block by
// block.
template <class X> void low_bit_linear(const LowBit& w, const X& x, bool quantised) {
  if (x.count == 0 || w.outputs == 0) return;
  if (w.integers(quantised)) {
    const auto planes = [&](auto count) -> bool {
      if constexpr (has_planes(count.value)) return by_integers<count.value>(w, x);
      else KW_UNSUPPORTED("this build is for other activations");
    };
    if (quantised) return void(planes(std::integral_constant<int, 1>{}));
    if (x.size == 2 ? planes(std::integral_constant<int, 2>{}) : planes(std::integral_constant<int, 3>{})) return;
  }
  if (quantised) KW_UNSUPPORTED("activations as int8 want codes that are integers of 8 bits or less");
  if constexpr (has_planes(2) || has_planes(3)) by_reals(w, x);
}

}  // namespace kw
