// out[b, m, n] = finish(sum over k of left[b, m, k] * right[b, k, n]), the right factor packed ahead of the call: panels of
// columns that lie side by side, each read from memory once, from end to end, for every block of rows.
//
// Rows of the left factor are read where they lie, or after they were computed once (what is fused before the product).
// A tile of sums stays in registers for some hundred inner elements and in the first cache from there on; it is finished
// and stored from there, as nothing after it. Where a tile has as many rows as 32 registers allow, neither factor wants panels
// of some depth: both stream through the second cache at less than what it delivers. Where it has six, columns do.
#pragma once
#include "register_tiles.h"
#include "tile_kernel.h"

namespace kw {

// Of columns that several tiles of rows multiply: elements that stay in the first cache for so many rows. A tile of six rows
// takes a line of columns every six cycles.
constexpr int64_t kDeep = 256, kDeepRows = 144;
constexpr int64_t kLeastDeep = 128;  // inner elements from which on it pays that the next columns are fetched meanwhile
constexpr int64_t kManyColumns = 64;  // from which on it pays that rows are laid out as such tiles take them
constexpr int64_t kRowsBytes = int64_t(1) << 19;  // of the left factor that are multiplied by panel after panel
constexpr int64_t kTasks = 6;                  // tasks a thread, where there are as many: those that are late end together

// How rows lie that tiles take from the second cache, one after another from end to end: [items][blocks][chunks][parts][tiles]
// [inner][rows of a tile]. A chunk is as many rows as have their sums in the first cache; a part is inner elements.
struct Deep {
  int64_t inner, parts, chunks;
  bool pairs;  // two tiles that share a panel are multiplied at once
  // As for two tiles wherever a panel has two: which tiles come in pairs depends on the threads, and no sum may.
  Deep(int64_t inner, int64_t block, bool pairs)
      : inner(inner), parts((inner * (pairs ? 2 : 1) + kDeep - 1) / kDeep),
        chunks((block * (pairs ? 2 : 1) + kDeepRows - 1) / kDeepRows), pairs(pairs) {}
  int64_t begin(int64_t part) const { return inner * part / parts; }
};

// A right factor of panels [items][columns / run][inner][members][run], or [items][tiles][inner][columns of a tile] where it is
// `Cut`, and what is multiplied by it.
template <class P, class T, class A> struct PackedProduct {
  using Tiles = RegisterTiles<typename P::Tile, T, A>;
  const Shape& s;
  const T* right;

  int64_t tiles_of_run() const { return (s.run + P::columns - 1) / P::columns; }
  int64_t tiles() const { return tiles_of_run() * (s.columns / std::max<int64_t>(1, s.run)); }

  // Elements from an inner one to the next.
  int64_t right_row() const { return is_cut<P> ? P::columns : P::members * s.run; }
  bool pairs() const { return right_row() >= 2 * P::all * W; }

  // Where a tile of columns begins.
  const T* columns_of(int64_t b, int64_t tile) const {
    if (is_cut<P>) return right + (b * tiles() + tile) * P::columns * s.inner;
    const int64_t panel = tile / tiles_of_run(), at = tile % tiles_of_run() * P::columns;
    return right + (b * s.columns + panel * s.run) * P::members * s.inner + at;
  }

  // Some rows by one tile of columns: sums come to put(row, column, lanes, sums...).
  template <class Put>
  void tile(const A* a, int64_t a_row, int64_t rows, int64_t b, int64_t tile, Put put) const {
    const int64_t panel = tile / tiles_of_run(), at = tile % tiles_of_run() * P::columns;
    const int64_t b_row = right_row(), width = std::min(P::columns, s.run - at);
    const T* from = columns_of(b, tile);
    alignas(64) float sums[P::rows * P::all * W];
    const auto multiplied = [&](auto vectors, int64_t within, auto lanes) KW_INLINED {
      constexpr int V = vectors.value;
      const int64_t apart = V == P::members && V > 1 ? s.run : W;
      for (int64_t k = 0; k < s.inner || k == 0; k += kChain) {
        const auto sum = [&](auto* tile, auto some) KW_INLINED {
          tile(a + k, a_row, from + within + k * b_row, b_row, apart, std::min(kChain, s.inner - k), sums, V * W, k != 0, some,
               Fetched{}, rows);
        };
        if constexpr (V == P::all && std::is_same_v<decltype(lanes), Full>) sum(Tiles::whole, lanes);
        else sum(Tiles::narrow, part_of(lanes));
      }
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t v = 0; v < V / P::members; ++v) {
          const auto sum = [&](int64_t member) KW_INLINED {
            return load(sums + (r * V + member * (V / P::members) + v) * W, Full{});
          };
          const int64_t n = panel * s.run + at + within + v * W;
          if constexpr (P::members > 1) put(r, n, lanes, sum(0), sum(1));
          else put(r, n, lanes, sum(0));
        }
    };
    if (width == P::columns) return multiplied(std::integral_constant<int, P::all>{}, 0, Full{});
    constexpr std::integral_constant<int, P::members> one{};
    int64_t within = 0;
    for (; within + W <= width; within += W) multiplied(one, within, Full{});
    if (within < width) multiplied(one, within, Part{static_cast<int>(width - within)});
  }

