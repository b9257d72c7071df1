// Embeddings: rows of a table that are named by integers, each or in bags, and their gradients.
//
// A row is asked for a few names before it is read. The gradient of a table is a segment sum: entries are ordered by their
// rows, and each row is written once, from sums that stay in registers, in the order of the entries: whatever the threads.
#include <atomic>
#include <memory>
#include <type_traits>
#include <vector>

#include "segments.h"
#include "stream_map.h"

namespace kw {
namespace {

constexpr int64_t kAhead = 8;  // entries whose rows are asked for before they are read
constexpr int kBlock = 8;      // vectors of a row whose sums are in registers
enum Mode { kSum, kMean, kMax };

// Names of rows, of either width; all within the table, or it stops.
std::unique_ptr<int64_t[]> names(const Args& args, int i, int64_t rows) {
  const DLTensor* t = args.any_tensor(i);
  int64_t n = 1;
  for (int axis = 0; axis < t->ndim; ++axis) n *= t->shape[axis];
  std::unique_ptr<int64_t[]> ids(new int64_t[static_cast<size_t>(n + 1)]);
  const auto taken = [&](auto tensor) {
    if (!tensor.contiguous()) KW_UNSUPPORTED("a tensor is not contiguous");
    bool good = true;
    for (int64_t k = 0; k < n; ++k) ids[k] = tensor[k], good &= ids[k] >= 0 && ids[k] < rows;
    if (good) return;
    char text[96];
    snprintf(text, sizeof text, "embedding: ids is out of range somewhere; expected 0 to %lld, the rows of weight",
             static_cast<long long>(rows - 1));
    raise("IndexError", "", text);
  };
  if (args.is<int32_t>(i)) taken(args.tensor<const int32_t>(i));
  else taken(args.tensor<const int64_t>(i));
  return ids;
}
std::vector<int64_t> ends(const Args& args, int i, int64_t entries) {
  std::vector<int64_t> at;
  const auto taken = [&](auto tensor) {
    at.assign(tensor.data(), tensor.data() + tensor.numel());
  };
  if (args.is<int32_t>(i)) taken(args.tensor<const int32_t>(i));
  else taken(args.tensor<const int64_t>(i));
  bool good = !at.empty() && at.front() >= 0 && at.back() <= entries;
  for (size_t k = 1; k < at.size(); ++k) good &= at[k - 1] <= at[k];
  if (!good) raise("ValueError", "", "embedding: offsets is no row of offsets; expected them to ascend from 0 to the number of ids");
  return at;
}
template <class Body> void typed(const Args& args, int i, const Body& body) {
  if (args.is<float>(i)) body(float{});
  else body(bfloat16{});
}
template <class T> const T* input(const Args& args, int i) {
  const auto t = args.tensor<const T>(i);
  if (!t.contiguous()) KW_UNSUPPORTED("a tensor is not contiguous");
  return t.data();
}
template <class T> T* output(const Args& args, int i) {
  const auto t = args.tensor<T>(i);
  ask_large_pages(t.data(), t.numel() * int64_t(sizeof(T)));
  return t.data();
}
KW_INLINE void ask_row(const void* p, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += kLine) __builtin_prefetch(static_cast<const char*>(p) + i, 0, 2);
}

// Sums of rows of T, by blocks of columns: to[k] = sum over e in [begin, end) of row(e)[k] * factor(e).
template <class T, class Row, class Factor>
KW_INLINE void summed(T* to, int64_t columns, int64_t begin, int64_t end, int64_t last, const Row& row, const Factor& factor) {
  int64_t k = 0;
  const auto block = [&](auto vectors, auto lanes) KW_INLINED {
    constexpr int N = decltype(vectors)::value;
    F sum[N] = {};
    for (int64_t e = begin; e < end; ++e) {
      if (e + kAhead < last) ask_row(row(e + kAhead) + k, N * W * int64_t(sizeof(T)));
      const float by = factor(e);
      if (by == 0.0f && factor.skips(e)) continue;
      const T* from = row(e) + k;
#pragma GCC unroll 8
      for (int v = 0; v < N; ++v) sum[v] = fma(load(from + v * W, lanes), by, sum[v]);
    }
#pragma GCC unroll 8
    for (int v = 0; v < N; ++v) store(to + k + v * W, sum[v], lanes);
    k += N * W;
  };
  while (k + kBlock * W <= columns) block(std::integral_constant<int, kBlock>{}, Full{});
  while (k + 2 * W <= columns) block(std::integral_constant<int, 2>{}, Full{});
  while (k + W <= columns) block(std::integral_constant<int, 1>{}, Full{});
  if (k < columns) block(std::integral_constant<int, 1>{}, Part{static_cast<int>(columns - k)});
}

// What an entry's row is multiplied by; padding is left out.
struct Factors {
  const int64_t* ids;
  int64_t padding;
  const float* scale;
  float share;
  KW_INLINE bool skips(int64_t e) const { return ids[e] == padding; }
  KW_INLINE float operator()(int64_t e) const { return skips(e) ? 0.0f : (scale ? scale[e] : share); }
};

template <class T> void largest(T* to, int64_t* chosen, int64_t columns, int64_t begin, int64_t end, const T* table, const int64_t* ids, int64_t padding) {
  std::vector<float> best(static_cast<size_t>(columns), 0.0f);
  std::fill_n(chosen, columns, int64_t{-1});
  for (int64_t e = begin; e < end; ++e) {
    if (ids[e] == padding) continue;
    const T* row = table + ids[e] * columns;
    for (int64_t k = 0; k < columns; ++k) {
      const float x = to_scalar(row[k]);
      if (chosen[k] < 0 || x > best[k] || (x != x && best[k] == best[k])) best[k] = x, chosen[k] = ids[e];
    }
  }
  for (int64_t k = 0; k < columns; ++k) to[k] = static_cast<T>(best[k]);
}

int64_t kept(const int64_t* ids, int64_t begin, int64_t end, int64_t padding) {
  int64_t count = 0;
  for (int64_t e = begin; e < end; ++e) count += ids[e] != padding;
  return count;
}

// The gradient of a table: rows of g, each times a factor, summed by the row that an entry names.
template <class T> struct TableGradient {
  const T* g;
  T* to;
  int64_t columns, rows;
  const int64_t* source;  // the row of g of an entry, or none where it is the entry's own
  const float* factors;   // of entries, or none

  // ids beyond the table are left out.
  void run(const int64_t* ids, int64_t entries) const {
    std::unique_ptr<int64_t[]> order(new int64_t[static_cast<size_t>(entries + 1)]);
    std::unique_ptr<int64_t[]> offsets(new int64_t[static_cast<size_t>(rows + 1)]);
    segment_plan(ids, entries, rows, order.get(), offsets.get());
    const int64_t* in = order.get();
    const int64_t last = offsets[rows];
    const auto row = [&](int64_t e) KW_INLINED { return g + (source ? source[in[e]] : in[e]) * columns; };
    const struct {
      const int64_t* in;
      const float* factors;
      bool skips(int64_t) const { return false; }
      KW_INLINE float operator()(int64_t e) const { return factors ? factors[in[e]] : 1.0f; }
    } factor{in, factors};
    const bool past = streams(rows * columns, to);
    in_shares(rows, (rows + entries) * columns, 16, [&](int64_t first, int64_t end) {
      std::vector<T> room(static_cast<size_t>(columns));
      const std::vector<T> nothing(static_cast<size_t>(columns), T(0.0f));
      for (int64_t r = first; r < end; ++r) {
        T* out = to + r * columns;
        const bool any = offsets[r] < offsets[r + 1];
        T* at = past ? room.data() : out;
        if (any) summed(at, columns, offsets[r], offsets[r + 1], last, row, factor);
        else if (!past) std::fill_n(out, columns, T(0.0f));
        if (past) stream_bytes(out, any ? room.data() : nothing.data(), columns * int64_t(sizeof(T)));
      }
    });
  }
};

}  // namespace
}  // namespace kw

