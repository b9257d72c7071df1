// What tiles of packed products do that depends on no kernel: sums of rows by vectors of columns, rows laid out for that.
//
// Compiling it takes longer than all that a kernel adds to it. A kernel's file declares it `extern`, and a file that only says
// `template struct RegisterTiles<...>` is compiled once for all kernels that are tiled alike.
#pragma once
#include "contraction.h"

namespace kw {

// The left factor as it lies in memory, its inner elements side by side.
template <class T> struct InPlace {
  const T* data;
  int64_t item, row;  // elements from one to the next
};
template <class T> InPlace(const T*, int64_t, int64_t) -> InPlace<T>;
template <class T> constexpr bool is_in_place = false;
template <class T> constexpr bool is_in_place<InPlace<T>> = true;

// rows: of a register tile, 0 for as many as the registers hold. vectors: of columns. members: products of the same left
// factor that are multiplied at once; a panel holds a share of each, side by side. block: rows that are multiplied by
// panel after panel, 0 for as many as the second cache holds.
template <int rows_, int vectors_, int members_ = 1, int64_t block_ = 0> struct Packed {
  static constexpr int members = members_;
  static constexpr int vectors = members_ > 1 ? 1 : vectors_;  // of each member
  static constexpr int all = vectors * members;
  static constexpr int rows = rows_ ? rows_ : all > 2 ? (kTileRows + 1) / 2 : kTileRows;
  static constexpr int64_t columns = vectors * W;  // of the result
  static constexpr int64_t block = block_;
  using Tile = Packed<rows_, vectors_, members_>;  // what register tiles depend on
};

// Vectors of a tile where a panel has so few columns that they are no more than two tiles.
constexpr int vectors_of(int run, int most) { return std::max(1, std::min(run / int(W), most)); }

// The same with twice the columns, for one or two rows: with vectors of 8, a tile of P reads half of what lies side by side, and
// memory would be walked in two passes.
template <class P> struct Wider {
  static constexpr int members = P::members, vectors = 2 * P::vectors, all = 2 * P::all, rows = 2;
  static constexpr int64_t columns = 2 * P::columns, block = P::block;
  using Tile = Wider<typename P::Tile>;
};
template <class P> constexpr bool is_wider = false;
template <class P> constexpr bool is_wider<Wider<P>> = true;
template <class P> constexpr bool kMayWiden = W == 8 && P::all == 2;

// The same where panels are as wide as a tile, whatever columns lie side by side in the result.
template <class P> struct Cut : P {
  static_assert(P::members == 1);
};
template <class P> constexpr bool is_cut = false;
template <class P> constexpr bool is_cut<Cut<P>> = true;

// Whether rows are laid out for tiles wherever several multiply the same columns: with registers for six rows, not with 32.
constexpr bool kDeepTiles = W == 8;

// Rows in tiles of at most R that are as high as each other.
template <int R> struct Heights {
  int64_t tiles, each, more;
  explicit Heights(int64_t count) : tiles((count + R - 1) / R), each(count / tiles), more(count % tiles) {}
  int64_t rows(int64_t i) const { return each + (i < more); }
  int64_t row(int64_t i) const { return i * each + std::min(i, more); }
};

// Elements from a computed row to the next: a line more than whole vectors, so not a power of two.
template <class A> int64_t apart_of(const Shape& s) { return (s.inner + W - 1) / W * W + 64 / int64_t(sizeof(A)); }

// Where rows of the left factor lie: as they are, or computed by all threads and stored a line more than a power of two
// apart, so that a tile's do not share their places in the cache. To be called by all threads of a team.
template <class Left, class A> InPlace<A> rows_of(const Shape& s, const Left& left, A* room) {
  if constexpr (std::is_same_v<Left, InPlace<A>>) {
    if (!room) return left;
  }
  const int64_t apart = apart_of<A>(s);
#pragma omp for schedule(static)
  for (int64_t i = 0; i < s.batch * s.rows; ++i) {
    const int64_t b = i / s.rows, m = i % s.rows;
    const auto copied = [&](int64_t k, auto lanes) KW_INLINED {
      if constexpr (is_in_place<Left>)
        store(room + i * apart + k, load(left.data + b * left.item + m * left.row + k, lanes), lanes);
      else store(room + i * apart + k, left(b, m, k, lanes), lanes);
    };
    int64_t k = 0;
    for (; k + W <= s.inner; k += W) copied(k, Full{});
    if (k < s.inner) copied(k, Part{static_cast<int>(s.inner - k)});
  }
  return {room, s.rows * apart, apart};
}

// A tile of up to W rows, elements of all rows side by side: to[k, r] = row(r, k).
template <class Row> KW_INLINE void lay_tile(Row row, int64_t rows, int64_t depth, float* to) {
  const Part tile{static_cast<int>(rows)};
  for (int64_t at = 0; at < depth; at += W) {
    F v[W];
    const auto read = [&](auto lanes) KW_INLINED {
      for (int r = 0; r < W; ++r) {
        if (r < rows) v[r] = row(r, at, lanes);
        else v[r] = F{};
      }
    };
    if (depth - at >= W) read(Full{});
    else read(Part{static_cast<int>(depth - at)});
    transpose_lanes(v);
    for (int j = 0; j < W && at + j < depth; ++j, to += rows) {
      if ((depth - at - j) * rows >= W) store(to, v[j], Full{});  // what is too many, the next overwrite
      else store(to, v[j], tile);
    }
  }
}

// The same of a left factor that lies so: its lanes run along rows, of which there are `all`.
template <class Function>
KW_INLINE void lay_tile(const OfRows<Function>& left, int64_t b, int64_t m, int64_t rows, int64_t all, int64_t k, int64_t depth,
                        float* to) {
  const Part tile{static_cast<int>(rows)};
  int64_t i = 0;
  if (m + W <= all)  // what is too many, the next overwrites
    for (; (depth - i) * rows >= W; ++i) store(to + i * rows, left.function(b, m, k + i, Full{}), Full{});
  for (; i < depth; ++i) store(to + i * rows, left.function(b, m, k + i, tile), tile);
}

// Elements k to k + depth of some rows of the left factor as tiles of R of them take them.
template <int R, class Left>
void lay_tiles(const Left& left, int64_t b, int64_t m, int64_t count, int64_t all, int64_t k, int64_t depth, float* to) {
  const Heights<R> high(count);
  for (int64_t i = 0; i < high.tiles; ++i) {
    const int64_t row = m + high.row(i);
    if constexpr (is_of_rows<Left>) lay_tile(left, b, row, high.rows(i), all, k, depth, to + high.row(i) * depth);
    else lay_tile(
        [&](int64_t r, int64_t at, auto lanes) KW_INLINED {
          if constexpr (is_in_place<Left>) return load(left.data + b * left.item + (row + r) * left.row + k + at, lanes);
          else return left(b, row + r, k + at, lanes);
        },
        high.rows(i), depth, to + high.row(i) * depth);
  }
}

// What rows of the left factor are multiplied as: those in place as the micro-kernel takes them, others as float32.
template <class Left, class T>
using Factor = std::conditional_t<std::is_same_v<Left, InPlace<Multiplied<T>>>, Multiplied<T>, float>;

constexpr Part part_of(Full) { return {static_cast<int>(W)}; }
constexpr Part part_of(Part lanes) { return lanes; }

// Parameters of `packed_tile`, then the rows: all but these are passed on where they are.
template <class A, class T, class Lanes>
using Rows = void(const A* a, int64_t a_row, const T* b, int64_t b_row, int64_t apart, int64_t depth, float* sums, int64_t sums_row,
                  bool add, Lanes, Fetched next, int64_t rows);

// Tiles of P. Where its columns end there are narrow ones: a vector of each member, or part of one. Deep ones take rows as they
// are laid out, and fetch what comes next.
template <class P, class T, class A> struct RegisterTiles {
  static constexpr bool kMayBeDeep = kDeepTiles && !is_wider<P> && P::rows <= W && std::is_same_v<A, float>;

  static Rows<A, T, Full> whole, deep_whole;
  static Rows<A, T, Part> narrow, deep_narrow;
  static void lay(const InPlace<A>& left, int64_t b, int64_t m, int64_t count, int64_t k, int64_t depth, float* to);
  static InPlace<A> moved(const Shape& s, const InPlace<A>& left, A* room);
};

// Defined out of the class: what is defined within is compiled wherever it could be inlined.
template <class P, class T, class A>
void RegisterTiles<P, T, A>::whole(const A* a, int64_t a_row, const T* b, int64_t b_row, int64_t apart, int64_t depth, float* sums,
                                    int64_t sums_row, bool add, Full lanes, Fetched next, int64_t rows) {
  packed_rows<P::rows, P::all>(rows, a, a_row, b, b_row, apart, depth, sums, sums_row, add, lanes, next);
}
template <class P, class T, class A>
void RegisterTiles<P, T, A>::narrow(const A* a, int64_t a_row, const T* b, int64_t b_row, int64_t apart, int64_t depth, float* sums,
                                    int64_t sums_row, bool add, Part lanes, Fetched next, int64_t rows) {
  if constexpr (!is_wider<P>)
    packed_rows<P::rows, P::members>(rows, a, a_row, b, b_row, apart, depth, sums, sums_row, add, lanes, next);
}
template <class P, class T, class A>
void RegisterTiles<P, T, A>::deep_whole(const A* a, int64_t a_row, const T* b, int64_t b_row, int64_t apart, int64_t depth, float* sums,
                                    int64_t sums_row, bool add, Full lanes, Fetched next, int64_t rows) {
  if constexpr (kMayBeDeep)
    packed_rows<P::rows, P::all, true, true>(rows, a, a_row, b, b_row, apart, depth, sums, sums_row, add, lanes, next);
}
template <class P, class T, class A>
void RegisterTiles<P, T, A>::deep_narrow(const A* a, int64_t a_row, const T* b, int64_t b_row, int64_t apart, int64_t depth, float* sums,
                                    int64_t sums_row, bool add, Part lanes, Fetched next, int64_t rows) {
  if constexpr (kMayBeDeep)
    packed_rows<P::rows, P::members, true, true>(rows, a, a_row, b, b_row, apart, depth, sums, sums_row, add, lanes, next);
}
template <class P, class T, class A>
void RegisterTiles<P, T, A>::lay(const InPlace<A>& left, int64_t b, int64_t m, int64_t count, int64_t k, int64_t depth,
                                 float* to) {
  if constexpr (kMayBeDeep) lay_tiles<P::rows>(left, b, m, count, m + count, k, depth, to);
}
template <class P, class T, class A>
InPlace<A> RegisterTiles<P, T, A>::moved(const Shape& s, const InPlace<A>& left, A* room) {
  return rows_of<InPlace<A>, A>(s, left, room);
}

}  // namespace kw
