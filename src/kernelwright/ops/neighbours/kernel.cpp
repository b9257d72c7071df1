// The points nearest to each query; the distances are never stored.
//
// A chunk of queries at a time lies along lanes, and points stream past them (stream_reduce.h): a score x·c·scale + bias
// is looked at alone only where it is above the least of its query's list (largest.h). Few long queries are compared with
// every point by themselves, lanes along their columns.
//
// Squared distances are ordered by x·c - |c|²/2, both less the mean of the points where that is far from zero. Lists are
// longer than what is wanted; distances to what they hold are summed from differences, which order the result. A bound on
// rounding tells whether a point that was left out could be as near. If so the query is compared with every point, by
// differences, as it is where numbers are not finite.
#include "largest.h"
#include "rows.h"
#include "stream_reduce.h"

namespace kw {
namespace {

enum Metric : int64_t { kSquared, kInner, kCosine };

constexpr int kRows = kTileRows;
constexpr int64_t kFew = 4;                         // queries that are compared by lanes of columns
constexpr int64_t kSample = 1024;                   // points whose mean is taken
constexpr int64_t kBlockBytes = int64_t(1) << 18;   // of points that few queries are compared with in turn
constexpr int64_t kAheadBytes = int64_t(1) << 12;   // of points that are asked for ahead
constexpr double kRounding = 1.0 / (1 << 23);
constexpr float kLeastNorm = 1e-12f;                // as of torch.nn.functional.normalize

KW_INLINE F plus(F a, F b) { return a + b; }

// Sums over lanes are left open.
template <class T, class Pair> KW_INLINE F paired(const float* a, const T* b, int64_t inner, Pair pair) {
  F sums[2] = {};
  int64_t k = 0;
  for (; k + 2 * W <= inner; k += 2 * W) {
    sums[0] = pair(load(a + k, Full{}), load(b + k, Full{}), sums[0]);
    sums[1] = pair(load(a + k + W, Full{}), load(b + k + W, Full{}), sums[1]);
  }
  for (; k + W <= inner; k += W) sums[0] = pair(load(a + k, Full{}), load(b + k, Full{}), sums[0]);
  if (k < inner) {
    const Part lanes{static_cast<int>(inner - k)};
    sums[1] = pair(load(a + k, lanes), load(b + k, lanes), sums[1]);
  }
  return sums[0] + sums[1];
}
KW_INLINE F multiplied(F a, F b, F sum) { return fma(a, b, sum); }
KW_INLINE F apart(F a, F b, F sum) { return fma(a - b, a - b, sum); }
KW_INLINE float dot(const float* a, const float* b, int64_t inner) {
  return fold_lanes(paired(a, b, inner, multiplied), plus)[0];
}
KW_INLINE float distance(const float* a, const float* b, int64_t inner) {
  return fold_lanes(paired(a, b, inner, apart), plus)[0];
}

// A row as floats, where it lies if it can be read there.
template <class T> const float* as_floats(const Matrix<T>& m, int64_t i, float* room) {
  if constexpr (std::is_same_v<T, float>) {
    if (m.column == 1 && !m.shift) return m.data + i * m.row;
  }
  m.copy(i, room);
  return room;
}

// What turns products with points into scores.
template <class T> struct Points {
  Matrix<T> c;
  Metric metric;
  Temporary<float> mean, scale, bias;
  double largest = 0;  // |c|, of those whose scores can be trusted

  // streams: whether products are made of them at all.
  Points(const Matrix<T>& given, Metric metric, bool streams)
      : c(given), metric(metric), mean(c.inner), scale(streams ? c.rows : 0), bias(streams ? c.rows : 0) {
    if (!streams) return;
    if (metric == kSquared && far_from_zero()) c.shift = mean.data;
#pragma omp parallel for schedule(static) reduction(max : largest) if (c.rows * c.inner > kSerialProducts)
    for (int64_t i = 0; i < c.rows; ++i) {
      Room<float> room(c.inner);
      const float* row = as_floats(c, i, room.data);
      const float squares = metric == kInner ? 0.0f : dot(row, row, c.inner);
      scale.data[i] = metric == kCosine ? inverse(squares) : 1.0f;
      bias.data[i] = metric == kSquared ? -0.5f * squares : 0.0f;
      if (squares < kInf) largest = std::max(largest, std::sqrt(double(squares)));
    }
  }

  // Whether the mean of some points is farther from zero than they are from it.
  bool far_from_zero() {
    const int64_t count = std::min(c.rows, kSample);
    Temporary<double> sums(c.inner);
    Room<float> room(c.inner);
    std::fill(sums.data, sums.data + c.inner, 0.0);
    double squares = 0, mean_squares = 0;
    for (int64_t n = 0; n < count; ++n) {
      const float* row = as_floats(c, c.rows * n / count, room.data);
      for (int64_t k = 0; k < c.inner; ++k) sums.data[k] += row[k], squares += double(row[k]) * row[k];
    }
    for (int64_t k = 0; k < c.inner; ++k) {
      mean.data[k] = static_cast<float>(sums.data[k] / count);
      mean_squares += double(mean.data[k]) * mean.data[k];
    }
    return mean_squares > squares / count - mean_squares;
  }

  static float inverse(float squares) { return 1.0f / larger(std::sqrt(squares), kLeastNorm); }

  // A score by itself, without products of more rows; a larger one is nearer.
  float compared(const float* x, const float* row) const {
    if (metric == kSquared) return -distance(x, row, c.inner);
    return dot(x, row, c.inner) * (metric == kCosine ? inverse(dot(row, row, c.inner)) : 1.0f);
  }
};

// What is no number is farthest.
KW_INLINE float ordered(float score) { return score == score ? score : -kInf; }

// Folds the products of one point, lanes along queries.
struct Fold {
  struct State {
    int64_t row;
    float scale, bias;
  };
  const float *scale, *bias;
  Largest* seen;

