// The largest logits of each row of a linear layer, and the log-sum-exp of all; the logits are never stored.
//
// A chunk of rows of X at a time. The rows that stream are the vocabulary's: W is read where it lies, once a chunk, and a
// vector's lanes are rows of X; of a few rows of X, lanes are inner elements, so that all have work. A logit is looked at
// alone only where it is above the least that its row has kept.
#include "largest.h"
#include "rows.h"
#include "stream_reduce.h"

#include <limits>

namespace kw {
namespace {

constexpr int kRows = kTileRows;
constexpr int64_t kFew = 4;  // rows of X that are multiplied by lanes of inner elements
constexpr int kDots = 4;     // rows of W at a time then

// What a thread has seen of a chunk's rows.
struct Seen : Largest {
  alignas(64) float top[kChunk], sum[kChunk];

  void clear(Best* room, int64_t wanted, int64_t rows) {
    Largest::clear(room, wanted, rows);
    for (int64_t i = 0; i < kChunk; ++i) top[i] = -kInf, sum[i] = 0.0f;
  }
};

// Adds logits to sums of exponentials, each scaled to the largest so far; what is infinite is scaled to the largest that
// is not, as the difference of infinities is NaN.
KW_INLINE void add_logits(F z, F& top, F& sum) {
  if (any(z > top)) {
    const F most = splat(std::numeric_limits<float>::max()), finite = select(z > most, most, z);
    const F higher = select(z > top, finite, top);
    sum = select(top == higher, sum, sum * exp(top - higher));
    top = higher;
  }
  sum += select(z == -kInf, F{}, exp(z - top));
}

// Folds the logits of one row of W, lanes along rows of X.
struct Fold {
  struct State {
    int64_t row;
    float bias;
  };
  const float* bias;
  float softcap;
  bool sums;
  Seen* seen;

