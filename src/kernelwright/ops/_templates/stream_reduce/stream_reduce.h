// For every row x of X, tiles of x·Cᵀ are handed to a fold as they are made; the product is never stored.
//
// C is packed once a call into panels of columns that lie side by side. A block of rows of X, which the second cache
// holds, meets panel after panel: a register tile of rows by vectors of columns (`packed_tile` of gemm.h) is summed over
// the inner elements, lies in the first cache for a moment, and is folded into the state of its rows. Reads: X once, C
// once a block of rows. Writes: what the fold keeps of a row.
//
// A fold is a client's monoid over columns, with a state for each row of a block:
//   struct Fold {
//     using State = ...;                                          // of one row; trivially copyable
//     void begin(State&, int64_t row) const;
//     void take(State&, const float* sums, int64_t n, int v) const;   // x·c for the columns n to n + W, vector v of a tile
//     void finish(State&, int64_t row, const A* x) const;          // x: the row as it is multiplied
//   };
// A is what is multiplied, as the panels of C hold it: floats, or bfloat16 in pairs (`Multiplied` of gemm.h).
// Columns beyond C's last come too, with zero sums: a fold's bias makes them harmless.
#pragma once
#include "gemm.h"
#include "tuned.h"

namespace kw {

// Rows of X as they lie in memory; a shift is subtracted from each as it is read.
template <class T> struct Matrix {
  const T* data;
  int64_t rows, inner, row, column;  // elements from one to the next
  const float* shift = nullptr;

  static Matrix of(const Tensor<const T>& t) { return {t.data(), t.shape(0), t.shape(1), t.stride(0), t.stride(1)}; }

  // Whether rows can be multiplied where they lie: side by side, and not a power of two apart, which would give the rows
  // of a tile the same places in the cache.
  bool in_place() const { return !shift && column == 1 && row * int64_t(sizeof(T)) % 2048 != 0; }
  template <class A> void copy(int64_t i, A* to) const {
    const T* from = data + i * row;
    if (column != 1) {
      for (int64_t k = 0; k < inner; ++k)
        to[k] = from_scalar<A>(to_scalar(from[k * column]) - (shift ? shift[k] : 0.0f));
      return;
    }
    const auto copied = [&](int64_t k, auto lanes) KW_INLINED {
      const F x = load(from + k, lanes);
      store(to + k, shift ? x - load(shift + k, lanes) : x, lanes);
    };
    int64_t k = 0;
    for (; k + W <= inner; k += W) copied(k, Full{});
    if (k < inner) copied(k, Part{static_cast<int>(inner - k)});
  }
};

// Rows of any type as they are multiplied, so that what streams them is compiled once for all types. The matrix outlives it.
template <class A> struct Source {
  const void* matrix;
  void (*copied)(const void* matrix, int64_t i, A* to);
  const A* data;  // where rows can be multiplied in place, else none
  int64_t rows, inner, row;

  template <class T> static Source of(const Matrix<T>& x) {
    const auto copied = [](const void* matrix, int64_t i, A* to) { static_cast<const Matrix<T>*>(matrix)->copy(i, to); };
    const A* data = nullptr;
    if constexpr (std::is_same_v<T, A>)
      if (x.in_place()) data = x.data;
    return {&x, copied, data, x.rows, x.inner, x.row};
  }
  void copy(int64_t i, A* to) const { copied(matrix, i, to); }
};

constexpr int64_t kFreshDepth = 32;
constexpr int64_t kStreamBytes = int64_t(1) << 18;  // of a block of rows: half of a second cache

// C as panels [count][inner][columns] of what is multiplied, zeros beyond its last row.
template <int V, class A = float> struct StreamPanels {
  static constexpr int64_t columns = V * W;
  int64_t rows, inner, count;
  const int64_t block = tuned_or(kStreamBytes);  // bytes of rows that meet panel after panel
  const int64_t tiles = tuned_or(-1) < 0 ? 32 : 256;  // of such a block at most
  Temporary<A> data;

  template <class T>
  explicit StreamPanels(const Matrix<T>& c)
      : rows(c.rows), inner(c.inner), count((c.rows + columns - 1) / columns), data(count * columns * c.inner) {
#pragma omp parallel for schedule(static) if (rows * inner > kSerialProducts)
    for (int64_t p = 0; p < count; ++p) {
      A* to = data.data + p * columns * inner;
      const int64_t width = std::min(columns, rows - p * columns);
      for (int64_t n = 0; n < columns; ++n) {
        const T* from = c.data + (p * columns + n) * c.row;
        if (n >= width) {
          for (int64_t k = 0; k < inner; ++k) to[k * columns + n] = A(0.0f);
        } else {
          for (int64_t k = 0; k < inner; ++k) to[k * columns + n] = from_scalar<A>(to_scalar(from[k * c.column]));
        }
      }
    }
  }
};

// Rows [first, last) of X; to be called by each thread for rows of its own.
template <int R, int V, class A, class Fold>
void stream_rows(const Source<A>& x, const StreamPanels<V, A>& c, const Fold& fold, int64_t first, int64_t last) {
  static_assert(V <= 2, "the last panel is multiplied whole, or as one vector");
  const int64_t apart = (x.inner + W - 1) / W * W + 64 / int64_t(sizeof(A));
  int64_t high = std::max<int64_t>(R, c.block / int64_t(sizeof(A)) / apart / R * R);
  high = std::min({high, c.tiles * R, last - first});
  const bool copies = !x.data;
  const Temporary<A> room(copies ? high * apart : 0);
  const Temporary<typename Fold::State> states(high);
  alignas(64) float sums[R * V * W];
  for (int64_t m = first; m < last; m += high) {
    const int64_t count = std::min(high, last - m);
    const A* rows = nullptr;
    int64_t row = apart;
    if (copies) {
      for (int64_t i = 0; i < count; ++i) x.copy(m + i, room.data + i * apart);
      rows = room.data;
    } else {
      rows = x.data + m * x.row, row = x.row;
    }
    for (int64_t i = 0; i < count; ++i) fold.begin(states.data[i], m + i);
    for (int64_t p = 0; p < c.count; ++p) {
      const A* panel = c.data.data + p * c.columns * c.inner;
      for (int64_t i = 0; i < count; i += R) {
        const int64_t here = std::min<int64_t>(R, count - i);
        const bool fresh = p == 0 && !copies;  // the rows come from memory
        const auto tile = [&](auto vectors) KW_INLINED {
          constexpr int N = vectors.value;
          const int64_t depth = fresh ? kFreshDepth : kChain;
          for (int64_t k = 0; k < c.inner || k == 0; k += depth) {
            if (fresh)  // few lines at a time: more than the core can wait for at once would hold up the sums
              for (int64_t r = i + R; r < std::min<int64_t>(i + 2 * R, last - m); ++r)
                for (int64_t at = k; at < std::min(k + depth, c.inner); at += 64 / int64_t(sizeof(A))) prefetch(rows + r * row + at);
            packed_rows<R, N>(here, rows + i * row + k, row, panel + k * c.columns, c.columns, W,
                              std::min(depth, c.inner - k), sums, N * W, k != 0, Full{});
          }
          for (int64_t r = 0; r < here; ++r)
#pragma GCC unroll 4
            for (int v = 0; v < N; ++v)
              fold.take(states.data[i + r], sums + (r * N + v) * W, p * c.columns + v * W, v);
        };
        if (c.rows - p * c.columns > (V - 1) * W) tile(std::integral_constant<int, V>{});
        else tile(std::integral_constant<int, 1>{});
      }
    }
    for (int64_t i = 0; i < count; ++i) fold.finish(states.data[i], m + i, rows + i * row);
  }
}

// Shares for the threads there are: some for each, so that those that are late end together, and none too small.
inline int64_t stream_shares(int64_t rows, int64_t work_of_row) {
  const int64_t threads = omp_in_parallel() ? 1 : omp_get_max_threads();
  if (threads == 1) return 1;
  return std::max<int64_t>(1, std::min({kTasks * threads, rows * work_of_row / kSerialProducts, rows / kTileRows}));
}

}  // namespace kw