  KW_INLINE void begin(State& s, int64_t row) const { s = {row, scale[row], bias[row]}; }
  KW_INLINE void take(State& s, const float* products, int64_t n, int) const {
    const F z = fma(load(products, Full{}), splat(s.scale), splat(s.bias));
    const M above = z > load(seen->least + n, Full{});
    if (any(above)) seen->insert_some(n, z, above, static_cast<int32_t>(s.row));
  }
  template <class A> KW_INLINE void finish(State&, int64_t, const A*) const {}
};

// The products of all points with a chunk of queries, by a team that has a list each.
template <int V>
__attribute__((noinline)) void all_products(const StreamPanels<V>& queries, const Source<float>& c, const Fold& fold, int64_t team) {
  const int64_t blocks = std::min<int64_t>((c.rows + kRows - 1) / kRows, team * 8);
#pragma omp parallel num_threads(team) if (team > 1)
  {
    Fold own = fold;
    own.seen += omp_get_thread_num();
#pragma omp for schedule(static)
    for (int64_t b = 0; b < blocks; ++b)
      stream_rows<kRows, V>(c, queries, own, c.rows * b / blocks, c.rows * (b + 1) / blocks);
  }
}

template <class T> struct Search {
  Matrix<T> x;
  const Points<T>& points;
  bool streams;
  int64_t count, kept;
  float* values;
  int64_t* indices;

  // Queries [m, m + rows) against all points, which a team shares.
  void chunk(int64_t m, int64_t rows, Largest* seen, Best* room, int64_t team) const {
    Matrix<T> part = x;
    part.data += m * x.row, part.rows = rows;
    part.shift = points.c.shift;
    const int64_t apart = (x.inner + W - 1) / W * W;
    const Temporary<float> shifted(rows * apart);
    for (int64_t i = 0; i < rows; ++i) part.copy(i, shifted.data + i * apart);
    for (int64_t t = 0; t < team; ++t)
      seen[t].clear(room + t * kChunk * kept, kept, rows, streams ? -kInf : kNaN);
    const Matrix<float> queries{shifted.data, rows, x.inner, apart, 1};
    if (!streams) few(queries, seen, team);
    else if (rows <= W) stream<1>(queries, seen, team);
    else stream<2>(queries, seen, team);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t t = 1; t < team; ++t) seen[0].join(i, seen[t]);
      settle(m + i, queries.data + i * apart, seen[0], i);
    }
  }

  template <int V> void stream(const Matrix<float>& queries, Largest* seen, int64_t team) const {
    const Fold fold{points.scale.data, points.bias.data, seen};
    all_products(StreamPanels<V>(queries), Source<float>::of(points.c), fold, team);
  }

  // Blocks of points meet each query in turn, and are read once.
  void few(const Matrix<float>& queries, Largest* seen, int64_t team) const {
#pragma omp parallel num_threads(team) if (team > 1)
    {
      const Range mine = share(points.c.rows, omp_get_thread_num(), omp_get_num_threads());
      const int64_t step = std::max<int64_t>(1, kBlockBytes / (x.inner * int64_t(sizeof(T))) / W) * W;
      for (int64_t n = mine.begin; n < mine.end; n += step)
        for (int64_t i = 0; i < queries.rows; ++i) {
          const float* query = queries.data + i * queries.row;
          for (int64_t m = n; m < std::min(n + step, mine.end); m += W)
            scan(query, m, std::min<int64_t>(W, mine.end - m), seen[omp_get_thread_num()], i);
        }
    }
  }
  // Up to W points.
  void scan(const float* query, int64_t first, int64_t count, Largest& seen, int64_t i) const {
    F z{}, squares{};
    const int64_t ahead = std::max<int64_t>(4, kAheadBytes / (x.inner * int64_t(sizeof(T))));
    for (int64_t n = 0; n < count; ++n) {
      const T* row = points.c.data + (first + n) * points.c.row;
      if (first + n + ahead < points.c.rows)
        for (int64_t at = 0; at < x.inner; at += 64 / int64_t(sizeof(T))) prefetch(row + ahead * points.c.row + at);
      const F sum = points.metric == kSquared ? -paired(query, row, x.inner, apart) : paired(query, row, x.inner, multiplied);
      z[n] = fold_lanes(sum, plus)[0];
      if (points.metric == kCosine) {
        const auto square = [](F, F b, F sum) KW_INLINED { return fma(b, b, sum); };
        squares[n] = fold_lanes(paired(query, row, x.inner, square), plus)[0];
      }
    }
    if (points.metric == kCosine) z *= 1.0f / maximum(sqrt(squares), splat(kLeastNorm));
    z = select(z == z, z, splat(-kInf));
    const M some = ~(z <= splat(seen.least[i])) & lanes_mask(Part{static_cast<int>(count)});
    for (unsigned left = lanes_set(some); left; left &= left - 1) {
      const int n = __builtin_ctz(left);
      seen.insert(i, z[n], static_cast<int32_t>(first + n));
    }
  }

