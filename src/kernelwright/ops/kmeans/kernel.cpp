// k-means: the nearest centroid of each row, and in one pass the sums of rows by centroid.
//
// Nearest is the largest x·c - |c|²/2, so |x|² is not needed to find it; the first of equals wins. The distance to the
// one that was found is then summed from the differences, so nothing cancels.
#include "stream_reduce.h"

namespace kw {
namespace {

struct Nearest {
  F best;
  M index;
};

// What happens with a row once its centroid is known.
struct Outputs {
  int64_t* labels;
  float* distances;
  const float* centroids;  // [clusters][inner] as floats, shifted as the rows are
  int64_t inner;
  float* sums = nullptr;   // [clusters][inner], of weighted differences to the centroid
  float* counts = nullptr;
  const float* weights = nullptr;
};

struct Assign {
  using State = Nearest;
  const float* bias;  // -|c|²/2; -inf beyond the last
  Outputs out;

  KW_INLINE void begin(State& s) const { s.best = splat(-kInf), s.index = M{}; }
  KW_INLINE void take(State& s, const float* sums, int64_t n, int) const {
    const F score = load(sums, Full{}) + load(bias + n, Full{});
    const M better = score > s.best;
    s.best = select(better, score, s.best);
    s.index = select(better, iota() + static_cast<int32_t>(n), s.index);
  }
  KW_INLINE void finish(State& s, int64_t row, const float* x) const {
    float best = s.best[0];
    int32_t label = s.index[0];
    for (int i = 1; i < W; ++i)
      if (s.best[i] > best || (s.best[i] == best && s.index[i] < label)) best = s.best[i], label = s.index[i];
    out.labels[row] = label;
    const float* c = out.centroids + label * out.inner;
    const float weight = out.weights ? out.weights[row] : 1.0f;
    float* to = out.sums ? out.sums + label * out.inner : nullptr;
    F squares{};
    const auto step = [&](int64_t k, auto lanes) KW_INLINED {
      const F difference = load(x + k, lanes) - load(c + k, lanes);
      squares = fma(difference, difference, squares);
      if (to) store(to + k, fma(difference, splat(weight), load(to + k, lanes)), lanes);
    };
    int64_t k = 0;
    for (; k + W <= out.inner; k += W) step(k, Full{});
    if (k < out.inner) step(k, Part{static_cast<int>(out.inner - k)});
    out.distances[row] = fold_lanes(squares, [](F a, F b) { return a + b; })[0];
    if (to) out.counts[label] += weight;
  }
};

// Centroids as floats, and the bias of each.
template <class T> struct Centroids {
  Temporary<float> rows, bias;
  Centroids(const Matrix<T>& c, int64_t padded) : rows(c.rows * c.inner), bias(padded) {
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

template <int R, int V, class T>
void assign(Matrix<T> x, Matrix<T> c, Outputs out) {
  const StreamPanels<V> panels(c);
  const Centroids<T> centroids(c, panels.count * panels.columns);
  out.centroids = centroids.rows.data, out.inner = c.inner;
  int64_t shares = stream_shares(x.rows, c.rows * c.inner);
  if (!out.sums) {
    stream_reduce<R, V>(x, panels, shares, [&](int64_t) { return Assign{centroids.bias.data, out}; });
    return;
  }
  // Each share has sums of its own, added in order: the result depends on the number of threads, never on their speed.
  const int64_t each = c.rows * c.inner + c.rows;
  shares = std::max<int64_t>(1, std::min(shares, (int64_t(1) << 26) / (each * int64_t(sizeof(float)))));
  const Temporary<float> partial(shares * each);
  stream_reduce<R, V>(x, panels, shares, [&](int64_t share) {
    Outputs own = out;
    own.sums = partial.data + share * each, own.counts = own.sums + c.rows * c.inner;
    std::memset(own.sums, 0, static_cast<size_t>(each) * sizeof(float));
    return Assign{centroids.bias.data, own};
  });
#pragma omp parallel for schedule(static) if (each * shares > kSerialProducts)
  for (int64_t i = 0; i < each; ++i) {
    double sum = 0;
    for (int64_t s = 0; s < shares && x.rows; ++s) sum += partial.data[s * each + i];
    (i < c.rows * c.inner ? out.sums[i] : out.counts[i - c.rows * c.inner]) = static_cast<float>(sum);
  }
}

template <class T> void assign_of(const Args& args, Outputs out, int shift) {
  auto x = Matrix<T>::of(args.tensor<const T>(0)), c = Matrix<T>::of(args.tensor<const T>(1));
  if (!args.is_none(shift)) x.shift = c.shift = args.tensor<const float>(shift).data();
  if (c.rows <= W) assign<kTileRows, 1>(x, c, out);
  else assign<kTileRows, 2>(x, c, out);
}

void by_type(const Args& args, const Outputs& out, int shift) {
  if (args.is<float>(0)) assign_of<float>(args, out, shift);
  else if (args.is<bfloat16>(0)) assign_of<bfloat16>(args, out, shift);
  else assign_of<float16>(args, out, shift);
}

}  // namespace
}  // namespace kw

// x, centroids, shift or none; labels, distances
KW_KERNEL(kmeans_assign) {
  kw::Outputs out{args.tensor<int64_t>(3).data(), args.tensor<float>(4).data()};
  kw::by_type(args, out, 2);
}

// x, centroids, shift or none, weights or none; labels, distances, sums of differences, weights
KW_KERNEL(kmeans_step) {
  kw::Outputs out{args.tensor<int64_t>(4).data(), args.tensor<float>(5).data()};
  out.sums = args.tensor<float>(6).data(), out.counts = args.tensor<float>(7).data();
  if (!args.is_none(3)) out.weights = args.tensor<const float>(3).data();
  kw::by_type(args, out, 2);
}
