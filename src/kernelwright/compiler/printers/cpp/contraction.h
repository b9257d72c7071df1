// out[b, m, n] = finish(sum over k of left[b, m, k] * right[b, k, n]): blocks of rows by groups of columns, one a
// thread at a time; register tiles within. The kernel gives three functions of vectors:
//   left(b, m, k, lanes)      elements k, k + 1, ... of a row; what is fused before the product is in it,
//   right(b, k, n, lanes)     elements of a row of the right factor (along n) or of a column (along k),
//   finish(sums, b, m, n, lanes)  what is fused after the product, and the store.
#pragma once
#include "micro_kernel.h"

namespace kw {

constexpr int64_t kSerialProducts = 1 << 17;  // multiplications that one thread does alone
// Rows of a register tile: with two vectors of columns it takes most of 32 registers, or of 16.
constexpr int kTileRows = W == 8 ? 6 : 12;

struct Shape {
  int64_t batch, rows, columns, inner;
  int64_t run;  // columns that lie side by side; vectors end with it
};

enum class Form {
  kPanels,  // right is packed, a panel of depth by one tile's columns at a time
  kDirect,  // right is read where it lies, once for every row of tiles
  kDots,    // lanes run along k: rows of left times columns of right
};
enum class Along { kColumns, kInner };  // what the lanes of right(...) run along

template <Form form_, Along along_, int rows_, int vectors_, int64_t depth_, int64_t block_, bool at_once_ = false,
          int split_ = 1, class A_ = float>
struct Tiling {
  using A = A_;                                  // what panels hold: pairs of bfloat16 are multiplied as they are
  static constexpr Form form = form_;
  static constexpr Along along = along_;
  static constexpr int rows = form_ == Form::kDots ? 4 : rows_ ? rows_ : kTileRows;
  static constexpr int vectors = vectors_;       // of columns
  static constexpr int64_t depth = depth_;       // inner elements of a panel: the first cache
  static constexpr int64_t block = block_ * int64_t(sizeof(float) / sizeof(A_));  // rows packed at once: the second cache
  static constexpr bool kPairs = !std::is_same_v<A_, float>;
  static constexpr bool at_once = at_once_ && form_ != Form::kDots && !kPairs;  // what follows a sum is short
  static constexpr int64_t columns = vectors_ * W;
  static constexpr int64_t group = 8;            // tiles of columns that share packed rows, whose sums wait for the next depth
  static constexpr int64_t many = 64;            // where none waits
  static constexpr int64_t split = split_;       // shares of k, summed at the end
};

// Half a vector, for up to half a vector of columns: AVX-512 in units of 256 bits multiplies two in the time of one.
#if defined(__AVX512F__)
constexpr bool kHalves = true;
typedef float Half __attribute__((vector_size(W * 2)));
KW_INLINE Half half(F x) { return (Half)_mm512_castps512_ps256((__m512)x); }
KW_INLINE F whole(Half x) { return (F)_mm512_castps256_ps512((__m256)x); }
KW_INLINE Half fma(Half a, Half b, Half c) { return (Half)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c); }
#else
constexpr bool kHalves = false;
typedef F Half;
KW_INLINE Half half(F x) { return x; }
#endif
KW_INLINE F whole(F x) { return x; }

// Sums that stay in memory until a whole tile of them is there.
struct Later {
  static constexpr bool ready = false;
};
// Sums that leave the registers at once: put(sum, row, vector), once the last of the inner elements is in them.
template <class Put> struct AtOnce {
  bool ready;
  Put put;
};

// c[r, v] (+)= sum over k of a[r, k] * b(k, v); summed from zero in registers, so no chain of roundings is long.
template <class Vector, int R, int V, class B, class Leave>
KW_INLINE void register_tile(const float* a, int64_t a_row, int64_t depth, B b, float* c, int64_t c_row, bool add,
                             int64_t row, Leave leave) {
  Vector acc[R][V];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) acc[r][v] = Vector{};
  for (int64_t k = 0; k < depth; ++k) {
    Vector y[V];
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) y[v] = b(k, v);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const Vector x = splat<Vector>(a[r * a_row + k]);
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) acc[r][v] = fma(x, y[v], acc[r][v]);
    }
  }
  if (add)
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) {
        Vector before;
        std::memcpy(&before, c + r * c_row + v * W, sizeof before);
        acc[r][v] += before;
      }
  if constexpr (!std::is_same_v<Leave, Later>)
    if (leave.ready) {
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) leave.put(whole(acc[r][v]), row + r, v);
      return;
    }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) std::memcpy(c + r * c_row + v * W, &acc[r][v], sizeof(Vector));
}

