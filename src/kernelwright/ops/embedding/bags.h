// Rows of bags: sums, the largest, and which threads take which bags.
#pragma once
#include <type_traits>
#include <vector>

#include "stream_map.h"

namespace kw {

constexpr int64_t kAskedBytes = 16384;    // of rows that are asked for before they are read
constexpr int64_t kNearBytes = 1 << 19;   // a table this small lies in a near cache: asking costs more than it saves
constexpr int kBlock = W == 16 ? 16 : 8;  // vectors of a row whose sums are in registers

KW_INLINE void ask_row(const void* p, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += kLine) __builtin_prefetch(static_cast<const char*>(p) + i, 0, 3);
}

// How many rows of so many bytes to ask for ahead: more than there are of a small table.
KW_INLINE int64_t ahead(int64_t bytes, int64_t rows) {
  if (bytes * rows <= kNearBytes) return INT32_MAX;
  return std::clamp<int64_t>(kAskedBytes / std::max<int64_t>(bytes, 1), 8, 32);
}

// Calls body(vectors, lanes, k) for blocks of columns from k on.
template <int MOST, class Body> KW_INLINE void by_blocks(int64_t columns, const Body& body) {
  int64_t k = 0;
  const auto blocks = [&](auto vectors) KW_INLINED {
    for (; k + vectors * W <= columns; k += vectors * W) body(vectors, Full{}, k);
  };
  blocks(std::integral_constant<int, MOST>{});
  if constexpr (MOST > 8) blocks(std::integral_constant<int, 8>{});
  blocks(std::integral_constant<int, 4>{});
  blocks(std::integral_constant<int, 2>{});
  blocks(std::integral_constant<int, 1>{});
  if (k < columns) body(std::integral_constant<int, 1>{}, Part{static_cast<int>(columns - k)}, k);
}

// Rows of a table that are named; padding is left out.
template <class T> struct Rows {
  const T* table;
  const int64_t* ids;
  int64_t columns, padding, count;
  KW_INLINE bool skips(int64_t e) const { return ids[e] == padding; }
  KW_INLINE const T* operator()(int64_t e) const { return table + ids[e] * columns; }
};

struct One {};  // a factor that need not be multiplied with

// One sum of rows in N vectors of columns: to[v] = sum over e in [begin, end) of row(e)[k + v] * factor(e), times the share.
template <int N, class T, class Lanes, class Row, class Factor>
KW_INLINE void sum_block(T* to, int64_t k, int64_t begin, int64_t end, int64_t last, int64_t next, Row row, Factor factor,
                         float share, Lanes lanes) {
  F sum[N] = {};
  for (int64_t e = begin; e < end; ++e) {
    if (e + next < last) ask_row(row(e + next) + k, N * W * int64_t(sizeof(T)));
    if (row.skips(e)) continue;
    const T* from = row(e) + k;
    if constexpr (std::is_same_v<Factor, One>) {
#pragma GCC unroll 16
      for (int v = 0; v < N; ++v) sum[v] += load(from + v * W, lanes);
    } else {
      const float by = factor(e);
#pragma GCC unroll 16
      for (int v = 0; v < N; ++v) sum[v] = fma(load(from + v * W, lanes), by, sum[v]);
    }
  }
#pragma GCC unroll 16
  for (int v = 0; v < N; ++v) store(to + k + v * W, sum[v] * share, lanes);
}

// Sums of rows, by blocks of columns: to[k] = sum over e in [begin, end) of row(e)[k] * factor(e).
template <class T, class Row, class Factor>
KW_INLINE void summed(T* to, int64_t columns, int64_t begin, int64_t end, int64_t last, Row row, Factor factor) {
  const int64_t next = ahead(columns * int64_t(sizeof(T)), row.count);
  by_blocks<kBlock>(columns, [=](auto vectors, auto lanes, int64_t k) KW_INLINED {
    sum_block<decltype(vectors)::value>(to, k, begin, end, last, next, row, factor, 1.0f, lanes);
  });
}