  KW_INLINE void begin(State& s, int64_t row) const { s.row = row, s.bias = bias ? bias[row] : 0.0f; }
  KW_INLINE void take(State& s, const float* products, int64_t n, int) const {
    F z = load(products, Full{}) + splat(s.bias);
    if (softcap > 0) z = splat(softcap) * tanh(z / splat(softcap));
    if (sums) {
      F top = load(seen->top + n, Full{}), sum = load(seen->sum + n, Full{});
      add_logits(z, top, sum);
      store(seen->top + n, top, Full{});
      store(seen->sum + n, sum, Full{});
    }
    const M below = z <= load(seen->least + n, Full{});
    if (any(below == 0)) seen->insert_some(n, z, below == 0, static_cast<int32_t>(s.row));
  }
  template <class A> KW_INLINE void finish(State&, int64_t, const A*) const {}
};

// The logits of all rows of W, by a team that has what each thread has seen.
template <int V, class A>
__attribute__((noinline)) void all_logits(const StreamPanels<V, A>& panels, const Source<A>& w, const Fold& fold, int64_t team) {
  const int64_t blocks = std::min<int64_t>((w.rows + kRows - 1) / kRows, team * 8);
#pragma omp parallel num_threads(team)
  {
    Fold own = fold;
    own.seen += omp_get_thread_num();
#pragma omp for schedule(static)
    for (int64_t b = 0; b < blocks; ++b)
      stream_rows<kRows, V>(w, panels, own, w.rows * b / blocks, w.rows * (b + 1) / blocks);
  }
}

// What is seen of the logits of a few rows of X, lanes along rows of W.
struct Few : Fold {
  F tops[kFew], sums_of[kFew] = {};
  explicit Few(const Fold& fold) : Fold(fold) {
    for (F& top : tops) top = splat(-kInf);
  }
  // Products z[rows][W] with rows [n, n + here) of W.
  __attribute__((noinline)) void take(const float* z, int rows, int64_t n, int64_t here) {
    const Part lanes{static_cast<int>(here)};
    for (int r = 0; r < rows; ++r) {
      F v = load(z + r * W, Full{});
      if (bias) v += load(bias + n, lanes);
      if (softcap > 0) v = splat(softcap) * tanh(v / splat(softcap));
      for (int64_t i = here; i < W; ++i) v[i] = -kInf;
      if (sums) add_logits(v, tops[r], sums_of[r]);
      const M below = v <= splat(seen->least[r]);
      if (!any(below == 0)) continue;
      for (int64_t i = 0; i < here; ++i)
        if (!below[i]) seen->insert(r, v[i], static_cast<int32_t>(n + i));
    }
  }
  void finish(int rows) {
    for (int r = 0; r < rows; ++r) {
      for (int i = 0; i < W; ++i) seen->top[r] = larger(seen->top[r], tops[r][i]);
      for (int i = 0; i < W; ++i)
        seen->sum[r] += tops[r][i] == seen->top[r] ? sums_of[r][i] : sums_of[r][i] * std::exp(tops[r][i] - seen->top[r]);
    }
  }
};

template <class T> struct Layer {
  Matrix<T> x, w;
  const float* bias;
  int64_t count;
  float softcap;
  float *values, *lse;  // lse: or none
  int64_t* tokens;

  template <int V> void chunk(const Matrix<T>& rows, Seen* seen, int64_t team) const {
    using A = Multiplied<T>;
    const Fold fold{bias, softcap, lse != nullptr, seen};
    all_logits(StreamPanels<V, A>(rows), Source<A>::of(w), fold, team);
  }

  // Logits of R rows of X, which lie `apart`, with W's rows [first, last).
  template <int R> void few(const float* rows, int64_t apart, int64_t first, int64_t last, Few few) const {
    alignas(64) float z[R][W];
    for (int64_t n = first; n < last; n += W) {
      const int64_t here = std::min<int64_t>(W, last - n);
      for (int64_t j = 0; j < here; j += kDots) {
        const T* from[kDots];
        for (int d = 0; d < kDots; ++d) from[d] = w.data + std::min(n + j + d, last - 1) * w.row;
        F dot[kDots][R] = {};
        const auto add = [&](int64_t k, auto lanes) KW_INLINED {
#pragma GCC unroll 4
          for (int d = 0; d < kDots; ++d) {
            const F v = load(from[d] + k, lanes);
#pragma GCC unroll 4
            for (int r = 0; r < R; ++r) dot[d][r] = fma(v, load(rows + r * apart + k, lanes), dot[d][r]);
          }
        };
        int64_t k = 0;
        for (; k + W <= w.inner; k += W) add(k, Full{});
        if (k < w.inner) add(k, Part{static_cast<int>(w.inner - k)});
        for (int d = 0; d < kDots; ++d)
          for (int r = 0; r < R; ++r) z[r][j + d] = fold_lanes(dot[d][r], [](F a, F b) KW_INLINED { return a + b; })[0];
      }
      few.take(&z[0][0], R, n, here);
    }
    few.finish(R);
  }

  void few_rows(Seen* seen, int64_t team) const {
    const int64_t apart = (w.inner + W - 1) / W * W;
    const Temporary<float> rows(x.rows * apart);
    for (int64_t i = 0; i < x.rows; ++i) x.copy(i, rows.data + i * apart);
#pragma omp parallel num_threads(team)
    {
      const Range mine = share(w.rows, omp_get_thread_num(), omp_get_num_threads(), W);
      const auto each = [&](auto count) {
        few<count.value>(rows.data, apart, mine.begin, mine.end, Few{{bias, softcap, lse != nullptr, seen + omp_get_thread_num()}});
      };
      switch (x.rows) {
        case 1: each(std::integral_constant<int, 1>{}); break;
        case 2: each(std::integral_constant<int, 2>{}); break;
        case 3: each(std::integral_constant<int, 3>{}); break;
        default: each(std::integral_constant<int, kFew>{});
      }
    }
  }

  void run() const {
    const int64_t team = omp_in_parallel() || w.rows * w.inner < kSerialProducts ? 1 : omp_get_max_threads();
    const Temporary<Seen> seen(team);
    const Temporary<Best> room(team * kChunk * count);
    for (int64_t m = 0; m < x.rows; m += kChunk) {
      Matrix<T> rows = x;
      rows.data += m * x.row, rows.rows = std::min(kChunk, x.rows - m);
      for (int64_t t = 0; t < team; ++t) seen.data[t].clear(room.data + t * kChunk * count, count, rows.rows);
      if (x.rows <= kFew && w.column == 1) few_rows(seen.data, team);
      else if (rows.rows <= W) chunk<1>(rows, seen.data, team);
      else chunk<2>(rows, seen.data, team);
      for (int64_t i = 0; i < rows.rows; ++i) joined(seen.data, team, i, m + i);
    }
  }

  // Threads have shares of the vocabulary in their order, so that of equals the first token stays first.
  void joined(Seen* seen, int64_t team, int64_t i, int64_t row) const {
    Seen& all = seen[0];
    float top = all.top[i];
    for (int64_t t = 1; t < team; ++t) {
      top = larger(top, seen[t].top[i]);
      all.join(i, seen[t]);
    }
    for (int64_t n = 0; n < count; ++n) {
      values[row * count + n] = all.best[i * count + n].value;
      tokens[row * count + n] = all.best[i * count + n].place;
    }
    if (!lse) return;
    double sum = 0;
    for (int64_t t = 0; t < team; ++t)
      sum += seen[t].top[i] == top ? seen[t].sum[i] : seen[t].sum[i] * std::exp(double(seen[t].top[i]) - top);
    lse[row] = static_cast<float>(top + std::log(sum));
  }
};

template <class T> void top(const Args& args) {
  if (args.integer(3) > args.any_tensor(1)->shape[0]) KW_UNSUPPORTED("more logits are asked for than there are");
  Layer<T>{Matrix<T>::of(args.tensor<const T>(0)), Matrix<T>::of(args.tensor<const T>(1)),
           args.is_none(2) ? nullptr : args.tensor<const float>(2).data(), args.integer(3),
           static_cast<float>(args.real(4)), args.tensor<float>(6).data(),
           args.boolean(5) ? args.tensor<float>(8).data() : nullptr, args.tensor<int64_t>(7).data()}.run();
}

}  // namespace
}  // namespace kw

// x, weight, bias or none, count, softcap, sums; values, tokens, lse
KW_KERNEL(logits_top) {
  const kw::Tuned tuned(args, 9);
  if (args.is<float>(0)) kw::top<float>(args);
  else if (args.is<kw::bfloat16>(0)) kw::top<kw::bfloat16>(args);
  else kw::top<kw::float16>(args);
}