// weight, ids, padding, which matters to the gradient; out
KW_KERNEL(embedding) {
  const DLTensor* t = args.any_tensor(0);
  const int64_t rows = t->shape[0];
  const auto out_dl = args.any_tensor(3);
  int64_t columns = t->shape[1], n = 1;
  for (int axis = 0; axis + 1 < out_dl->ndim; ++axis) n *= out_dl->shape[axis];
  const auto ids = kw::names(args, 1, rows);
  kw::typed(args, 0, [&](auto type) {
    using T = decltype(type);
    const T* weight = kw::input<T>(args, 0);
    T* out = kw::output<T>(args, 3);
    const int64_t bytes = columns * int64_t(sizeof(T));
    const bool past = kw::streams(n * columns, out);
    kw::in_shares(n, n * columns, 1, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        if (i + kw::kAhead < last) kw::ask_row(weight + ids[i + kw::kAhead] * columns, bytes);
        if (past) kw::stream_bytes(out + i * columns, weight + ids[i] * columns, bytes);
        else std::memcpy(out + i * columns, weight + ids[i] * columns, static_cast<size_t>(bytes));
      }
    });
  });
}

// gradient, ids, rows, padding; the table's gradient
KW_KERNEL(embedding_backward) {
  const DLTensor* t = args.any_tensor(0);
  const int64_t columns = t->shape[t->ndim - 1], rows = args.integer(2), padding = args.integer(3);
  int64_t n = 1;
  for (int axis = 0; axis + 1 < t->ndim; ++axis) n *= t->shape[axis];
  const auto ids = kw::names(args, 1, rows);
  for (int64_t e = 0; e < n; ++e)
    if (ids[e] == padding) ids[e] = -1;
  kw::typed(args, 0, [&](auto type) {
    using T = decltype(type);
    kw::TableGradient<T>{kw::input<T>(args, 0), kw::output<T>(args, 4), columns, rows, nullptr, nullptr}.run(ids.get(), n);
  });
}

