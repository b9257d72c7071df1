// Embeddings: rows of a table that are named by integers, each or in bags, and their gradients.
//
// A row is asked for a few names before it is read. The gradient of a table is a segment sum: entries are ordered by their
// rows, and each row is written once, from sums that stay in registers, in the order of the entries: whatever the threads.
#include "vector.h"

#include <memory>
#include <vector>

#include "bags.h"
#include "segments.h"

namespace kw {
namespace {

enum Mode { kSum, kMean, kMax };

template <class Body> void indexed(const Args& args, int i, const Body& body) {
  if (args.is<int32_t>(i)) body(args.tensor<const int32_t>(i));
  else body(args.tensor<const int64_t>(i));
}

// Names of rows, all within the table, or it stops: where they lie if they are of 64 bits, else copied.
class Names {
 public:
  Names(const Args& args, int i, int64_t rows) {
    indexed(args, i, [&](auto given) {
      if (!given.contiguous()) KW_UNSUPPORTED("a tensor is not contiguous");
      count = given.numel();
      if constexpr (std::is_same_v<decltype(given), Tensor<const int64_t>>) {
        data = given.data();
      } else {
        held_.assign(given.data(), given.data() + count);
        data = held_.data();
      }
    });
    bool bad = false;
    for (int64_t e = 0; e < count; ++e) bad |= static_cast<uint64_t>(data[e]) >= static_cast<uint64_t>(rows);
    if (!bad) return;
    char text[96];
    snprintf(text, sizeof text, "embedding: ids is out of range somewhere; expected 0 to %lld, the rows of weight",
             static_cast<long long>(rows - 1));
    raise("IndexError", "", text);
  }
  const int64_t* data;
  int64_t count;

 private:
  std::vector<int64_t> held_;
};

// Where bags begin, and where the last ends, which `ended` says is given.
std::vector<int64_t> ends(const Args& args, int i, int64_t entries, bool ended = true) {
  std::vector<int64_t> at;
  indexed(args, i, [&](auto given) {
    at.reserve(static_cast<size_t>(given.numel() + 1));
    at.assign(given.data(), given.data() + given.numel());
  });
  if (!ended) at.push_back(entries);
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

// Writes a table: fill(r, at) writes a row that is named to `at`, the others are zero; a large table goes past the caches.
// Rows between two that are named are cleared together: one by one a row of 128 bytes is a call and little else.
template <class T, class Named, class Fill>
void write_rows(T* to, int64_t rows, int64_t columns, int64_t entries, const Named& named, const Fill& fill) {
  const bool past = streams(rows * columns, to);
  const int64_t bytes = columns * int64_t(sizeof(T));
  in_shares(rows, (rows + entries) * columns, 16, [&](int64_t first, int64_t end) {
    std::vector<T> room(static_cast<size_t>(past ? columns : 0));
    const std::vector<T> nothing(room.size(), T(0.0f));
    for (int64_t r = first; r < end; ++r) {
      if (named(r)) {
        fill(r, past ? room.data() : to + r * columns);
        if (past) stream_bytes(to + r * columns, room.data(), bytes);
      } else if (past) {
        stream_bytes(to + r * columns, nothing.data(), bytes);
      } else {
        int64_t next = r + 1;
        while (next < end && !named(next)) ++next;
        std::memset(static_cast<void*>(to + r * columns), 0, static_cast<size_t>((next - r) * bytes));
        r = next - 1;
      }
    }
  });
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
    segment_plan(ids, entries, rows, order.get(), offsets.get(), segment_shares(entries, rows));
    const int64_t* in = order.get();
    const int64_t last = offsets[rows];
    const struct {
      const T* g;
      const int64_t *in, *source;
      int64_t columns, count;
      KW_INLINE bool skips(int64_t) const { return false; }
      KW_INLINE const T* operator()(int64_t e) const { return g + (source ? source[in[e]] : in[e]) * columns; }
    } row{g, in, source, columns, entries};
    const auto factor = [in, from = factors](int64_t e) KW_INLINED { return from ? from[in[e]] : 1.0f; };
    write_rows(to, rows, columns, entries, [&](int64_t r) { return offsets[r] < offsets[r + 1]; },
               [&](int64_t r, T* at) { summed(at, columns, offsets[r], offsets[r + 1], last, row, factor); });
  }
};

// The gradient of a table of which each element of g came from the row that is chosen. Sums of rows that are named lie together.
template <class T>
void give_back(const T* g, const int64_t* chosen, T* to, int64_t bags, int64_t columns, int64_t rows) {
  std::vector<int64_t> place(static_cast<size_t>(rows), -1);
  const auto known = [&](int64_t i) { return chosen[i] >= 0 && chosen[i] < rows; };
  int64_t count = 0;
  for (int64_t i = 0; i < bags * columns; ++i)
    if (known(i) && place[chosen[i]] < 0) place[chosen[i]] = count++;
  std::vector<float> sums(static_cast<size_t>(count * columns), 0.0f);
  in_shares(columns, bags * columns, 16, [&](int64_t first, int64_t last) {
    for (int64_t b = 0; b < bags; ++b)
      for (int64_t k = first, i = b * columns + first; k < last; ++k, ++i)
        if (known(i)) sums[place[chosen[i]] * columns + k] += to_scalar(g[i]);
  });
  write_rows(to, rows, columns, count, [&](int64_t r) { return place[r] >= 0; }, [&](int64_t r, T* at) {
    const float* from = sums.data() + place[r] * columns;
    sweep<2>(0, columns, [&](int64_t k, auto lanes, int) KW_INLINED { store(at + k, load(from + k, lanes), lanes); });
  });
}

// Rows of BYTES, which are loaded and stored without a call for each.
template <int64_t BYTES> void copy_rows(const char* from, char* to, const int64_t* ids, int64_t first, int64_t last) {
  constexpr int64_t kBytes = W * sizeof(float);
  constexpr int kVectors = static_cast<int>(BYTES / kBytes);
  for (int64_t i = first; i < last; ++i) {
    const char* row = from + ids[i] * BYTES;
    F held[kVectors];
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) std::memcpy(&held[v], row + v * kBytes, sizeof(F));
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) std::memcpy(to + i * BYTES + v * kBytes, &held[v], sizeof(F));
  }
}

