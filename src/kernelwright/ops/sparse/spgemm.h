// Products of two sparse matrices. A row of the result is gathered where it will lie; where its columns shall ascend, short
// ones are sorted, and long ones come out of a bitmap.
#pragma once
#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "csr.h"

namespace kw {
namespace {

constexpr int64_t kSoon = 3;        // and the same where each has a row of its own
constexpr uint32_t kFew = 64;       // products of a row that is sorted by counting
constexpr int64_t kDense = 32;      // columns for each product up to which sums are kept for all

// The columns of a row of the result, with their sums: in the order in which they are met, or ascending.
//
// Where many of the columns from `low` to `high` are met, sums are kept for all of those, and a byte says which are. Else
// `at_` says where a column stands in the row; what it says of a column that is not in the row is found to be wrong there,
// so it is never cleared. A short row is sorted by counting what is less; for others there is a bit for each column, and
// one for each word of bits.
template <class I, bool ASCENDING> class Row {
 public:
  explicit Row(int64_t columns) : width_(columns), at_(new uint32_t[static_cast<size_t>(columns)]) {
    if (!ASCENDING) return;
    bits_.resize((columns + 63) / 64), named_.resize((bits_.size() + 63) / 64), words_.resize(bits_.size() + 1);
  }

  // Adds up `products` products, which `each(add)` names one by one; returns how many columns there are.
  template <class Each> int64_t gather(I* columns, float* sums, int64_t products, int64_t low, int64_t high, Each each) {
    if (products * kDense > high - low) return dense(columns, sums, low, high, each);
    const bool marked = ASCENDING && products > kFew;
    uint32_t count = 0;
    const auto gathered = [&](auto marks) KW_INLINED {
      uint32_t* const at_all = at_.get();
      uint64_t *const bits = bits_.data(), *const named = named_.data();
      uint32_t found = 0;
      each([&](I column, float product) KW_INLINED {
        const size_t c = static_cast<size_t>(column);
        const uint32_t at = at_all[c];
        if (at < found && columns[at] == column) {
          sums[at] += product;
          return;
        }
        if (marks.value) bits[c >> 6] |= uint64_t{1} << (c & 63), named[c >> 12] |= uint64_t{1} << (c >> 6 & 63);
        at_all[c] = found, columns[found] = column, sums[found] = product, ++found;
      });
      count = found;
    };
    if (marked) gathered(std::true_type{}), ascend(columns, sums, count);
    else gathered(std::false_type{});
    if (ASCENDING && !marked) sort(columns, sums, count);
    return count;
  }

 private:
  template <class Each> int64_t dense(I* columns, float* sums, int64_t low, int64_t high, Each each) {
    if (all_.empty()) all_.resize(static_cast<size_t>(width_)), met_.resize(static_cast<size_t>((width_ + 7) / 8 * 8));
    float* __restrict all = all_.data();
    uint8_t* __restrict met = met_.data();
    each([=](I column, float product) KW_INLINED { met[column] = 1, all[column] += product; });
    int64_t count = 0;
    for (int64_t word = low / 8 * 8; word <= high; word += 8) {
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

  // One loop over all bits: how many of them a word has is no guess of the processor's, which would fail about once a word.
  void ascend(I* columns, float* sums, uint32_t count) {
    moved_.assign(sums, sums + count);
    size_t words = 0;
    for (size_t n = 0; n < named_.size(); ++n) {
      for (uint64_t names = named_[n]; names; names &= names - 1)
        words_[words++] = static_cast<uint32_t>(n * 64 + __builtin_ctzll(names));
      named_[n] = 0;
    }
    words_[words] = 0;
    const uint32_t* word = words_.data();
    uint64_t left = bits_[*word];
    for (uint32_t i = 0; i < count; ++i) {
      const size_t c = size_t{*word} * 64 + static_cast<size_t>(__builtin_ctzll(left));
      columns[i] = static_cast<I>(c), sums[i] = moved_[at_[c]];
      left &= left - 1;
      word += !left;
      const uint64_t next = bits_[*word];
      left = left ? left : next;
    }
    for (size_t n = 0; n < words; ++n) bits_[words_[n]] = 0;
  }

  int64_t width_;
  std::unique_ptr<uint32_t[]> at_;
  std::vector<uint64_t> bits_, named_;
  std::vector<uint32_t> words_;
  std::vector<float> moved_, all_;
  std::vector<uint8_t> met_;
};

// Of rows of the result: multiplications, and entries that they have at most.
struct Count {
  int64_t products = 0, entries = 0;
  KW_INLINE void add(int64_t of_row, int64_t columns) { products += of_row, entries += std::min(of_row, columns); }
};

template <class I> struct Factors {
  Csr<I> a, b;

  KW_INLINE int64_t products(int64_t r) const {
    int64_t sum = 0;
    for (int64_t e = a.crow[r]; e < a.crow[r + 1]; ++e) sum += b.crow[a.col[e] + 1] - b.crow[a.col[e]];
    return sum;
  }
  Count count(int64_t begin, int64_t end) const {
    Count sum;
    for (int64_t r = begin; r < end; ++r) sum.add(products(r), b.columns);
    return sum;
  }
};

// Where the entries of the right factor's rows lie, if it is a band or alike; empty otherwise, as some rows tell.
template <class I> struct Spans {
  std::vector<int32_t> low, high;

  explicit Spans(const Csr<I>& m) {
    constexpr int64_t kAsked = 16, kNarrow = 16;
    if (!m.rows || m.entries < 4 * m.rows) return;  // as much work as it saves
    int64_t wide = 0;
    for (int64_t i = 0; i < kAsked; ++i) {
      const auto [from, to] = of_row(m, i * m.rows / kAsked);
      wide += std::max<int64_t>(0, int64_t{to} - from);
    }
    if (wide * kNarrow >= kAsked * m.columns) return;
    low.resize(static_cast<size_t>(m.rows)), high.resize(static_cast<size_t>(m.rows));
    for (int64_t r = 0; r < m.rows; ++r) std::tie(low[r], high[r]) = of_row(m, r);
  }
  static std::pair<int32_t, int32_t> of_row(const Csr<I>& m, int64_t r) {
    int32_t from = std::numeric_limits<int32_t>::max(), to = -1;
    for (int64_t e = m.crow[r]; e < m.crow[r + 1]; ++e)
      from = std::min(from, static_cast<int32_t>(m.col[e])), to = std::max(to, static_cast<int32_t>(m.col[e]));
    return {from, to};
  }
  // Columns among which the row of the product lies that has these entries.
  KW_INLINE std::pair<int64_t, int64_t> of_entries(const Csr<I>& m, int64_t r, int64_t columns) const {
    if (low.empty()) return {0, columns - 1};
    int32_t from = std::numeric_limits<int32_t>::max(), to = -1;
    for (int64_t e = m.crow[r]; e < m.crow[r + 1]; ++e)
      from = std::min(from, low[m.col[e]]), to = std::max(to, high[m.col[e]]);
    return {to < 0 ? 0 : from, to};
  }
};

// What it counts are rows of the right factor, of which it reads no column.
template <class I> void products(const Args& args) {
  const Csr<I> right = csr<I>(args, 2, args.integer(4)), left = csr<I>(args, 0, right.rows);
  check_columns(left);
  args.tensor<int64_t>(5).data()[0] = Factors<I>{left, right}.count(0, left.rows).entries;
}

// The rows [begin, end), from `to` on in the result, which has room for `most` entries; false if they were no more.
template <bool ASCENDING, class I>
bool multiply_rows(const Factors<I>& f, const Spans<I>& spans, const float* left, const float* right, int64_t begin,
                   int64_t end, int64_t to, int64_t most, Count& done, I* first, I* columns, float* values) {
  Row<I, ASCENDING> row(f.b.columns);
  const I *acrow = f.a.crow, *acol = f.a.col, *bcrow = f.b.crow, *bcol = f.b.col;
  const int64_t last = acrow[f.a.rows], before = to;
  for (int64_t r = begin; r < end; ++r) {
    const int64_t stop = acrow[r + 1];
    const auto each = [=](auto add) KW_INLINED {
      for (int64_t e = acrow[r]; e < stop; ++e) {
        if (e + 2 * kSoon < last) __builtin_prefetch(bcrow + acol[e + 2 * kSoon], 0, 3);
        if (e + kSoon < last) {
          const int64_t k = bcrow[acol[e + kSoon]];
          __builtin_prefetch(bcol + k, 0, 3), __builtin_prefetch(right + k, 0, 3);
        }
        const float v = left[e];
        const int64_t c = acol[e], until = bcrow[c + 1];
        for (int64_t k = bcrow[c]; k < until; ++k) add(bcol[k], v * right[k]);
      }
    };
    const int64_t count = f.products(r);
    done.add(count, f.b.columns);
    if (before + done.entries > most) return false;
    const auto [low, high] = spans.of_entries(f.a, r, f.b.columns);
    const int64_t found = row.gather(columns + to, values + to, count, low, high, each);
    first[r + 1] = static_cast<I>(found), to += found;
  }
  return true;
}

// Each share of the rows begins where all entries before it would end, and moves down when all are done.
template <bool ASCENDING, class I> void spgemm_in(const Args& args) {
  const int64_t columns = args.integer(6), most = args.integer(7);
  const Csr<I> b = csr<I>(args, 3, columns), a = csr<I>(args, 0, b.rows);
  check_columns(a), check_columns(b);
  const Factors<I> f{a, b};
  const Spans<I> spans(b);
  const float* left = args.tensor<const float>(2).data();
  const float* right = args.tensor<const float>(5).data();
  I* first = args.tensor<I>(9).data();
  I* col = args.tensor<I>(10).data();
  float* values = args.tensor<float>(11).data();
  std::vector<std::pair<int64_t, int64_t>> begins;  // of each share: its first row, and where its entries lie
  std::mutex mine;
  std::atomic<int64_t> products{0};
  std::atomic<bool> room{true};
  in_row_shares(f.a, 8 * (most + f.a.rows), [&](int64_t begin, int64_t end) {
    const int64_t to = f.count(0, begin).entries;
    {
      const std::lock_guard<std::mutex> lock(mine);
      begins.emplace_back(begin, to);
    }
    Count done;
    if (!multiply_rows<ASCENDING>(f, spans, left, right, begin, end, to, most, done, first, col, values)) room = false;
    products += done.products;
  });
  if (!room || products < most) raise("ValueError", "", "sparse: most is not as many entries as the product may have");
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