// weight, ids, offsets, scale, mode, padding; out, the rows of the largest
KW_KERNEL(embedding_bag) {
  const DLTensor* t = args.any_tensor(0);
  const int64_t rows = t->shape[0], columns = t->shape[1], n = args.any_tensor(1)->shape[0];
  const int64_t mode = args.integer(4), padding = args.integer(5);
  const auto ids = kw::names(args, 1, rows);
  const auto at = kw::ends(args, 2, n);
  const int64_t bags = static_cast<int64_t>(at.size()) - 1;
  const kw::Floats scale(args, 3, args.is_none(3) ? 0 : n, 1.0f);
  kw::typed(args, 0, [&](auto type) {
    using T = decltype(type);
    const T* weight = kw::input<T>(args, 0);
    T* out = kw::output<T>(args, 6);
    int64_t* chosen = mode == kw::kMax ? args.tensor<int64_t>(7).data() : nullptr;
    kw::in_shares(bags, n * columns, 1, [&](int64_t first, int64_t last) {
      for (int64_t b = first; b < last; ++b) {
        T* to = out + b * columns;
        if (mode == kw::kMax) {
          kw::largest(to, chosen + b * columns, columns, at[b], at[b + 1], weight, ids.get(), padding);
          continue;
        }
        const float share = mode == kw::kMean ? 1.0f / static_cast<float>(kw::kept(ids.get(), at[b], at[b + 1], padding)) : 1.0f;
        kw::summed(to, columns, at[b], at[b + 1], at[last], [&](int64_t e) KW_INLINED { return weight + ids[e] * columns; },
                   kw::Factors{ids.get(), padding, args.is_none(3) ? nullptr : scale.data, share});
      }
    });
  });
}

