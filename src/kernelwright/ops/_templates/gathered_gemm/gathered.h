// sums[i, n] = sum over k of x[gather[i], k] * right[group(i)][k, n], row i of a segment plan, handed to a client as they
// are made: it stores them, or adds them to out[scatter[i], n].
//
// The right factors are packed ahead of the call. A task is some panels of columns for every row: it walks through the
// groups, copies a block of a group's rows where the second cache holds it, and multiplies it by panel after panel. Tasks
// share no column, so adding to an output needs no atomics and is the same for any number of threads. Reads: the panels
// of the groups that have rows once a block of rows; the rows once a task.
#pragma once
#include "gemm.h"
#include "segments.h"
#include "tuned.h"

namespace kw {

constexpr int64_t kHalf = 16;              // columns of one of two members of a panel
constexpr int64_t kGroupColumns = 2 * kHalf;
constexpr int64_t kPairRows = 4;           // of bfloat16 that are multiplied by pairs; fewer are as fast as floats, which round less
constexpr int64_t kGatheredBytes = int64_t(1) << 18;  // of a block of rows: half of a second cache

// Right factors [groups][panels][inner][2][16].
template <class T> struct GroupPanels {
  const T* data;
  int64_t panels, inner;

  const T* of(int64_t group, int64_t panel) const { return data + (group * panels + panel) * inner * kGroupColumns; }
};

template <class X> struct GatheredRows {
  const X* data;
  int64_t row;            // elements from one to the next
  const int64_t* gather;  // which row is row i of the plan; none: row i
  int64_t each = 1;       // rows of the plan that gather[i] / each gives one row

  const X* of(int64_t i) const { return data + (gather ? gather[i] / each : i) * row; }
};

inline int64_t gathered_apart(int64_t inner) { return (inner + W - 1) / W * W + W; }
// Rows of a block at most; to be asked for in the thread that called.
inline int64_t gathered_high(int64_t inner) {
  constexpr int64_t R = kTileRows;
  const int64_t rows = tuned_or(kGatheredBytes) / int64_t(sizeof(float)) / gathered_apart(inner) / R * R;
  return std::min<int64_t>((tuned_or(-1) < 0 ? 16 : 128) * R, std::max<int64_t>(R, rows));
}

// Panels [first, last) for every row; `room` holds `high` rows. Blocks of a group are alike in size, so that none ends in
// a tile of one row, which is summed in another order: results are the same for every `high`. put(i, column, low, high): W columns of the first
// and of the second member, `column` counted in the panel's member.
template <class X, class T, class Put>
void gathered_panels(const Segments& s, const GatheredRows<X>& x, const GroupPanels<T>& w, int64_t first, int64_t last,
                     float* room, int64_t high, Put put) {
  constexpr int R = kTileRows;
  const int64_t apart = gathered_apart(w.inner);
  alignas(64) float sums[R * 2 * W];
  for (int64_t g = 0; g < s.groups; ++g) {
    const int64_t begin = s.offsets[g], rows = s.offsets[g + 1] - begin, blocks = (rows + high - 1) / high;
    for (int64_t b = 0; b < blocks; ++b) {
      const int64_t m = begin + rows * b / blocks, count = begin + rows * (b + 1) / blocks - m;
      const int64_t tiles = (count + R - 1) / R, each = count / tiles, more = count % tiles;
      const auto rows_of_tile = [&](int64_t t) { return each + (t < more); };
      const auto put_tile = [&](int64_t p, int64_t c, int64_t i, int64_t here) KW_INLINED {
        for (int64_t r = 0; r < here; ++r)
          put(m + i + r, p * kHalf + c, load(sums + 2 * r * W, Full{}), load(sums + (2 * r + 1) * W, Full{}));
      };
      const auto multiplied = [&](auto* held) {
        for (int64_t i = 0; i < count; ++i) {
          const X* from = x.of(m + i);
          over_lanes(w.inner, [&](int64_t k, auto lanes) KW_INLINED { store(held + i * apart + k, load(from + k, lanes), lanes); });
        }
        for (int64_t p = first; p < last; ++p)
          for (int64_t c = 0; c < kHalf; c += W) {
            const T* panel = w.of(g, p) + c;
            for (int64_t t = 0, i = 0; t < tiles; i += rows_of_tile(t++)) {
              for (int64_t k = 0; k < w.inner || k == 0; k += kChain)
                packed_rows<R, 2>(rows_of_tile(t), held + i * apart + k, apart, panel + k * kGroupColumns, kGroupColumns,
                                  kHalf, std::min(kChain, w.inner - k), sums, 2 * W, k != 0, Full{});
              put_tile(p, c, i, rows_of_tile(t));
            }
          }
      };
      using A = Multiplied<T>;  // a row of A takes no more room than one of floats
      if (count >= kPairRows) multiplied(reinterpret_cast<A*>(room));
      else multiplied(room);
    }
  }
}

inline int64_t gathered_tasks(int64_t panels) {
  const int64_t threads = omp_in_parallel() ? 1 : omp_get_max_threads();
  return threads == 1 ? 1 : std::min(panels, kTasks * threads);
}

// out [tokens][columns] = sum over rows i of a token of weight[i] * (x[i] @ right): a task's columns, from zero.
template <class T> struct Scattered {
  T* out;
  float* sums;  // [tokens][padded columns]; the output itself where it is float32 and needs no padding
  int64_t tokens, columns, padded;
  const int64_t* scatter;  // the output row of row i
  int64_t each;            // as for GatheredRows
  const float* weights;    // by scatter[i]; none: 1

  void begin(int64_t first, int64_t last) const {
    for (int64_t t = 0; t < tokens; ++t)
      std::memset(sums + t * padded + first * kGroupColumns, 0,
                  static_cast<size_t>((last - first) * kGroupColumns) * sizeof(float));
  }
  KW_INLINE void add(int64_t i, int64_t panel, int64_t within, F low, F high) const {
    const int64_t at = scatter ? scatter[i] : i;
    const F weight = splat(weights ? weights[at] : 1.0f);
    float* to = sums + at / each * padded + panel * kGroupColumns + within;
    store(to, fma(low, weight, load(to, Full{})), Full{});
    store(to + kHalf, fma(high, weight, load(to + kHalf, Full{})), Full{});
  }
  void end(int64_t first, int64_t last) const {
    const int64_t from = first * kGroupColumns, to = std::min(columns, last * kGroupColumns);
    for (int64_t t = 0; t < tokens; ++t) {
      int64_t n = from;
      for (; n + W <= to; n += W) store(out + t * columns + n, load(sums + t * padded + n, Full{}), Full{});
      if (n < to) {
        const Part rest{static_cast<int>(to - n)};
        store(out + t * columns + n, load(sums + t * padded + n, rest), rest);
      }
    }
  }
};

}  // namespace kw
