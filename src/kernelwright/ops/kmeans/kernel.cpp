// k-means: the nearest centroid of each row, and in one pass the sums of rows by centroid.
//
// Nearest is the largest x·c - |c|²/2, so |x|² is not needed to find it; the first of equals wins. The distance to the
// one that was found is then summed from the differences, so nothing cancels.
#include "vector.h"
#include "stream_reduce.h"

namespace kw {
namespace {

constexpr int32_t kNone = 0x7fffffff;

KW_INLINE int32_t least(M v) {
  for (int step = W / 2; step > 0; step /= 2) {
    const M other = bits(shuffle(from_bits(v), from_bits(v), iota() ^ step));
    v = select(other < v, other, v);
  }
  return v[0];
}

struct Nearest {
  F best;
  M index;
};

// What happens with a row once its centroid is known.
struct Outputs {
  int64_t* labels;
  float* distances;
  const float* centroids;  // [clusters][inner] as floats
  int64_t inner;
  float* sums = nullptr;   // [clusters][inner], of weighted differences to the centroid
  float* counts = nullptr;
  const float* weights = nullptr;
};

struct Assign {
  using State = Nearest;
  const float* bias;  // -|c|²/2; -inf beyond the last
  Outputs out;

  KW_INLINE void begin(State& s, int64_t) const { s.best = splat(-kInf), s.index = M{}; }
  KW_INLINE void take(State& s, const float* sums, int64_t n, int) const {
    const F score = load(sums, Full{}) + load(bias + n, Full{});
    const M better = score > s.best;
    s.best = select(better, score, s.best);
    s.index = select(better, iota() + static_cast<int32_t>(n), s.index);
  }
  KW_INLINE void finish(State& s, int64_t row, const float* x) const {
    const F best = fold_lanes(s.best, [](F a, F b) { return select(a > b, a, b); });
    const int32_t label = least(select(s.best == best, s.index, M{} + kNone));
    out.labels[row] = label;
    const float* c = out.centroids + label * out.inner;
    const F weight = splat(out.weights ? out.weights[row] : 1.0f);
    float* to = out.sums ? out.sums + label * out.inner : nullptr;
    F squares{};
    const auto step = [&](int64_t k, auto lanes) KW_INLINED {
      const F difference = load(x + k, lanes) - load(c + k, lanes);
      squares = fma(difference, difference, squares);
      if (to) store(to + k, fma(difference, weight, load(to + k, lanes)), lanes);
    };
    int64_t k = 0;
    for (; k + W <= out.inner; k += W) step(k, Full{});
    if (k < out.inner) step(k, Part{static_cast<int>(out.inner - k)});
    out.distances[row] = fold_lanes(squares, [](F a, F b) { return a + b; })[0];
    if (to) out.counts[label] += weight[0];
  }
};

// Centroids as floats, and the bias of each.
struct Centroids {
  Temporary<float> rows, bias;
  Centroids(const Matrix<float>& c, int64_t padded) : rows(c.rows * c.inner), bias(padded) {
    for (int64_t n = 0; n < c.rows; ++n) {
      c.copy(n, rows.data + n * c.inner);
      double squares = 0;
      for (int64_t k = 0; k < c.inner; ++k) {
        const double value = rows.data[n * c.inner + k];
        squares += value * value;
      }
      bias.data[n] = static_cast<float>(-0.5 * squares);
    }
    for (int64_t n = c.rows; n < padded; ++n) bias.data[n] = -kInf;
  }
};

// Few centroids of few columns: a lane is a row of X, so that neither lanes stay empty nor is any reduction across
// them. A centroid's columns are a vector, of which each lane takes its own by its label.
constexpr int64_t kFewColumns = 32;
constexpr int64_t kFewSums = 128;  // sums that are kept as vectors, one for each centroid and column

struct Few {
  const float* centroids;  // [clusters][inner]
  const float* bias;
  int64_t clusters, inner;
  alignas(64) float columns[kFewColumns][W];