// All rows of a block: tiles of R rows while they fit, then of the next lower power of two.
template <class Vector, int R, int V, class B, class Leave = Later>
void tile_rows(const float* a, int64_t a_row, int64_t rows, int64_t depth, B b, float* c, int64_t c_row, bool add,
               int64_t row = 0, Leave leave = {}) {
  for (; rows >= R; rows -= R, row += R, a += R * a_row, c += R * c_row)
    register_tile<Vector, R, V>(a, a_row, depth, b, c, c_row, add, row, leave);
  constexpr int kLower = R > 8 ? 8 : R > 4 ? 4 : R > 2 ? 2 : 1;
  if constexpr (R > 1)
    if (rows) tile_rows<Vector, kLower, V>(a, a_row, rows, depth, b, c, c_row, add, row, leave);
}

// R rows of a times Q columns, lanes along k; one sum each.
template <int R, int Q, class B>
KW_INLINE void dot_tile(const float* a, int64_t a_row, int64_t depth, B b, float* c, int64_t c_row, bool add) {
  F acc[R][Q] = {};
  const auto step = [&](int64_t k, auto lanes) KW_INLINED {
    F x[R];
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) x[r] = load(a + r * a_row + k, lanes);
#pragma GCC unroll 4
    for (int q = 0; q < Q; ++q) {
      const F y = b(k, q, lanes);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) acc[r][q] = fma(x[r], y, acc[r][q]);
    }
  };
  int64_t k = 0;
  for (; k + W <= depth; k += W) step(k, Full{});
  if (k < depth) step(k, Part{static_cast<int>(depth - k)});
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int q = 0; q < Q; ++q) {
      const float sum = fold_lanes(acc[r][q], [](F x, F y) { return x + y; })[0];
      c[r * c_row + q] = add ? c[r * c_row + q] + sum : sum;
    }
}

template <int R, class B>
void dot_rows(const float* a, int64_t a_row, int64_t rows, int64_t width, int64_t depth, B b, float* c, int64_t c_row,
              bool add) {
  for (; rows >= R; rows -= R, a += R * a_row, c += R * c_row) {
    int64_t q = 0;
    for (; q + 4 <= width; q += 4)
      dot_tile<R, 4>(a, a_row, depth, [&](int64_t k, int i, auto lanes) KW_INLINED { return b(k, q + i, lanes); },
                     c + q, c_row, add);
    for (; q < width; ++q)
      dot_tile<R, 1>(a, a_row, depth, [&](int64_t k, int, auto lanes) KW_INLINED { return b(k, q, lanes); }, c + q,
                     c_row, add);
  }
  if constexpr (R > 1)
    if (rows) dot_rows<R / 2>(a, a_row, rows, width, depth, b, c, c_row, add);
}

// Writes elements k to k + depth of `width` columns from n on as rows of a panel; zeros in what is left of a vector. Asks for
// the `next` columns after those.
template <class T, class Right, class A>
void pack_panel(Right right, int64_t b, int64_t k, int64_t depth, int64_t n, int64_t width, int64_t next, A* to) {
  if constexpr (T::along == Along::kColumns) {
    for (int64_t i = 0; i < depth; ++i) {
      for (int64_t at = 0; at < next; at += kLineFloats) right(b, k + i, n + T::columns + at, Ahead{});
      for (int v = 0; v < T::vectors && v * W < width; ++v) {
        const int64_t left = width - v * W;
        A* spot = to + i * T::columns + v * W;
        if (left >= W) store(spot, right(b, k + i, n + v * W, Full{}), Full{});
        else store(spot, right(b, k + i, n + v * W, Part{static_cast<int>(left)}), Full{});
      }
    }
  } else {
    for (int64_t i = 0; i < depth; i += W)
      for (int v = 0; v < T::vectors && v * W < width; ++v) {
        F rows[W];
        for (int j = 0; j < W; ++j) {
          if (v * W + j >= width) rows[j] = F{};
          else if (depth - i >= W) rows[j] = right(b, k + i, n + v * W + j, Full{});
          else rows[j] = right(b, k + i, n + v * W + j, Part{static_cast<int>(depth - i)});
        }
        transpose_lanes(rows);
        for (int j = 0; j < W && i + j < depth; ++j) store(to + (i + j) * T::columns + v * W, rows[j], Full{});
      }
  }
}