// Whether rows were of a length that is compiled, and of a table that lies in a near cache.
inline bool copied_short(const void* weight, void* out, const int64_t* ids, int64_t bytes, int64_t first, int64_t last) {
  const char* from = static_cast<const char*>(weight);
  char* to = static_cast<char*>(out);
  switch (bytes) {
    case 64: return copy_rows<64>(from, to, ids, first, last), true;
    case 128: return copy_rows<128>(from, to, ids, first, last), true;
    case 256: return copy_rows<256>(from, to, ids, first, last), true;
  }
  if constexpr (W == 8)
    if (bytes == 32) return copy_rows<32>(from, to, ids, first, last), true;
  return false;
}

}  // namespace
}  // namespace kw

// weight, ids, padding, which matters to the gradient; out
KW_KERNEL(embedding) {
  const int64_t rows = args.any_tensor(0)->shape[0], columns = args.any_tensor(0)->shape[1];
  const kw::Names ids(args, 1, rows);
  kw::typed(args, 0, [&](auto type) {
    using T = decltype(type);
    const T* weight = kw::input<T>(args, 0);
    T* out = kw::output<T>(args, 3);
    const int64_t bytes = columns * int64_t(sizeof(T)), next = kw::ahead(bytes, rows);
    const bool past = kw::streams(ids.count * columns, out);
    const bool near = bytes * rows <= kw::kNearBytes && !past;
    kw::in_shares(ids.count, ids.count * columns, 1, [&](int64_t first, int64_t last) {
      if (near && kw::copied_short(weight, out, ids.data, bytes, first, last)) return;
      for (int64_t i = first; i < last; ++i) {
        if (i + next < last) kw::ask_row(weight + ids.data[i + next] * columns, bytes);
        if (past) kw::stream_bytes(out + i * columns, weight + ids.data[i] * columns, bytes);
        else std::memcpy(out + i * columns, weight + ids.data[i] * columns, static_cast<size_t>(bytes));
      }
    });
  });
}

// gradient, ids, rows, padding; the table's gradient
KW_KERNEL(embedding_backward) {
  const DLTensor* t = args.any_tensor(0);
  const int64_t columns = t->shape[t->ndim - 1], rows = args.integer(2), padding = args.integer(3);
  const kw::Names given(args, 1, rows);
  std::vector<int64_t> ids(given.data, given.data + given.count);
  std::replace(ids.begin(), ids.end(), padding, int64_t{-1});
  kw::typed(args, 0, [&](auto type) {
    using T = decltype(type);
    kw::TableGradient<T>{kw::input<T>(args, 0), kw::output<T>(args, 4), columns, rows, nullptr, nullptr}.run(ids.data(), given.count);
  });
}