  // Whether several tiles of rows multiply the same columns, so many that rows are laid out for that (`Deep`).
  bool deep(int64_t rows) const {
    return Tiles::kMayBeDeep && rows > P::rows && s.inner >= kLeastDeep && s.columns * P::members >= kManyColumns;
  }

  // Some rows by columns of one panel, by some inner elements, which stay in the first cache, then by the next, which are
  // fetched meanwhile. Sums wait in that cache too. `tiles` tiles of V vectors from `at` on within the panel.
  template <int V, class Lanes, class Put>
  void deep_tiles(const A* a, const Deep& d, int64_t count, int64_t tiles, int64_t panel, const T* from, const T* after,
                  int64_t at, Lanes lanes, Put put) const {
    const int64_t b_row = right_row(), apart = P::members > 1 ? s.run : W, bytes = b_row * int64_t(sizeof(T));
    constexpr int64_t wide = V / P::members * W;
    alignas(64) float sums[kDeepRows * V * W];
    const auto sums_of = [&](int64_t row, int64_t t) { return sums + (row * tiles + t) * V * W; };
    const Heights<P::rows> high(count);
    for (int64_t part = 0; part < d.parts; ++part) {
      const int64_t k = d.begin(part), depth = d.begin(part + 1) - k, step = bytes / (high.tiles * tiles);
      const T* next = part + 1 < d.parts ? from + (k + depth) * b_row : after;
      for (int64_t i = 0; i < high.tiles * tiles; ++i) {
        const int64_t t = i % tiles, row = high.row(i / tiles);
        const Fetched fetched{reinterpret_cast<const char*>(next) + depth * i / (high.tiles * tiles) * bytes, step};
        const auto sum = [&](auto* tile, auto some) KW_INLINED {
          tile(a + k * count + row * depth, 1, from + k * b_row + t * wide, b_row, apart, depth, sums_of(row, t), tiles * V * W,
               part != 0, some, fetched, high.rows(i / tiles));
        };
        if constexpr (V == P::all && std::is_same_v<Lanes, Full>) sum(Tiles::deep_whole, lanes);
        else sum(Tiles::deep_narrow, part_of(lanes));
      }
    }
    for (int64_t r = 0; r < count; ++r)
      for (int64_t t = 0; t < tiles; ++t)
        for (int64_t v = 0; v < V / P::members; ++v) {
          const auto sum = [&](int64_t member) KW_INLINED {
            return load(sums_of(r, t) + (member * (V / P::members) + v) * W, Full{});
          };
          const int64_t column = panel * s.run + at + t * wide + v * W;
          if constexpr (P::members > 1) put(r, column, lanes, sum(0), sum(1));
          else put(r, column, lanes, sum(0));
        }
  }

  // A block of rows as they are laid out, by tiles `first` to `last` of columns; m is the block's first row.
  template <class Finish>
  void deep_block(const A* block, const Deep& d, int64_t b, int64_t m, int64_t count, int64_t first, int64_t last,
                  Finish finish) const {
    for (int64_t j = first, tiles = 1; j < last; j += tiles) {
      const int64_t panel = j / tiles_of_run(), at = j % tiles_of_run() * P::columns, left = s.run - at;
      const T* from = columns_of(b, j);
      tiles = d.pairs && j + 1 < last && left >= 2 * P::columns ? 2 : 1;
      const T* after = columns_of(b, j + tiles);
      for (int64_t i = 0; i < d.chunks; ++i) {
        const int64_t row = count * i / d.chunks, rows = count * (i + 1) / d.chunks - row;
        const A* a = block + row * s.inner;
        const auto put = [&](int64_t r, int64_t n, auto lanes, auto... sums) KW_INLINED {
          finish(sums..., b, m + row + r, n, lanes);
        };
        if (left >= P::columns) {
          deep_tiles<P::all>(a, d, rows, tiles, panel, from, after, at, Full{}, put);
          continue;
        }
        int64_t within = 0;
        for (; within + W <= left; within += W)
          deep_tiles<P::members>(a, d, rows, 1, panel, from + within, after, at + within, Full{}, put);
        if (within < left)
          deep_tiles<P::members>(a, d, rows, 1, panel, from + within, after, at + within,
                                 Part{static_cast<int>(left - within)}, put);
      }
    }
  }

#if KW_TILES
  // Registers of the tile unit that hold the columns of a tile.
  static constexpr int kUnits = P::all * int(W) / int(kUnitLanes);
  static constexpr bool kMayUseUnit =
      std::is_same_v<A, bfloat16> && std::is_same_v<T, bfloat16> && P::all * W % kUnitLanes == 0 && (kUnits < 2 || kUnits % 2 == 0);
  bool by_unit() const {
    return kMayUseUnit && s.rows >= kUnitLeast && s.inner > 0 && s.run % P::columns == 0 && tile_unit_usable();
  }