// A left factor whose lanes run along rows, as it lies so: left(item, row, inner, lanes).
template <class Function> struct OfRows {
  Function function;
};
template <class Function> OfRows(Function) -> OfRows<Function>;
template <class Left> constexpr bool is_of_rows = false;
template <class Function> constexpr bool is_of_rows<OfRows<Function>> = true;

// One task: `rows` rows from m on, `tiles` tiles of columns from `first` on, inner elements k0 to k1. The sums are
// handed to put(sums, m, n, lanes) while the last tile of them is in the first cache.
template <class T> struct Task {
  static constexpr int64_t kDepth = (T::depth + W - 1) / W * W;
  static constexpr int64_t kApart = kDepth + 64 / int64_t(sizeof(typename T::A));  // of rows that are packed: not all of them in the same sets of the cache
  using A = typename T::A;
  const Shape& s;
  const int64_t block;
  Temporary<A> a, panel;
  Temporary<float> c;
  Task(const Shape& s, int64_t block, int64_t waiting)
      : s(s), block(block), a(block * kApart), panel(T::form == Form::kPanels ? kDepth * T::columns : 0),
        c(block * waiting * T::columns) {}

  int64_t tiles_of_run() const { return (s.run + T::columns - 1) / T::columns; }
  int64_t column(int64_t tile) const { return tile / tiles_of_run() * s.run + tile % tiles_of_run() * T::columns; }
  int64_t width(int64_t tile) const { return std::min(T::columns, s.run - tile % tiles_of_run() * T::columns); }

  template <class Left> void pack_rows(Left left, int64_t b, int64_t m, int64_t rows, int64_t k, int64_t depth) {
    if constexpr (is_of_rows<Left>)
      for (int64_t i = 0; i < depth; i += W)
        for (int64_t r = 0; r < rows; r += W) {
          F v[W];
          const auto read = [&](auto lanes) KW_INLINED {
            for (int j = 0; j < W; ++j) v[j] = i + j < depth ? left.function(b, m + r, k + i + j, lanes) : F{};
          };
          if (rows - r >= W) read(Full{});
          else read(Part{static_cast<int>(rows - r)});
          transpose_lanes(v);
          for (int j = 0; j < W && r + j < rows; ++j) store(a.data + (r + j) * kApart + i, v[j], Full{});
        }
    else for (int64_t r = 0; r < rows; ++r)
      for (int64_t i = 0; i < depth; i += W) {
        A* to = a.data + r * kApart + i;
        if (depth - i >= W) store(to, left(b, m + r, k + i, Full{}), Full{});
        else store(to, left(b, m + r, k + i, Part{static_cast<int>(depth - i)}), Full{});
      }
  }

  // The sums of one tile of columns: in `to`, or where `last` and they leave at once, put(sum, row, column, lanes).
  template <class Right, class Put>
  void multiply(Right right, int64_t b, int64_t rows, int64_t k, int64_t depth, int64_t n, int64_t width, float* to,
                bool add, bool last, Put put) {
    if constexpr (T::form == Form::kDots) {
      dot_rows<T::rows>(a.data, kApart, rows, width, depth,
                        [=](int64_t i, int64_t q, auto lanes) KW_INLINED { return right(b, k + i, n + q, lanes); },
                        to, T::columns, add);
    } else if constexpr (T::form == Form::kPanels) {
      const int64_t left_of_run = s.run - n % s.run - T::columns;
      pack_panel<T>(right, b, k, depth, n, width, std::clamp<int64_t>(left_of_run, 0, T::columns), panel.data);
      const A* from = panel.data;
      const auto packed = [=](int64_t i, int64_t at, auto) KW_INLINED {
        return load(from + i * T::columns + at, Full{});
      };
      if constexpr (T::kPairs) pairs(rows, depth, width, to, add);
      else tiles(packed, rows, depth, width, to, add, last, put);
    } else {
      tiles([=](int64_t i, int64_t at, auto lanes) KW_INLINED { return right(b, k + i, n + at, lanes); }, rows, depth,
            width, to, add, last, put);
    }
  }

  // All rows of a block by a panel of pairs, in tiles that are as high as each other.
  void pairs(int64_t rows, int64_t depth, int64_t width, float* to, bool add) {
    const A* from = panel.data;
    const int64_t high = (rows + T::rows - 1) / T::rows, each = rows / high, more = rows % high;
    for (int64_t i = 0; i < high; ++i) {
      const int64_t row = i * each + std::min(i, more), count = each + (i < more);
      const A* at = a.data + row * kApart;
      float* sums = to + row * T::columns;
      if (width > T::columns - W)
        packed_rows<T::rows, T::vectors>(count, at, kApart, from, T::columns, W, depth, sums, T::columns, add, Full{});
      else
        for (int64_t v = 0; v < width; v += W)
          packed_rows<T::rows, 1>(count, at, kApart, from + v, T::columns, W, depth, sums + v, T::columns, add, Full{});
    }
  }

  // All columns of a tile at once; where there are fewer, vector by vector, and what is left of one.
  template <class Source, class Put>
  void tiles(Source source, int64_t rows, int64_t depth, int64_t width, float* to, bool add, bool last, Put put) {
    const auto some = [&](auto vectors, auto zero, int64_t at, auto lanes) KW_INLINED {
      using Vector = decltype(zero);
      const auto from = [=](int64_t i, int v) KW_INLINED {
        if constexpr (sizeof(Vector) < sizeof(F)) return half(source(i, at + v * W, lanes));
        else return source(i, at + v * W, lanes);
      };
      const auto leaving = [=](F sum, int64_t r, int v) KW_INLINED { put(sum, r, at + v * W, lanes); };
      const auto multiplied = [&](auto leave) KW_INLINED {
        tile_rows<Vector, T::rows, vectors>(a.data, kApart, rows, depth, from, to + at, T::columns, add, 0, leave);
      };
      if constexpr (T::at_once) multiplied(AtOnce<decltype(leaving)>{last, leaving});
      else multiplied(Later{});
    };
    constexpr std::integral_constant<int, 1> one{};
    if (width == T::columns) return some(std::integral_constant<int, T::vectors>{}, F{}, 0, Full{});
    int64_t at = 0;
    for (; at + W <= width; at += W) some(one, F{}, at, Full{});
    const Part part{static_cast<int>(width - at)};
    if (kHalves && part.count && part.count <= W / 2) some(one, Half{}, at, part);
    else if (part.count) some(one, F{}, at, part);
  }

  template <class Left, class Right, class Put>
  void run(Left left, Right right, Put put, int64_t b, int64_t m, int64_t first, int64_t tiles, int64_t k0, int64_t k1) {
    const int64_t rows = std::min(block, s.rows - m);
    const bool once = k1 - k0 <= T::depth;  // sums of one tile follow another's, and stay in the first cache
    for (int64_t k = k0; k < k1 || k == k0; k += T::depth) {
      const int64_t depth = std::min(T::depth, k1 - k);
      pack_rows(left, b, m, rows, k, depth);
      for (int64_t j = 0; j < tiles; ++j) {
        const int64_t n = column(first + j), wide = width(first + j);
        float* sums = c.data + (once ? 0 : j) * block * T::columns;
        const bool last = k + T::depth >= k1;
        multiply(right, b, rows, k, depth, n, wide, sums, k != k0, last,
                 [=](F sum, int64_t r, int64_t i, auto lanes) KW_INLINED { put(sum, m + r, n + i, lanes); });
        if (T::at_once || !last) continue;
        for (int64_t r = 0; r < rows; ++r) {
          const auto leave = [&](int64_t i, auto lanes) KW_INLINED {
            put(load(sums + r * T::columns + i, Full{}), m + r, n + i, lanes);
          };
          if (wide == T::columns)
#pragma GCC unroll 4
            for (int64_t i = 0; i < T::columns; i += W) leave(i, Full{});
          else over_lanes(wide, leave);
        }
      }
    }
  }
};

