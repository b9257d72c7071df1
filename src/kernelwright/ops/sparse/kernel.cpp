// Products with sparse matrices in CSR form: with a dense one, at given places, and with each other.
//
// A row of the dense result stays in registers while the entries of its row are gone over. A row of a sparse result is
// gathered where it will lie; where its columns shall ascend, short ones are sorted, and long ones come out of a bitmap.
#include <atomic>
#include <cstdio>
#include <limits>
#include <memory>
#include <mutex>
#include <vector>

#include "segments.h"
#include "stream_map.h"

namespace kw {
namespace {

constexpr int64_t kAhead = 8;       // entries whose rows are asked for before they are used
constexpr int64_t kSoon = 3;        // and the same where each has a row of its own
constexpr uint32_t kFew = 64;       // products of a row that is sorted by counting
constexpr int64_t kDense = 32;      // columns for each product up to which sums are kept for all
constexpr int64_t kNear = 1 << 19;  // bytes that are found in a near cache
constexpr int64_t kShort = 24;      // entries of rows, in the mean, that are summed one by one
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

// Columns [j, j + (N - 1) * W + lanes) of the rows [begin, end) of A x.
template <int N, class I, class Lanes>
KW_INLINE void multiply_columns(const Csr<I>& m, const float* values, const float* x, float* out, int64_t width, int64_t j,
                                int64_t begin, int64_t end, Lanes lanes) {
  const int64_t last = m.crow[m.rows];
  for (int64_t r = begin; r < end; ++r) {
    F sum[N];
    for (int n = 0; n < N; ++n) sum[n] = F{};
    for (int64_t e = m.crow[r]; e < m.crow[r + 1]; ++e) {
      const float* from = x + m.col[e] * width + j;
      if (e + kAhead < last) {
        const float* next = x + m.col[e + kAhead] * width + j;
        for (int n = 0; n < N; n += 64 / (W * 4)) __builtin_prefetch(next + n * W, 0, 3);
      }
      const F v = splat(values[e]);
      for (int n = 0; n < N - 1; ++n) sum[n] = fma(v, load(from + n * W, Full{}), sum[n]);
      sum[N - 1] = fma(v, load(from + (N - 1) * W, lanes), sum[N - 1]);
    }
    float* to = out + r * width + j;
    for (int n = 0; n < N - 1; ++n) store(to + n * W, sum[n], Full{});
    store(to + (N - 1) * W, sum[N - 1], lanes);
  }
}

// Whether every column was one of the matrix; others count as nothing.
template <class I> bool multiply_vector(const Csr<I>& m, const float* values, const float* x, float* out, int64_t begin,
                                        int64_t end) {
  typedef typename std::make_unsigned<I>::type Unsigned;
  bool bad = false;
  const auto term = [&](int64_t e) KW_INLINED {
    const bool outside = static_cast<Unsigned>(m.col[e]) >= static_cast<Unsigned>(m.columns);
    bad |= outside;
    return values[e] * x[outside ? 0 : m.col[e]];
  };
  int64_t e = m.crow[begin];
  if (m.crow[end] - e < kShort * (end - begin)) {  // each loop's end is a guess that fails about once a row
    for (int64_t r = begin; r < end; ++r) {
      float sum = 0.0f;
      for (const int64_t last = m.crow[r + 1]; e < last; ++e) sum += term(e);
      out[r] = sum;
    }
    return !bad;
  }
  for (int64_t r = begin; r < end; ++r) {
    const int64_t last = m.crow[r + 1];
    float sum[4] = {};
    for (; e + 4 <= last; e += 4)
      for (int i = 0; i < 4; ++i) sum[i] += term(e + i);
    for (; e < last; ++e) sum[0] += term(e);
    out[r] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
  }
  return !bad;
}

template <class I> void spmm(const Args& args) {
  const auto values = args.tensor<const float>(2);
  const auto x = args.tensor<const float>(3);
  const auto out = args.tensor<float>(4);
  const int64_t width = x.shape(1);
  const Csr<I> m = csr<I>(args, 0, x.shape(0));
  const bool is_vector = width == 1 && m.columns;
  if (!is_vector) check_columns(m);
  std::atomic<bool> good{true};
  in_row_shares(m, 2 * (m.entries + m.rows) * width, [&](int64_t begin, int64_t end) {
    int64_t j = 0;
    if (is_vector) {
      if (!multiply_vector(m, values.data(), x.data(), out.data(), begin, end)) good = false;
      return;
    }
    const auto tile = [&](auto vectors, auto lanes) KW_INLINED {
      multiply_columns<vectors.value>(m, values.data(), x.data(), out.data(), width, j, begin, end, lanes);
      j += (vectors.value - 1) * W + lanes.count;
    };
    while (width - j >= 8 * W) tile(std::integral_constant<int, 8>{}, Full{});
    if (width - j >= 4 * W) tile(std::integral_constant<int, 4>{}, Full{});
    if (width - j >= 2 * W) tile(std::integral_constant<int, 2>{}, Full{});
    if (width - j >= W) tile(std::integral_constant<int, 1>{}, Full{});
    if (width > j) tile(std::integral_constant<int, 1>{}, Part{static_cast<int>(width - j)});
  });
  if (!good) check_columns(m);
}

KW_INLINE float dot(const float* a, const float* b, int64_t n) {
  F sum[4] = {F{}, F{}, F{}, F{}};
  sweep<4>(0, n, [&](int64_t k, auto lanes, int i) KW_INLINED {
    sum[i & 3] = fma(load(a + k, lanes), load(b + k, lanes), sum[i & 3]);
  });
  return fold_lanes((sum[0] + sum[1]) + (sum[2] + sum[3]), [](F p, F q) { return p + q; })[0];
}

// Entries of rows of up to N vectors, the last of them of some lanes: a row of a stays in registers.
template <int N, bool ASK, class I, class Lanes>
KW_INLINE void dot_rows(const Csr<I>& m, const float* a, const float* b, float* out, int64_t width, int64_t begin,
                        int64_t end, Lanes lanes) {
  const int64_t last = m.crow[m.rows];
  for (int64_t r = begin; r < end; ++r) {
    F held[N];
    for (int n = 0; n < N - 1; ++n) held[n] = load(a + r * width + n * W, Full{});
    held[N - 1] = load(a + r * width + (N - 1) * W, lanes);
    for (int64_t e = m.crow[r]; e < m.crow[r + 1]; ++e) {
      const float* from = b + m.col[e] * width;
      if (ASK && e + kAhead < last)
        for (int n = 0; n < N; n += kLine / (W * 4)) __builtin_prefetch(b + m.col[e + kAhead] * width + n * W, 0, 3);
      F sum = held[N - 1] * load(from + (N - 1) * W, lanes);
      for (int n = 0; n < N - 1; ++n) sum = fma(held[n], load(from + n * W, Full{}), sum);
      out[e] = fold_lanes(sum, [](F p, F q) { return p + q; })[0];
    }
  }
}

template <class I> void sddmm(const Args& args) {
  const auto a = args.tensor<const float>(2);
  const auto b = args.tensor<const float>(3);
  const auto out = args.tensor<float>(4);
  const int64_t width = a.shape(1), vectors = (width + W - 1) / W;
  const Csr<I> m = csr<I>(args, 0, b.shape(0));
  check_columns(m);
  for (int64_t e = 0; e < m.crow[0]; ++e) out.data()[e] = 0;
  for (int64_t e = m.crow[m.rows]; e < m.entries; ++e) out.data()[e] = 0;
  const bool ask = b.numel() * 4 > kNear;
  in_row_shares(m, 2 * m.entries * width, [&](int64_t begin, int64_t end) {
    const auto rows = [&](auto count, auto asks) KW_INLINED {
      const auto by = [&](auto lanes) KW_INLINED {
        dot_rows<count.value, asks.value>(m, a.data(), b.data(), out.data(), width, begin, end, lanes);
      };
      if (width % W) by(Part{static_cast<int>(width % W)});
      else by(Full{});
    };
    const auto counted = [&](auto asks) KW_INLINED {
      switch (vectors) {
        case 1: return rows(std::integral_constant<int, 1>{}, asks), true;
        case 2: return rows(std::integral_constant<int, 2>{}, asks), true;
        case 4: return rows(std::integral_constant<int, 4>{}, asks), true;
        case 8: return rows(std::integral_constant<int, 8>{}, asks), true;
        default: return false;
      }
    };
    if (width && (ask ? counted(std::true_type{}) : counted(std::false_type{}))) return;
    for (int64_t r = begin; r < end; ++r)
      for (int64_t e = m.crow[r]; e < m.crow[r + 1]; ++e)
        out.data()[e] = dot(a.data() + r * width, b.data() + m.col[e] * width, width);
  });
}

template <class I> void transpose(const Args& args) {
  const int64_t columns = args.integer(3);
  const auto values = args.tensor<const float>(2);
  I* first = args.tensor<I>(4).data();
  I* row = args.tensor<I>(5).data();
  float* to = args.tensor<float>(6).data();
  const Csr<I> m = csr<I>(args, 0, columns);
  check_columns(m);
  if (m.crow[0] != 0 || m.crow[m.rows] != m.entries) raise("ValueError", "", "sparse: crow is no row of offsets; expected every entry in a row");
  std::fill_n(first, columns + 1, I{0});
  for (int64_t e = m.crow[0]; e < m.crow[m.rows]; ++e) ++first[m.col[e] + 1];
  for (int64_t c = 0; c < columns; ++c) first[c + 1] += first[c];
  for (int64_t r = 0; r < m.rows; ++r)
    for (int64_t e = m.crow[r]; e < m.crow[r + 1]; ++e) {
      const I at = first[m.col[e]]++;
      row[at] = static_cast<I>(r), to[at] = values.data()[e];
    }
  for (int64_t c = columns; c > 0; --c) first[c] = first[c - 1];
  first[0] = 0;
}

// The columns of a row of the result, with their sums: in the order in which they are met, or ascending.
//
// Where many of the columns are met, sums are kept for all, and a byte says which are. Else `at_` says where a column
// stands in the row; what it says of a column that is not in the row is found to be wrong there, so it is never cleared.
// A short row is sorted by counting what is less; for others there is a bit for each column, and one for each word of bits.
template <class I, bool ASCENDING> class Row {
 public:
  explicit Row(int64_t columns) : width_(columns), at_(new uint32_t[static_cast<size_t>(columns)]) {
    if (ASCENDING) bits_.resize((columns + 63) / 64), named_.resize((bits_.size() + 63) / 64);
  }

  // Adds up `products` products, which `each(add)` names one by one; returns how many columns there are.
  template <class Each> int64_t gather(I* columns, float* sums, int64_t products, Each each) {
    if (products * kDense >= width_) return dense(columns, sums, each);
    uint32_t count = 0;
    const bool marked = ASCENDING && products > kFew;
    const auto gathered = [&](auto marks) KW_INLINED {
      each([&](I column, float product) KW_INLINED {
        const size_t c = static_cast<size_t>(column);
        const uint32_t at = at_[c];
        if (at < count && columns[at] == column) {
          sums[at] += product;
          return;
        }
        if (marks.value) bits_[c >> 6] |= uint64_t{1} << (c & 63), named_[c >> 12] |= uint64_t{1} << (c >> 6 & 63);
        at_[c] = count, columns[count] = column, sums[count] = product, ++count;
      });
    };
    if (marked) gathered(std::true_type{}), ascend(columns, sums, count);
    else gathered(std::false_type{});
    if (ASCENDING && !marked) sort(columns, sums, count);
    return count;
  }

 private:
  template <class Each> int64_t dense(I* columns, float* sums, Each each) {
    if (all_.empty()) all_.resize(static_cast<size_t>(width_)), met_.resize(static_cast<size_t>((width_ + 7) / 8 * 8));
    float* __restrict all = all_.data();
    uint8_t* __restrict met = met_.data();
    each([&](I column, float product) KW_INLINED { met[column] = 1, all[column] += product; });
    int64_t count = 0;
    for (int64_t word = 0; word < width_; word += 8) {
      uint64_t eight;
      std::memcpy(&eight, met + word, 8);
      if (!eight) continue;
      for (; eight; eight &= eight - 1) {
        const int64_t c = word + __builtin_ctzll(eight) / 8;
        columns[count] = static_cast<I>(c), sums[count++] = all[c], all[c] = 0;
      }
      std::memset(met + word, 0, 8);
    }
    return count;
  }

  void sort(I* columns, float* sums, uint32_t count) {
    constexpr int32_t kLast = std::numeric_limits<int32_t>::max();
    alignas(64) int32_t keys[kFew], ranks[kFew];
    float held[kFew];
    const uint32_t vectors = (count + W - 1) / W;
    for (uint32_t i = 0; i < count; ++i) keys[i] = static_cast<int32_t>(columns[i]), held[i] = sums[i];
    for (uint32_t i = count; i < vectors * W; ++i) keys[i] = kLast;
    for (uint32_t n = 0; n < vectors; ++n) {
      M own, less{};
      std::memcpy(&own, keys + n * W, sizeof own);
      for (uint32_t i = 0; i < count; ++i) less -= M{} + keys[i] < own;
      std::memcpy(ranks + n * W, &less, sizeof less);
    }
    for (uint32_t i = 0; i < count; ++i) columns[ranks[i]] = static_cast<I>(keys[i]), sums[ranks[i]] = held[i];
  }

  void ascend(I* columns, float* sums, uint32_t count) {
    moved_.assign(sums, sums + count);
    count = 0;
    for (size_t n = 0; n < named_.size(); ++n) {
      for (uint64_t names = named_[n]; names; names &= names - 1) {
        const size_t word = n * 64 + __builtin_ctzll(names);
        for (uint64_t left = bits_[word]; left; left &= left - 1) {
          const size_t c = word * 64 + __builtin_ctzll(left);
          columns[count] = static_cast<I>(c), sums[count++] = moved_[at_[c]];
        }
        bits_[word] = 0;
      }
      named_[n] = 0;
    }
  }

  int64_t width_;
  std::unique_ptr<uint32_t[]> at_;
  std::vector<uint64_t> bits_, named_;
  std::vector<float> moved_, all_;
  std::vector<uint8_t> met_;
};

template <class I> struct Factors {
  Csr<I> a, b;

  int64_t products(int64_t begin, int64_t end) const {
    int64_t sum = 0;
    for (int64_t e = a.crow[begin]; e < a.crow[end]; ++e) sum += b.crow[a.col[e] + 1] - b.crow[a.col[e]];
    return sum;
  }
};

template <class I> Factors<I> factors(const Args& args, int a, int b, int64_t columns) {
  const Csr<I> right = csr<I>(args, b, columns), left = csr<I>(args, a, right.rows);
  check_columns(left), check_columns(right);
  return {left, right};
}

template <class I> void products(const Args& args) {
  const Factors<I> f = factors<I>(args, 0, 2, args.integer(4));
  args.tensor<int64_t>(5).data()[0] = f.products(0, f.a.rows);
}

// Each share of the rows begins where all products before it would end, and moves down when all are done.
template <bool ASCENDING, class I> void spgemm_in(const Args& args) {
  const int64_t columns = args.integer(6), most = args.integer(7);
  const Factors<I> f = factors<I>(args, 0, 3, columns);
  const float* left = args.tensor<const float>(2).data();
  const float* right = args.tensor<const float>(5).data();
  I* first = args.tensor<I>(9).data();
  I* col = args.tensor<I>(10).data();
  float* values = args.tensor<float>(11).data();
  if (f.products(0, f.a.rows) != most) raise("ValueError", "", "there are not so many products of these factors");
  std::vector<std::pair<int64_t, int64_t>> begins;  // of each share: its first row, and where its entries lie
  std::mutex mine;
  in_row_shares(f.a, 8 * (most + f.a.rows), [&](int64_t begin, int64_t end) {
    Row<I, ASCENDING> row(columns);
    int64_t to = f.products(0, begin);
    {
      const std::lock_guard<std::mutex> lock(mine);
      begins.emplace_back(begin, to);
    }
    const int64_t last = f.a.crow[f.a.rows];
    for (int64_t r = begin; r < end; ++r) {
      const auto each = [&](auto add) KW_INLINED {
        for (int64_t e = f.a.crow[r]; e < f.a.crow[r + 1]; ++e) {
          if (e + 2 * kSoon < last) __builtin_prefetch(f.b.crow + f.a.col[e + 2 * kSoon], 0, 3);
          if (e + kSoon < last) {
            const int64_t k = f.b.crow[f.a.col[e + kSoon]];
            __builtin_prefetch(f.b.col + k, 0, 3), __builtin_prefetch(right + k, 0, 3);
          }
          const float v = left[e];
          for (int64_t k = f.b.crow[f.a.col[e]]; k < f.b.crow[f.a.col[e] + 1]; ++k) add(f.b.col[k], v * right[k]);
        }
      };
      const int64_t count = row.gather(col + to, values + to, f.products(r, r + 1), each);
      first[r + 1] = static_cast<I>(count), to += count;
    }
  });
  first[0] = 0;
  for (int64_t r = 0; r < f.a.rows; ++r) first[r + 1] += first[r];
  std::sort(begins.begin(), begins.end());
  for (size_t i = 1; i < begins.size(); ++i) {
    const int64_t end = i + 1 < begins.size() ? begins[i + 1].first : f.a.rows;
    const auto [row, from] = begins[i];
    std::memmove(col + first[row], col + from, static_cast<size_t>(first[end] - first[row]) * sizeof(I));
    std::memmove(values + first[row], values + from, static_cast<size_t>(first[end] - first[row]) * sizeof(float));
  }
  std::fill(col + first[f.a.rows], col + most, I{0});
  std::fill(values + first[f.a.rows], values + most, 0.0f);
}
template <class I> void spgemm(const Args& args) {
  if (args.boolean(8)) spgemm_in<true, I>(args);
  else spgemm_in<false, I>(args);
}

}  // namespace
}  // namespace kw

#define KW_BY_INDEX(function)                             \
  if (args.is<int32_t>(0)) kw::function<int32_t>(args);   \
  else kw::function<int64_t>(args)

KW_KERNEL(sparse_spmm) { KW_BY_INDEX(spmm); }
KW_KERNEL(sparse_sddmm) { KW_BY_INDEX(sddmm); }
KW_KERNEL(sparse_transpose) { KW_BY_INDEX(transpose); }
KW_KERNEL(sparse_products) { KW_BY_INDEX(products); }
KW_KERNEL(sparse_spgemm) { KW_BY_INDEX(spgemm); }
