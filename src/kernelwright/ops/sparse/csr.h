// CSR forms: what is no such form is a ValueError, and rows are shared among threads by their entries.
#pragma once
#include <cstdio>

#include "segments.h"
#include "stream_map.h"

namespace kw {
namespace {

constexpr int64_t kRowCost = 4;     // entries that a row costs in addition to its own

template <class I> struct Csr {
  const I *crow, *col;
  int64_t rows, entries, columns;
};

// A CSR form whose rows ascend within its entries; whether columns are valid is seen as they are read.
template <class I> Csr<I> csr(const Args& args, int at, int64_t columns) {
  const auto crow = args.tensor<const I>(at);
  const auto col = args.tensor<const I>(at + 1);
  const Csr<I> m{crow.data(), col.data(), crow.numel() - 1, col.numel(), columns};
  check_offsets("sparse: crow", m.crow, m.rows, m.entries);
  return m;
}

template <class I> void check_columns(const Csr<I>& m) {
  typedef typename std::make_unsigned<I>::type Unsigned;
  Unsigned most = 0;
  for (int64_t e = 0; e < m.entries; ++e) most = std::max(most, static_cast<Unsigned>(m.col[e]));
  if (m.entries && most >= static_cast<Unsigned>(m.columns)) {
    char text[96];
    snprintf(text, sizeof text, "sparse: col is out of range somewhere; expected 0 to %lld", (long long)(m.columns - 1));
    raise("ValueError", "", text);
  }
}

// Calls body(begin, end) for shares of the rows with about as many entries each.
template <class I, class Body> void in_row_shares(const Csr<I>& m, int64_t work, Body body) {
  const auto cost = [&](int64_t r) { return static_cast<int64_t>(m.crow[r] - m.crow[0]) + kRowCost * r; };
  const int64_t total = cost(m.rows);
  in_shares(total, work, 1, [&](int64_t begin, int64_t end) {
    const auto row_at = [&](int64_t wanted) {
      int64_t low = 0, high = m.rows;
      while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (cost(middle) < wanted) low = middle + 1;
        else high = middle;
      }
      return low;
    };
    body(row_at(begin), end == total ? m.rows : row_at(end));
  });
}

}  // namespace
}  // namespace kw
