// Products with sparse matrices in CSR form: with a dense one, at given places, and with each other.
//
// A row of the dense result stays in registers while the entries of its row are gone over.
#include "vector.h"

#include <atomic>
#include <cstring>
#include <limits>

#include "csr.h"
#include "spgemm.h"

namespace kw {
namespace {

constexpr int64_t kAhead = 8;       // entries whose rows are asked for before they are used
constexpr int64_t kNear = 1 << 19;  // bytes that are found in a near cache
constexpr int64_t kTogether = 1 << 14;  // results of rows that meet all columns in turn
constexpr int64_t kShort = 12;      // entries of rows, in the mean, that are summed one by one if all are as long

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

// Whether N columns are all columns of the matrix: neither they nor what is left to the last one has a sign.
template <int N, class I> KW_INLINE bool within(const I* col, int64_t columns) {
  typedef typename std::make_unsigned<I>::type Unsigned;
  typedef Unsigned Vector __attribute__((vector_size(N * sizeof(I))));
  typedef I Signs __attribute__((vector_size(N * sizeof(I))));
  const Unsigned last = static_cast<Unsigned>(std::min<int64_t>(columns - 1, std::numeric_limits<I>::max()));
  Vector c;
  std::memcpy(&c, col, sizeof c);
  const Signs wrong = (Signs)(c | (last - c)) < 0;
#if defined(__AVX__)
  if constexpr (sizeof wrong == 32) return _mm256_movemask_pd((__m256d)wrong) == 0;
  else return _mm_movemask_ps((__m128)wrong) == 0;
#else
  I any = 0;
  for (int i = 0; i < N; ++i) any |= wrong[i];
  return any == 0;
#endif
}

// Whether the rows [begin, end) have less than kShort entries in the mean, and most as many as the one before: of 64 rows.
template <class I> bool short_and_alike(const Csr<I>& m, int64_t begin, int64_t end) {
  const int64_t step = std::max<int64_t>((end - begin) / 64, 1);
  int64_t seen = 0, other = 0;
  for (int64_t r = begin + 1; r < end; r += step, ++seen)
    other += m.crow[r + 1] - m.crow[r] != m.crow[r] - m.crow[r - 1];
  return m.crow[end] - m.crow[begin] < kShort * (end - begin) && other * 8 <= seen;
}

// Whether every column of the rows was one of the matrix.
template <class I> bool multiply_one_by_one(const Csr<I>& m, const float* values, const float* x, float* out, int64_t begin,
                                            int64_t end) {
  typedef typename std::make_unsigned<I>::type Unsigned;
  for (int64_t r = begin, e = m.crow[begin]; r < end; ++r) {
    float sum = 0.0f;
    for (const int64_t last = m.crow[r + 1]; e < last; ++e) {  // a predicted branch: nothing waits for it
      if (__builtin_expect(static_cast<Unsigned>(m.col[e]) >= static_cast<Unsigned>(m.columns), 0)) return false;
      sum += values[e] * x[m.col[e]];
    }
    out[r] = sum;
  }
  return true;
}

// The same by four entries, the last of which are some of the next row's and count as nothing: where lengths of rows
// differ, each row's end would be a mispredicted branch.
template <class I> bool multiply_vector(const Csr<I>& m, const float* values, const float* x, float* out, int64_t begin,
                                        int64_t end) {
  typedef float Four __attribute__((vector_size(16)));
  typedef int Lanes __attribute__((vector_size(16)));
  if (short_and_alike(m, begin, end)) return multiply_one_by_one(m, values, x, out, begin, end);
  int64_t r = begin;
  for (; r < end && m.crow[r + 1] + 3 <= m.entries; ++r) {
    Four sum = {};
    for (int64_t e = m.crow[r], last = m.crow[r + 1]; e < last; e += 4) {
      const I* c = m.col + e;
      if (!within<4>(c, m.columns)) return false;
      Four v;
      std::memcpy(&v, values + e, sizeof v);
      const Four product = v * Four{x[c[0]], x[c[1]], x[c[2]], x[c[3]]};
      const int left = static_cast<int>(std::min<int64_t>(last - e, 4));
      sum += (Four)((Lanes)product & (Lanes{0, 1, 2, 3} < left));
    }
    out[r] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
  }
  return multiply_one_by_one(m, values, x, out, r, end);
}

// Whether a few rows, at three places, meet rows of x that lie together and in a near cache; of unsorted ones it is a guess.
template <class I> bool is_band(const Csr<I>& m, int64_t first, int64_t last, int64_t few, int64_t width) {
  for (int64_t place = 0; place < 3; ++place) {
    const int64_t from = first + std::max<int64_t>(last - first - few, 0) * place / 2;
    int64_t low = m.columns, high = 0;
    for (int64_t r = from; r < std::min(from + few, last); ++r)
      if (m.crow[r] < m.crow[r + 1])
        low = std::min<int64_t>(low, m.col[m.crow[r]]), high = std::max<int64_t>(high, m.col[m.crow[r + 1] - 1] + 1);
    if ((high - low) * width * int64_t(sizeof(float)) > kNear) return false;
  }
  return true;
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
  in_row_shares(m, 2 * (m.entries + m.rows) * width, [&](int64_t first, int64_t last) {
    if (is_vector) {
      if (!multiply_vector(m, values.data(), x.data(), out.data(), first, last)) good = false;
      return;
    }
    // All rows meet some columns of x; of a band, whose rows meet the same rows of x as the next, some rows meet all columns.
    const int64_t few = std::max<int64_t>(kTogether / std::max<int64_t>(width, 1), 16);
    const int64_t some = is_band(m, first, last, few, width) ? few : std::max<int64_t>(last - first, 1);
    for (int64_t begin = first; begin < last; begin += some) {
      int64_t j = 0;
      const auto tile = [&](auto vectors, auto lanes) KW_INLINED {
        const int64_t end = std::min(begin + some, last);
        multiply_columns<vectors.value>(m, values.data(), x.data(), out.data(), width, j, begin, end, lanes);
        j += (vectors.value - 1) * W + lanes.count;
      };
      while (width - j >= 8 * W) tile(std::integral_constant<int, 8>{}, Full{});
      if (width - j >= 4 * W) tile(std::integral_constant<int, 4>{}, Full{});
      if (width - j >= 2 * W) tile(std::integral_constant<int, 2>{}, Full{});
      if (width - j >= W) tile(std::integral_constant<int, 1>{}, Full{});
      if (width > j) tile(std::integral_constant<int, 1>{}, Part{static_cast<int>(width - j)});
    }
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