// weight, ids, offsets, scale, mode, padding, whether offsets have the end of the last bag; out, the rows of the largest
KW_KERNEL(embedding_bag) {
  const int64_t rows = args.any_tensor(0)->shape[0], columns = args.any_tensor(0)->shape[1];
  const int64_t mode = args.integer(4), padding = args.integer(5);
  const kw::Names ids(args, 1, rows);
  const auto at = kw::ends(args, 2, ids.count, args.boolean(6));
  const kw::Floats scale(args, 3, args.is_none(3) ? 0 : ids.count, 1.0f);
  if (ids.count > INT32_MAX) KW_UNSUPPORTED("more ids than 32 bits count");
  kw::typed(args, 0, [&](auto type) {
    using T = decltype(type);
    const kw::Rows<T> row{kw::input<T>(args, 0), ids.data, columns, padding, rows};
    T* out = kw::output<T>(args, 7);
    int64_t* chosen = mode == kw::kMax ? args.tensor<int64_t>(8).data() : nullptr;
    kw::in_bags(at, columns, [&](int64_t first, int64_t last) {
      if (mode == kw::kMax) {
        for (int64_t b = first; b < last; ++b)
          kw::largest(out + b * columns, chosen + b * columns, at[b], at[b + 1], at[last], row);
      } else if (!args.is_none(3)) {
        const auto factor = [from = scale.data](int64_t e) KW_INLINED { return from[e]; };
        kw::sum_bags(out, columns, at, first, last, row, factor, [](int64_t) KW_INLINED { return 1.0f; });
      } else if (mode == kw::kMean) {
        kw::sum_bags(out, columns, at, first, last, row, kw::One{},
                     [&](int64_t b) KW_INLINED { return kw::share_of(ids.data, at[b], at[b + 1], padding); });
      } else {
        kw::sum_bags(out, columns, at, first, last, row, kw::One{}, [](int64_t) KW_INLINED { return 1.0f; });
      }
    });
  });
}

// gradient, ids, offsets, scale, chosen, rows, mode, padding; the table's gradient
KW_KERNEL(embedding_bag_backward) {
  const DLTensor* t = args.any_tensor(0);
  const int64_t columns = t->shape[1], n = args.any_tensor(1)->shape[0], rows = args.integer(5), mode = args.integer(6);
  const int64_t padding = args.integer(7);
  const kw::Names ids(args, 1, rows);
  const auto at = kw::ends(args, 2, n);
  const int64_t bags = static_cast<int64_t>(at.size()) - 1;
  KW_REQUIRE(bags == t->shape[0], "the gradient has not a row for each bag");
  const kw::Floats scale(args, 3, args.is_none(3) ? 0 : n, 1.0f);
  kw::typed(args, 0, [&](auto type) {
    using T = decltype(type);
    const T* g = kw::input<T>(args, 0);
    T* to = kw::output<T>(args, 8);
    if (mode == kw::kMax) {
      kw::give_back(g, kw::input<int64_t>(args, 4), to, bags, columns, rows);
      return;
    }
    std::vector<int64_t> named(static_cast<size_t>(n), -1), bag(static_cast<size_t>(n), 0);
    std::vector<float> factors(static_cast<size_t>(n), 0.0f);
    for (int64_t b = 0; b < bags; ++b) {
      const float share = mode == kw::kMean ? kw::share_of(ids.data, at[b], at[b + 1], padding) : 1.0f;
      for (int64_t e = at[b]; e < at[b + 1]; ++e) {
        if (ids.data[e] != padding) named[e] = ids.data[e];
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
  const kw::Names ids(args, 2, rows);
  const auto at = kw::ends(args, 3, n);
  const int64_t bags = static_cast<int64_t>(at.size()) - 1;
  kw::typed(args, 0, [&](auto type) {
    using T = decltype(type);
    const T *g = kw::input<T>(args, 0), *weight = kw::input<T>(args, 1);
    T* to = kw::output<T>(args, 5);
    const int64_t bytes = columns * int64_t(sizeof(T)), next = kw::ahead(bytes, rows);
    std::fill_n(to, n, T(0.0f));
    kw::in_shares(bags, n * columns, 1, [&](int64_t first, int64_t last) {
      for (int64_t b = first; b < last; ++b)
        for (int64_t e = at[b]; e < at[b + 1]; ++e) {
          if (ids.data[e] == padding) continue;
          if (e + next < at[last]) kw::ask_row(weight + ids.data[e + next] * columns, bytes);
          const T* row = weight + ids.data[e] * columns;
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