// Rows of a block: few blocks are as high as each other, and as many as threads take in turns, down to a tile each.
template <class T> int64_t block_of(const Shape& s, int64_t threads) {
  int64_t blocks = (s.rows + T::block - 1) / T::block;
  const auto uneven = [&](int64_t tasks) { return tasks < 8 * threads && tasks % threads; };
  while (uneven(s.batch * blocks * T::split) && (blocks + 1) * T::rows <= s.rows) ++blocks;
  return std::max<int64_t>(1, (s.rows + blocks - 1) / std::max<int64_t>(1, blocks));
}

template <class T, class Left, class Right, class Finish>
void contract(const Shape& s, Left left, Right right, Finish finish) {
  const int64_t tiles = (s.run + T::columns - 1) / T::columns * (s.columns / std::max<int64_t>(1, s.run));
  const bool alone = s.batch * s.rows * s.columns * s.inner < kSerialProducts;
  const int64_t threads = alone || omp_in_parallel() ? 1 : omp_get_max_threads();  // a strip is one thread's
  const int64_t block = block_of<T>(s, threads), blocks = (s.rows + block - 1) / block;
  // A share of k is a whole number of panels' rows; without a split there is one share.
  const int64_t share = std::max<int64_t>(W, ((s.inner + T::split - 1) / T::split + W - 1) / W * W);
  const bool once = share <= T::depth;
  const int64_t each = tiles * blocks * s.batch * T::split / threads;
  const int64_t group = std::max(std::clamp<int64_t>(each, 1, T::group), once ? std::min(each / 4, T::many) : 0);
  const int64_t groups = (tiles + group - 1) / group;
  const Temporary<float> parts(T::split > 1 ? T::split * s.batch * s.rows * s.columns + W : 0);
#pragma omp parallel num_threads(threads)
  {
    Task<T> task(s, block, once ? 1 : group);
#pragma omp for schedule(static)
    for (int64_t i = 0; i < s.batch * blocks * groups * T::split; ++i) {
      const int64_t part = i % T::split, j = i / T::split % groups, m = i / T::split / groups % blocks * block;
      const int64_t b = i / T::split / groups / blocks, first = j * group, count = std::min(group, tiles - first);
      if constexpr (T::split == 1) {
        const auto put = [=](F sum, int64_t m, int64_t n, auto lanes) KW_INLINED { finish(sum, b, m, n, lanes); };
        task.run(left, right, put, b, m, first, count, 0, s.inner);
      } else {
        float* to = parts.data + (part * s.batch + b) * s.rows * s.columns;
        const auto put = [=](F sum, int64_t m, int64_t n, auto lanes) KW_INLINED {
          store(to + m * s.columns + n, sum, lanes);
        };
        task.run(left, right, put, b, m, first, count, std::min(s.inner, part * share),
                 std::min(s.inner, (part + 1) * share));
      }
    }
    if constexpr (T::split > 1) {  // the shares of a sum, in order, whatever the threads
#pragma omp for schedule(static)
      for (int64_t row = 0; row < s.batch * s.rows * (s.columns / s.run); ++row) {
        const int64_t b = row / (s.rows * (s.columns / s.run)), m = row / (s.columns / s.run) % s.rows;
        const int64_t from = row % (s.columns / s.run) * s.run;
        for (int64_t n = from; n < from + s.run; n += W) {
          const auto joined = [&](auto lanes) KW_INLINED {
            F sum{};
            for (int64_t part = 0; part < T::split; ++part)
              sum += load(parts.data + ((part * s.batch + b) * s.rows + m) * s.columns + n, lanes);
            finish(sum, b, m, n, lanes);
          };
          if (from + s.run - n >= W) joined(Full{});
          else joined(Part{static_cast<int>(from + s.run - n)});
        }
      }
    }
  }
}

}  // namespace kw