  Few(const float* c, const float* b, int64_t n, int64_t d) : centroids(c), bias(b), clusters(n), inner(d) {
    for (int64_t k = 0; k < d; ++k)
      for (int64_t i = 0; i < W; ++i) columns[k][i] = i < n ? c[i * d + k] : 0.0f;
  }
  KW_INLINE M nearest(const F* x) const {
    F best = splat(-kInf);
    M index{};
    const auto scored = [&](int64_t first, auto many) KW_INLINED {
      constexpr int N = decltype(many)::value;
      F score[N];
#pragma GCC unroll 4
      for (int i = 0; i < N; ++i) score[i] = splat(0.0f);
      for (int64_t k = 0; k < inner; ++k)
#pragma GCC unroll 4
        for (int i = 0; i < N; ++i) score[i] = fma(x[k], splat(centroids[(first + i) * inner + k]), score[i]);
#pragma GCC unroll 4
      for (int i = 0; i < N; ++i) {
        const F s = score[i] + splat(bias[first + i]);
        const M better = s > best;
        best = select(better, s, best);
        index = select(better, M{} + static_cast<int32_t>(first + i), index);
      }
    };
    int64_t n = 0;
    for (; n + 4 <= clusters; n += 4) scored(n, std::integral_constant<int, 4>{});
    for (; n < clusters; ++n) scored(n, std::integral_constant<int, 1>{});
    return index;
  }
};

void few_rows(const Source<float>& x, const Few& few, const Outputs& out, int64_t first, int64_t last) {
  const int64_t d = few.inner, apart = (d + W - 1) / W * W;
  alignas(64) float rows[W * kFewColumns];
  F across[kFewColumns];
  const bool by_vector = out.sums && few.clusters * d <= kFewSums;
  const Temporary<F> sums(by_vector ? few.clusters * d : 0);
  F counts[W];
  for (int64_t i = 0; by_vector && i < few.clusters * d; ++i) sums.data[i] = F{};
  for (int64_t n = 0; n < W; ++n) counts[n] = F{};
  for (int64_t m = first; m < last; m += W) {
    const int here = static_cast<int>(std::min<int64_t>(W, last - m));
    if (here < W) std::memset(rows, 0, sizeof rows);
    for (int i = 0; i < here; ++i) x.copy(m + i, rows + i * apart);
    for (int64_t k = 0; k < d; k += W) {
      F block[W];
#pragma GCC unroll 16
      for (int i = 0; i < W; ++i) block[i] = load(rows + i * apart + k, Full{});
      transpose_lanes(block);
#pragma GCC unroll 16
      for (int i = 0; i < W; ++i) across[k + i] = block[i];
    }
    const M label = few.nearest(across);
    const Part lanes{here};
    F squares{}, weight = out.weights ? load(out.weights + m, lanes) : splat(1.0f);
    weight = select(lanes_mask(lanes), weight, splat(0.0f));
    for (int64_t k = 0; k < d; ++k) {
      const F c = load(few.columns[k], Full{}), difference = across[k] - shuffle(c, c, label);
      squares = fma(difference, difference, squares);
      across[k] = difference * weight;
    }
    store(out.distances + m, squares, lanes);
    store_integers(out.labels + m, label, lanes);
    if (by_vector) {
      for (int64_t n = 0; n < few.clusters; ++n) {
        const M own = label == static_cast<int32_t>(n);
        for (int64_t k = 0; k < d; ++k) {
          F& sum = sums.data[n * d + k];
          sum = select(own, sum + across[k], sum);
        }
        counts[n] = select(own, counts[n] + weight, counts[n]);
      }
    } else if (out.sums) {
      for (int i = 0; i < here; ++i) {
        const int64_t n = label[i];
        const float *row = rows + i * apart, *c = few.centroids + n * d;
        const F own = splat(weight[i]);
        float* to = out.sums + n * d;
        const auto step = [&](int64_t k, auto part) KW_INLINED {
          store(to + k, fma(load(row + k, part) - load(c + k, part), own, load(to + k, part)), part);
        };
        int64_t k = 0;
        for (; k + W <= d; k += W) step(k, Full{});
        if (k < d) step(k, Part{static_cast<int>(d - k)});
        out.counts[n] += weight[i];
      }
    }
  }
  const auto add = [](F a, F b) { return a + b; };
  for (int64_t n = 0; by_vector && n < few.clusters; ++n) {
    for (int64_t k = 0; k < d; ++k) out.sums[n * d + k] += fold_lanes(sums.data[n * d + k], add)[0];
    out.counts[n] += fold_lanes(counts[n], add)[0];
  }
}

template <int R, int V> void assign(const Source<float>& x, Matrix<float> c, Outputs out) {
  const bool few = c.rows <= W && c.inner <= kFewColumns;
  const StreamPanels<V> panels(few ? Matrix<float>{c.data, 0, c.inner, c.row, c.column} : c);
  const Centroids centroids(c, (c.rows + panels.columns - 1) / panels.columns * panels.columns);
  out.centroids = centroids.rows.data, out.inner = c.inner;
  const Few small(out.centroids, centroids.bias.data, few ? c.rows : 0, few ? c.inner : 0);
  int64_t shares = stream_shares(x.rows, c.rows * c.inner);
  // Each share has sums of its own, added in order: the result depends on the number of threads, never on their speed.
  const int64_t each = out.sums ? c.rows * c.inner + c.rows : 0;
  if (each) shares = std::max<int64_t>(1, std::min(shares, (int64_t(1) << 26) / (each * int64_t(sizeof(float)))));
  const Temporary<float> partial(shares * each);
#pragma omp parallel for schedule(dynamic, 1) if (shares > 1)
  for (int64_t s = 0; s < shares; ++s) {
    const int64_t first = x.rows * s / shares, last = x.rows * (s + 1) / shares;
    Outputs own = out;
    if (each) {
      own.sums = partial.data + s * each, own.counts = own.sums + c.rows * c.inner;
      std::memset(own.sums, 0, static_cast<size_t>(each) * sizeof(float));
    }
    if (few) few_rows(x, small, own, first, last);
    else stream_rows<R, V>(x, panels, Assign{centroids.bias.data, own}, first, last);
  }
#pragma omp parallel for schedule(static) if (each * shares > kSerialProducts)
  for (int64_t i = 0; i < each; ++i) {
    double sum = 0;
    for (int64_t s = 0; s < shares && x.rows; ++s) sum += partial.data[s * each + i];
    (i < c.rows * c.inner ? out.sums[i] : out.counts[i - c.rows * c.inner]) = static_cast<float>(sum);
  }
}

__attribute__((noinline)) void assign(const Source<float>& x, const Matrix<float>& c, const Outputs& out) {
  if (c.rows <= W) assign<kTileRows, 1>(x, c, out);
  else assign<kTileRows, 2>(x, c, out);
}

template <class Function> void by_type(const Args& args, int i, Function function) {
  if (args.is<float>(i)) function(Matrix<float>::of(args.tensor<const float>(i)));
  else if (args.is<bfloat16>(i)) function(Matrix<bfloat16>::of(args.tensor<const bfloat16>(i)));
  else function(Matrix<float16>::of(args.tensor<const float16>(i)));
}

void run(const Args& args, const Outputs& out) {
  const Tensor<const char> shape(args.any_tensor(1));
  const Temporary<float> floats(shape.numel());
  by_type(args, 1, [&](auto given) {
    for (int64_t n = 0; n < given.rows; ++n) given.copy(n, floats.data + n * given.inner);
  });
  const Matrix<float> c{floats.data, shape.shape(0), shape.shape(1), shape.shape(1), 1};
  by_type(args, 0, [&](auto x) {
    if (!args.is_none(2)) x.shift = args.tensor<const float>(2).data();
    assign(Source<float>::of(x), c, out);
  });
}

}  // namespace
}  // namespace kw

// x, centroids, shift or none; labels, distances
KW_KERNEL(kmeans_assign) {
  const kw::Tuned tuned(args, 5);
  kw::Outputs out{args.tensor<int64_t>(3).data(), args.tensor<float>(4).data()};
  kw::run(args, out);
}

// x, centroids, shift or none, weights or none; labels, distances, sums of differences, weights
KW_KERNEL(kmeans_step) {
  const kw::Tuned tuned(args, 8);
  kw::Outputs out{args.tensor<int64_t>(4).data(), args.tensor<float>(5).data()};
  out.sums = args.tensor<float>(6).data(), out.counts = args.tensor<float>(7).data();
  if (!args.is_none(3)) out.weights = args.tensor<const float>(3).data();
  kw::run(args, out);
}
