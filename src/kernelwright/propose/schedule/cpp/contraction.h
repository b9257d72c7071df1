// out[b, m, n] = finish(sum over k of left[b, m, k] * right[b, k, n]): blocks of rows by groups of columns, one a
// thread at a time; register tiles within. The kernel gives three functions of vectors:
//   left(b, m, k, lanes)      elements k, k + 1, ... of a row; what is fused before the product is in it,
//   right(b, k, n, lanes)     elements of a row of the right factor (along n) or of a column (along k),
//   finish(sums, b, m, n, lanes)  what is fused after the product, and the store.
#pragma once
#include "tiles.h"

#define KW_INLINED __attribute__((always_inline))  // of a function object

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

template <Form form_, Along along_, int rows_, int vectors_, int64_t depth_, int64_t block_, int split_ = 1>
struct Tiling {
  static constexpr Form form = form_;
  static constexpr Along along = along_;
  static constexpr int rows = form_ == Form::kDots ? 4 : rows_ ? rows_ : kTileRows;
  static constexpr int vectors = vectors_;       // of columns
  static constexpr int64_t depth = depth_;       // inner elements of a panel: the first cache
  static constexpr int64_t block = block_;       // rows packed at once: the second cache
  static constexpr int64_t columns = vectors_ * W;
  static constexpr int64_t group = 8;            // tiles of columns that share packed rows
  static constexpr int64_t split = split_;       // shares of k, summed at the end
};

// c[r, v] (+)= sum over k of a[r, k] * b(k, v); summed from zero in registers, so no chain of roundings is long.
template <int R, int V, class B>
KW_INLINE void register_tile(const float* a, int64_t a_row, int64_t depth, B b, float* c, int64_t c_row, bool add) {
  F acc[R][V];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) acc[r][v] = F{};
  for (int64_t k = 0; k < depth; ++k) {
    F y[V];
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) y[v] = b(k, v);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const F x = splat(a[r * a_row + k]);
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) acc[r][v] = fma(x, y[v], acc[r][v]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      float* to = c + r * c_row + v * W;
      store(to, add ? acc[r][v] + load(to, Full{}) : acc[r][v], Full{});
    }
}