// The same of bags [first, last), each times its share. Of a table in a near cache all bags of a block of columns come in
// turn, so that the block is chosen once.
template <class T, class Row, class Factor, class Share>
KW_INLINE void sum_bags(T* out, int64_t columns, const std::vector<int64_t>& at, int64_t first, int64_t last, Row row,
                        Factor factor, const Share& share) {
  const int64_t bytes = columns * int64_t(sizeof(T)), next = ahead(bytes, row.count), end = at[last];
  const auto bag = [&](auto vectors, auto lanes, int64_t k, int64_t b) KW_INLINED {
    sum_block<decltype(vectors)::value>(out + b * columns, k, at[b], at[b + 1], end, next, row, factor, share(b), lanes);
  };
  const bool once = columns <= kBlock * W && (columns & (columns - 1)) == 0;
  if (once || bytes * row.count <= kNearBytes) {
    by_blocks<kBlock>(columns, [&](auto vectors, auto lanes, int64_t k) KW_INLINED {
      for (int64_t b = first; b < last; ++b) bag(vectors, lanes, k, b);
    });
    return;
  }
  for (int64_t b = first; b < last; ++b)
    by_blocks<kBlock>(columns, [&](auto vectors, auto lanes, int64_t k) KW_INLINED { bag(vectors, lanes, k, b); });
}

// The largest of a bag's rows in each column, the first of equal ones, and which row it is of.
template <class T> void largest(T* to, int64_t* chosen, int64_t begin, int64_t end, int64_t last, Rows<T> row) {
  const int64_t columns = row.columns;
  while (begin < end && row.skips(begin)) ++begin;
  if (begin == end) {
    std::fill_n(to, columns, T(0.0f));
    std::fill_n(chosen, columns, int64_t{-1});
    return;
  }
  const int64_t next = ahead(columns * int64_t(sizeof(T)), row.count);
  by_blocks<8>(columns, [=](auto vectors, auto lanes, int64_t k) KW_INLINED {
    constexpr int N = decltype(vectors)::value;
    F best[N];
    M where[N] = {};
#pragma GCC unroll 8
    for (int v = 0; v < N; ++v) best[v] = load(row(begin) + k + v * W, lanes);
    for (int64_t e = begin + 1; e < end; ++e) {
      if (e + next < last) ask_row(row(e + next) + k, N * W * int64_t(sizeof(T)));
      if (row.skips(e)) continue;
#pragma GCC unroll 8
      for (int v = 0; v < N; ++v) {
        const F x = load(row(e) + k + v * W, lanes);
        const M wins = (x > best[v]) | ((x != x) & (best[v] == best[v]));
        best[v] = select(wins, x, best[v]), where[v] = wins ? M{} + static_cast<int32_t>(e - begin) : where[v];
      }
    }
    for (int v = 0; v < N; ++v) {
      store(to + k + v * W, best[v], lanes);
      for (int i = 0; i < lanes.count; ++i) chosen[k + v * W + i] = row.ids[begin + where[v][i]];
    }
  });
}

// Calls body(first, last) for shares of bags that take as long: by their entries, and what each is written for.
template <class Body> void in_bags(const std::vector<int64_t>& at, int64_t columns, const Body& body) {
  const int64_t bags = static_cast<int64_t>(at.size()) - 1;
  const auto before = [&](int64_t b) { return at[static_cast<size_t>(b)] - at.front() + b; };
  const int threads = static_cast<int>(
      std::clamp<int64_t>(before(bags) * columns / (kSerialElements / 2), 1, std::min<int64_t>(omp_get_max_threads(), bags + 1)));
  if (threads == 1) return body(int64_t{0}, bags);
#pragma omp parallel num_threads(threads)
  {
    const auto cut = [&](int64_t rank) {
      const int64_t wanted = before(bags) * rank / omp_get_num_threads();
      int64_t low = 0, high = bags;
      while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (before(middle) < wanted) low = middle + 1;
        else high = middle;
      }
      return low;
    };
    body(cut(omp_get_thread_num()), cut(omp_get_thread_num() + 1));
  }
}

// One by the entries of a bag that count; zero of none.
inline float share_of(const int64_t* ids, int64_t begin, int64_t end, int64_t padding) {
  int64_t count = 0;
  for (int64_t e = begin; e < end; ++e) count += ids[e] != padding;
  return count ? 1.0f / static_cast<float>(count) : 0.0f;
}

}  // namespace kw