  // Rows m to m + count where they lie, by tiles of columns, by the tile unit.
  template <class Finish>
  void unit_block(TileShapes& shapes, const InPlace<A>& left, int64_t b, int64_t m, int64_t count, int64_t first, int64_t last,
                  Finish finish) const {
    constexpr int V = std::min(2, kUnits);
    constexpr int64_t kLanes = V * kUnitLanes;
    const A* rows = left.data + b * left.item + m * left.row;
    const int64_t rest = s.inner % kUnitDeep, most = std::min(count, kUnitBlock);
    const Temporary<A> ends(rest ? count * kUnitDeep : 0);
    if (rest) copy_ends(rows + s.inner - rest, left.row, count, rest, ends.data);
    const Temporary<float> sums(most * P::all * W);
    for (int64_t j = first; j < last; ++j)
      for (int64_t begin = 0; begin < count; begin += kUnitBlock) {
        const int64_t here = std::min(kUnitBlock, count - begin);
        const int64_t n = j / tiles_of_run() * s.run + j % tiles_of_run() * P::columns;
        for (int64_t i = 0; i < kUnits / V; ++i) {
          const int64_t member = i * kLanes / P::columns, within = i * kLanes % P::columns;
          const Columns<P::columns> columns{columns_of(b, j) + member * s.run + within, P::members * s.run, s.run};
          unit_rows<V>(shapes, rows + begin * left.row, left.row, here, ends.data + begin * kUnitDeep, columns, s.inner,
                       sums.data + i * here * kLanes);
        }
        for (int64_t r = 0; r < here; ++r)
          for (int64_t v = 0; v < P::vectors; ++v) {
            const auto sum = [&](int64_t member) KW_INLINED {
              const int64_t lane = (member * P::vectors + v) * W;
              return load(sums.data + lane / kLanes * here * kLanes + r * kLanes + lane % kLanes, Full{});
            };
            if constexpr (P::members > 1) finish(sum(0), sum(1), b, m + begin + r, n + v * W, Full{});
            else finish(sum(0), b, m + begin + r, n + v * W, Full{});
          }
      }
  }
#endif

  // Rows m to m + count where they lie, by tiles of columns, panel after panel, in tiles that are as high as each other.
  template <class Finish>
  void block(const InPlace<A>& left, int64_t b, int64_t m, int64_t count, int64_t first, int64_t last,
             Finish finish) const {
    const Heights<P::rows> high(count);
    const A* rows = left.data + b * left.item + m * left.row;
    for (int64_t j = first; j < last; ++j)
      for (int64_t i = 0; i < high.tiles; ++i) {
        const int64_t row = high.row(i);
        tile(rows + row * left.row, left.row, high.rows(i), b, j,
             [&](int64_t r, int64_t n, auto lanes, auto... sums) KW_INLINED { finish(sums..., b, m + row + r, n, lanes); });
      }
  }
};

template <class A, class Left> bool wants_room(const Shape& s, const Left& left) {
  if constexpr (std::is_same_v<Left, InPlace<A>>) return s.rows > 4 && left.row * int64_t(sizeof(A)) % 4096 == 0;
  return true;
}

// Blocks of rows that stay in the second cache, and groups of tiles of columns: tasks enough for all threads.
struct Tasks {
  int64_t threads, blocks, groups;
};
template <class P, class A> Tasks tasks_of(const Shape& s, int64_t tiles) {
  const bool alone = s.batch * s.rows * s.columns * s.inner * P::members < kSerialProducts;
  const int64_t threads = alone || omp_in_parallel() ? 1 : omp_get_max_threads();
  const int64_t held = P::block ? P::block : kRowsBytes / int64_t(sizeof(A)) / std::max<int64_t>(1, s.inner);
  const int64_t high = std::max<int64_t>(held, P::rows), blocks = (s.rows + high - 1) / high;
  const int64_t wanted = threads > 1 ? std::max<int64_t>(1, kTasks * threads / (blocks * s.batch)) : 1;
  return {threads, blocks, std::min(tiles, wanted)};
}