  // Writes what is nearest, from a list that is certain to hold it.
  void settle(int64_t row, const float* query, Largest& seen, int64_t i) const {
    Best* list = seen.best + i * kept;
    Matrix<T> plain = points.c, own = x;
    plain.shift = own.shift = nullptr;
    Room<float> room(x.inner), other(x.inner);
    const float* exact = as_floats(own, row, room.data);
    const auto measured = [&](int64_t n) { return points.compared(exact, as_floats(plain, n, other.data)); };
    if (streams && points.metric == kSquared) {
      for (int64_t n = 0; n < seen.filled[i]; ++n) list[n].value = ordered(measured(list[n].place));
      std::sort(list, list + seen.filled[i],
                [](Best a, Best b) { return a.value > b.value || (a.value == b.value && a.place < b.place); });
    }
    if (!certain(query, seen, i)) {
      seen.filled[i] = 0, seen.least[i] = kNaN;
      for (int64_t n = 0; n < plain.rows; ++n) seen.insert(i, ordered(measured(n)), static_cast<int32_t>(n));
    }
    const float norm = points.metric == kCosine ? points.inverse(dot(exact, exact, x.inner)) : 1.0f;
    for (int64_t n = 0; n < count; ++n) {
      const float value = list[n].value == -kInf ? measured(list[n].place) : list[n].value;
      values[row * count + n] = points.metric == kSquared ? -value : value * norm;
      indices[row * count + n] = list[n].place;
    }
  }
  // Whether no point that is not in the list, sorted by distance, can be as near as the last that is wanted.
  bool certain(const float* query, const Largest& seen, int64_t i) const {
    if (!streams) return true;
    if (seen.filled[i] < kept) return false;
    if (points.metric != kSquared || kept == points.c.rows) return true;
    const double inner = double(x.inner), own = std::sqrt(double(dot(query, query, x.inner)));
    const double farthest = -double(seen.best[i * kept + count - 1].value);
    const double norm = std::min(points.largest, own + 1.01 * std::sqrt(farthest));  // of what can be as near
    const double reach = (own + norm) * (own + norm);
    if (!(reach < 1e37)) return false;
    const double error = (inner + 16) * (kRounding * reach + 1e-37);
    return own * own - 2 * seen.least[i] - 2 * error > farthest * (1 + (inner + 16) * kRounding);
  }

  void run() const {
    const bool alone = omp_in_parallel() || x.rows * points.c.rows * x.inner < kSerialProducts;
    const int64_t threads = alone ? 1 : omp_get_max_threads(), chunks = (x.rows + kChunk - 1) / kChunk;
    const bool apart = chunks >= threads;  // each thread has chunks of its own
    const Temporary<Largest> seen(threads);
    const Temporary<Best> room(threads * kChunk * kept);
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1) if (apart && threads > 1)
    for (int64_t at = 0; at < chunks; ++at) {
      const int64_t m = at * kChunk, own = apart ? omp_get_thread_num() : 0;
      chunk(m, std::min(kChunk, x.rows - m), seen.data + own, room.data + own * kChunk * kept, apart ? 1 : threads);
    }
  }
};

template <class T> void nearest(const Args& args) {
  const auto x = Matrix<T>::of(args.tensor<const T>(0));
  const auto c = Matrix<T>::of(args.tensor<const T>(1));
  const bool streams = x.rows > kFew || x.inner < W || c.column != 1;
  const Points<T> points(c, static_cast<Metric>(args.integer(3)), streams);
  const int64_t count = args.integer(2);
  if (count > points.c.rows) KW_UNSUPPORTED("more points are asked for than there are");
  const int64_t more = points.metric == kSquared ? 4 + count / 8 : 0;
  Search<T>{x, points, streams, count, std::min(points.c.rows, count + more),
            args.tensor<float>(4).data(), args.tensor<int64_t>(5).data()}.run();
}

}  // namespace
}  // namespace kw

// x, points, count, metric; values, indices
KW_KERNEL(neighbours_nearest) {
  const kw::Tuned tuned(args, 6);
  if (args.is<float>(0)) kw::nearest<float>(args);
  else if (args.is<kw::bfloat16>(0)) kw::nearest<kw::bfloat16>(args);
  else kw::nearest<kw::float16>(args);
}