// All rows of a block: tiles of R rows while they fit, then of half as many.
template <int R, int V, class B>
void tile_rows(const float* a, int64_t a_row, int64_t rows, int64_t depth, B b, float* c, int64_t c_row, bool add) {
  for (; rows >= R; rows -= R, a += R * a_row, c += R * c_row)
    register_tile<R, V>(a, a_row, depth, b, c, c_row, add);
  if constexpr (R > 1)
    if (rows) tile_rows<R / 2, V>(a, a_row, rows, depth, b, c, c_row, add);
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

// Writes elements k to k + depth of `width` columns from n on as rows of a panel; zeros beyond the last column.
template <class T, class Right>
void pack_panel(Right right, int64_t b, int64_t k, int64_t depth, int64_t n, int64_t width, float* to) {
  if constexpr (T::along == Along::kColumns) {
    for (int64_t i = 0; i < depth; ++i)
      for (int v = 0; v < T::vectors; ++v) {
        const int64_t left = width - v * W;
        float* spot = to + i * T::columns + v * W;
        if (left >= W) store(spot, right(b, k + i, n + v * W, Full{}), Full{});
        else store(spot, left > 0 ? right(b, k + i, n + v * W, Part{static_cast<int>(left)}) : F{}, Full{});
      }
  } else {
    for (int64_t i = 0; i < depth; i += W)
      for (int v = 0; v < T::vectors; ++v) {
        F rows[W];
        for (int j = 0; j < W; ++j) {
          if (v * W + j >= width) rows[j] = F{};
          else if (depth - i >= W) rows[j] = right(b, k + i, n + v * W + j, Full{});
          else rows[j] = right(b, k + i, n + v * W + j, Part{static_cast<int>(depth - i)});
        }
        transpose_lanes(rows);
        for (int j = 0; j < W; ++j) store(to + (i + j) * T::columns + v * W, rows[j], Full{});
      }
  }
}

// One task: `rows` rows from m on, `tiles` tiles of columns from `first` on, inner elements k0 to k1. The sums are
// handed to put(sums, m, n, lanes) while the last tile of them is in the first cache.
template <class T> struct Task {
  static constexpr int64_t kDepth = (T::depth + W - 1) / W * W;
  const Shape& s;
  Temporary<float> a, panel, c;
  explicit Task(const Shape& s)
      : s(s), a(std::min(T::block, s.rows) * kDepth), panel(T::form == Form::kPanels ? kDepth * T::columns : 0),
        c(std::min(T::block, s.rows) * T::group * T::columns) {}

  int64_t tiles_of_run() const { return (s.run + T::columns - 1) / T::columns; }
  int64_t column(int64_t tile) const { return tile / tiles_of_run() * s.run + tile % tiles_of_run() * T::columns; }
  int64_t width(int64_t tile) const { return std::min(T::columns, s.run - tile % tiles_of_run() * T::columns); }

  template <class Left> void pack_rows(Left left, int64_t b, int64_t m, int64_t rows, int64_t k, int64_t depth) {
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t i = 0; i < depth; i += W) {
        float* to = a.data + r * kDepth + i;
        if (depth - i >= W) store(to, left(b, m + r, k + i, Full{}), Full{});
        else store(to, left(b, m + r, k + i, Part{static_cast<int>(depth - i)}), Full{});
      }
  }

  template <class Right>
  void multiply(Right right, int64_t b, int64_t rows, int64_t k, int64_t depth, int64_t n, int64_t width, float* to,
                bool add) {
    constexpr int64_t kRow = T::group * T::columns;
    const auto tiles = [&](auto source) KW_INLINED {
      if (width <= W) tile_rows<T::rows, 1>(a.data, kDepth, rows, depth, source, to, kRow, add);
      else tile_rows<T::rows, T::vectors>(a.data, kDepth, rows, depth, source, to, kRow, add);
    };
    if constexpr (T::form == Form::kDots) {
      dot_rows<T::rows>(a.data, kDepth, rows, width, depth,
                        [&](int64_t i, int64_t q, auto lanes) KW_INLINED { return right(b, k + i, n + q, lanes); },
                        to, kRow, add);
    } else if constexpr (T::form == Form::kPanels) {
      pack_panel<T>(right, b, k, depth, n, width, panel.data);
      const float* from = panel.data;
      tiles([from](int64_t i, int v) KW_INLINED { return load(from + i * T::columns + v * W, Full{}); });
    } else if (width == T::columns) {
      tiles([&](int64_t i, int v) KW_INLINED { return right(b, k + i, n + v * W, Full{}); });
    } else {
      tiles([&](int64_t i, int v) KW_INLINED {
        const int64_t left = std::clamp<int64_t>(width - v * W, 0, W);
        return left ? right(b, k + i, n + v * W, Part{static_cast<int>(left)}) : F{};
      });
    }
  }

  template <class Left, class Right, class Put>
  void run(Left left, Right right, Put put, int64_t b, int64_t m, int64_t first, int64_t tiles, int64_t k0, int64_t k1) {
    const int64_t rows = std::min(T::block, s.rows - m);
    for (int64_t k = k0; k < k1 || k == k0; k += T::depth) {
      const int64_t depth = std::min(T::depth, k1 - k);
      pack_rows(left, b, m, rows, k, depth);
      for (int64_t j = 0; j < tiles; ++j) {
        const int64_t n = column(first + j), wide = width(first + j);
        float* sums = c.data + j * T::columns;
        multiply(right, b, rows, k, depth, n, wide, sums, k != k0);
        if (k + T::depth < k1) continue;
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t i = 0; i < wide; i += W) {
            const F sum = load(sums + r * T::group * T::columns + i, Full{});
            if (wide - i >= W) put(sum, m + r, n + i, Full{});
            else put(sum, m + r, n + i, Part{static_cast<int>(wide - i)});
          }
      }
    }
  }
};

template <class T, class Left, class Right, class Finish>
void contract(const Shape& s, Left left, Right right, Finish finish) {
  const int64_t tiles = (s.run + T::columns - 1) / T::columns * (s.columns / std::max<int64_t>(1, s.run));
  const int64_t blocks = (s.rows + T::block - 1) / T::block;
  const bool alone = s.batch * s.rows * s.columns * s.inner < kSerialProducts;
  const int64_t threads = alone || omp_in_parallel() ? 1 : omp_get_max_threads();  // a strip is one thread's
  const int64_t group = std::clamp<int64_t>(tiles * blocks * s.batch * T::split / threads, 1, T::group);
  const int64_t groups = (tiles + group - 1) / group;
  // A share of k is a whole number of panels' rows; without a split there is one share.
  const int64_t share = std::max<int64_t>(W, ((s.inner + T::split - 1) / T::split + W - 1) / W * W);
  const Temporary<float> parts(T::split > 1 ? T::split * s.batch * s.rows * s.columns + W : 0);
#pragma omp parallel num_threads(threads)
  {
    Task<T> task(s);
#pragma omp for schedule(static)
    for (int64_t i = 0; i < s.batch * blocks * groups * T::split; ++i) {
      const int64_t part = i % T::split, j = i / T::split % groups, m = i / T::split / groups % blocks * T::block;
      const int64_t b = i / T::split / groups / blocks, first = j * group, count = std::min(group, tiles - first);
      if constexpr (T::split == 1) {
        const auto put = [&](F sum, int64_t m, int64_t n, auto lanes) KW_INLINED { finish(sum, b, m, n, lanes); };
        task.run(left, right, put, b, m, first, count, 0, s.inner);
      } else {
        float* to = parts.data + (part * s.batch + b) * s.rows * s.columns;
        const auto put = [&](F sum, int64_t m, int64_t n, auto lanes) KW_INLINED {
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