// gradient, ids, offsets, scale, chosen, rows, mode, padding; the table's gradient
KW_KERNEL(embedding_bag_backward) {
  const DLTensor* t = args.any_tensor(0);
  const int64_t columns = t->shape[1], n = args.any_tensor(1)->shape[0], rows = args.integer(5), mode = args.integer(6);
  const int64_t padding = args.integer(7);
  const auto ids = kw::names(args, 1, rows);
  const auto at = kw::ends(args, 2, n);
  const int64_t bags = static_cast<int64_t>(at.size()) - 1;
  KW_REQUIRE(bags == t->shape[0], "the gradient has not a row for each bag");
  const kw::Floats scale(args, 3, args.is_none(3) ? 0 : n, 1.0f);
  kw::typed(args, 0, [&](auto type) {
    using T = decltype(type);
    const T* g = kw::input<T>(args, 0);
    T* to = kw::output<T>(args, 8);
    if (mode == kw::kMax) {
      const int64_t* chosen = kw::input<int64_t>(args, 4);
      kw::in_shares(columns, (rows + bags) * columns, 16, [&](int64_t first, int64_t last) {
        std::vector<float> sums(static_cast<size_t>(rows * (last - first)), 0.0f);
        for (int64_t b = 0; b < bags; ++b)
          for (int64_t k = first; k < last; ++k) {
            const int64_t row = chosen[b * columns + k];
            if (row >= 0 && row < rows) sums[row * (last - first) + k - first] += kw::to_scalar(g[b * columns + k]);
          }
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t k = first; k < last; ++k) to[r * columns + k] = static_cast<T>(sums[r * (last - first) + k - first]);
      });
      return;
    }
    std::vector<int64_t> named(static_cast<size_t>(n), -1), bag(static_cast<size_t>(n), 0);
    std::vector<float> factors(static_cast<size_t>(n), 0.0f);
    for (int64_t b = 0; b < bags; ++b) {
      const float share = mode == kw::kMean ? 1.0f / static_cast<float>(kw::kept(ids.get(), at[b], at[b + 1], padding)) : 1.0f;
      for (int64_t e = at[b]; e < at[b + 1]; ++e) {
        if (ids[e] != padding) named[e] = ids[e];
        bag[e] = b, factors[e] = args.is_none(3) ? share : scale.data[e];
      }
    }
    kw::TableGradient<T>{g, to, columns, rows, bag.data(), factors.data()}.run(named.data(), n);
  });
}

// gradient, weight, ids, offsets, padding; the gradient of each entry's scale
KW_KERNEL(embedding_scale_backward) {
  const DLTensor* t = args.any_tensor(1);
  const int64_t rows = t->shape[0], columns = t->shape[1], n = args.any_tensor(2)->shape[0], padding = args.integer(4);
  const auto ids = kw::names(args, 2, rows);
  const auto at = kw::ends(args, 3, n);
  const int64_t bags = static_cast<int64_t>(at.size()) - 1;
  kw::typed(args, 0, [&](auto type) {
    using T = decltype(type);
    const T *g = kw::input<T>(args, 0), *weight = kw::input<T>(args, 1);
    T* to = kw::output<T>(args, 5);
    std::fill_n(to, n, T(0.0f));
    kw::in_shares(bags, n * columns, 1, [&](int64_t first, int64_t last) {
      for (int64_t b = first; b < last; ++b)
        for (int64_t e = at[b]; e < at[b + 1]; ++e) {
          if (ids[e] == padding) continue;
          if (e + kw::kAhead < at[last]) kw::ask_row(weight + ids[e + kw::kAhead] * columns, columns * int64_t(sizeof(T)));
          const T* row = weight + ids[e] * columns;
          kw::Sum<2, true> sum;
          kw::sweep<2>(0, columns, [&](int64_t k, auto lanes, int u) KW_INLINED {
            sum.add(u, kw::load(g + b * columns + k, lanes) * kw::load(row + k, lanes), lanes);
          });
          sum.flush();
          to[e] = static_cast<T>(static_cast<float>(kw::sum_lanes(sum.total[0])));
        }
    });
  });
}