// Rows are laid out by all threads, then blocks of them are multiplied by groups of tiles.
template <class P, class T, class A, class Left, class Finish>
void multiply_deep(const PackedProduct<P, T, A>& product, Left left, float* room, const Tasks& tasks, Finish finish) {
  using Tiles = typename PackedProduct<P, T, A>::Tiles;
  const Shape& s = product.s;
  const int64_t tiles = product.tiles(), blocks = tasks.blocks, groups = tasks.groups;
  const Deep d(s.inner, (s.rows + blocks - 1) / blocks, product.pairs());
#pragma omp parallel num_threads(tasks.threads)
  {
#pragma omp for schedule(static)
    for (int64_t i = 0; i < s.batch * blocks * d.chunks * d.parts; ++i) {
      const int64_t part = i % d.parts, chunk = i / d.parts % d.chunks, at = i / d.parts / d.chunks % blocks;
      const int64_t b = i / d.parts / d.chunks / blocks, m = s.rows * at / blocks, count = s.rows * (at + 1) / blocks - m;
      const int64_t row = count * chunk / d.chunks, rows = count * (chunk + 1) / d.chunks - row, k = d.begin(part);
      float* const to = room + (b * s.rows + m + row) * s.inner + k * rows;
      if constexpr (std::is_same_v<Left, InPlace<A>>) Tiles::lay(left, b, m + row, rows, k, d.begin(part + 1) - k, to);
      else lay_tiles<P::rows>(left, b, m + row, rows, s.rows, k, d.begin(part + 1) - k, to);
    }
#pragma omp for schedule(dynamic, 1)
    for (int64_t i = 0; i < s.batch * groups * blocks; ++i) {
      const int64_t at = i % blocks, group = i / blocks % groups, b = i / blocks / groups;
      const int64_t m = s.rows * at / blocks, end = s.rows * (at + 1) / blocks;
      product.deep_block(room + (b * s.rows + m) * s.inner, d, b, m, end - m, tiles * group / groups,
                         tiles * (group + 1) / groups, finish);
    }
  }
}

template <class P, class Left, class T, class Finish>
void multiply(const Shape& s, Left left, const T* right, Finish finish) {
  if constexpr (kMayWiden<P>)
    if (s.rows <= Wider<P>::rows && (P::members > 1 ? s.run == 2 * P::columns : s.run % (2 * P::columns) == 0))
      return multiply<Wider<P>>(s, left, right, finish);
  using A = Factor<Left, T>;
  using Product = PackedProduct<P, T, A>;
  using Tiles = typename Product::Tiles;
  const Product product{s, right};
  if (s.batch * s.rows * s.columns == 0) return;
  const int64_t tiles = product.tiles();
  const Tasks tasks = tasks_of<P, A>(s, tiles);
  const int64_t threads = tasks.threads, blocks = tasks.blocks, groups = tasks.groups;
  const bool deep = product.deep((s.rows + blocks - 1) / blocks), moved = !deep && wants_room<A>(s, left);
  const Temporary<A> room(deep ? s.batch * s.rows * s.inner : moved ? s.batch * s.rows * apart_of<A>(s) : 0);
  if constexpr (Tiles::kMayBeDeep)
    if (deep) return multiply_deep(product, left, room.data, tasks, finish);
#pragma omp parallel num_threads(threads)
  {
    InPlace<A> rows;
    if constexpr (!std::is_same_v<Left, InPlace<A>>) rows = rows_of<Left, A>(s, left, room.data);
    else rows = moved ? Tiles::moved(s, left, room.data) : left;
#if KW_TILES
    TileShapes shapes;
    const bool by_unit = product.by_unit();
#endif
#pragma omp for schedule(dynamic, 1)
    for (int64_t i = 0; i < s.batch * groups * blocks; ++i) {
      const int64_t at = i % blocks, group = i / blocks % groups, b = i / blocks / groups;
      const int64_t m = s.rows * at / blocks, end = s.rows * (at + 1) / blocks;
      const int64_t first = tiles * group / groups, last = tiles * (group + 1) / groups;
#if KW_TILES
      if constexpr (Product::kMayUseUnit)
        if (by_unit) {
          product.unit_block(shapes, rows, b, m, end - m, first, last, finish);
          continue;
        }
#endif
      product.block(rows, b, m, end - m, first, last, finish);
    }
  }
}

}  // namespace kw
