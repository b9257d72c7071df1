// Cross-entropy of a linear layer's logits, forward and with gradients; the logits are never stored whole.
//
// A chunk of rows of X at a time. The rows that stream are the vocabulary's: W is read where it lies, once a chunk, and
// a vector's lanes are rows of X, so that the running maximum and sum of exponentials need no reduction across lanes.
// For gradients the chunk's logits stay, transposed, [vocabulary][chunk]; block after block they become the gradient
// of the logits, of which follow a block of W's gradient and a share of X's, one for each thread.
#include "vector.h"
#include "stream_reduce.h"

namespace kw {
namespace {

constexpr int64_t kChunk = 256;   // rows of X
constexpr int64_t kDepth = 256;   // rows of W whose logits become gradients at a time
constexpr int64_t kTile = 2 * W;  // columns of a register tile
constexpr int kRows = kTileRows;

struct Settings {
  int64_t ignored;
  float smoothing, z_loss, softcap;  // softcap: 0 for none
};

KW_INLINE F capped(F z, float cap) { return cap > 0 ? splat(cap) * tanh(z / splat(cap)) : z; }

// What is known of a chunk's rows after their logits: by thread, then of all.
struct Running {
  alignas(64) float best[kChunk], sum[kChunk], lost[kChunk], total[kChunk], chosen[kChunk];
  // Of all threads: what exp(logit - best) times is the probability, raised by the z-loss's slope. A logarithm of the
  // sum added to best would be rounded to best's last bit, which is a factor that all probabilities are off by.
  alignas(64) float factor[kChunk];
  void clear() {
    for (int64_t i = 0; i < kChunk; ++i) best[i] = -kInf, sum[i] = lost[i] = total[i] = chosen[i] = factor[i] = 0.0f;
  }
};

// Folds the logits of one row of W, lanes along rows of X.
struct Logits {
  struct State {
    int64_t row;
    float bias;
  };
  const float* bias;
  const int32_t* targets;  // of the chunk's rows; -1 where ignored
  float softcap;
  bool totals;             // whether the sum of logits is wanted
  float* kept;             // [vocabulary][kChunk], or none
  Running* run;

  KW_INLINE void begin(State& s, int64_t row) const { s.row = row, s.bias = bias ? bias[row] : 0.0f; }
  KW_INLINE void take(State& s, const float* sums, int64_t n, int) const {
    const F z = capped(load(sums, Full{}) + splat(s.bias), softcap);
    if (kept) store(kept + s.row * kChunk + n, z, Full{});
    F best = load(run->best + n, Full{}), sum = load(run->sum + n, Full{}), lost = load(run->lost + n, Full{});
    if (any(z > best)) {
      const F higher = select(z > best, z, best), share = exp(best - higher);
      sum = select(best == higher, sum, sum * share);
      lost = select(best == higher, lost, lost * share);
      store(run->best + n, higher, Full{});
      best = higher;
    }
    // A masked logit adds nothing, even where all before it were masked too. What rounding loses of each of many small
    // terms is kept (Kahan), or a vocabulary of them would add nothing to a large one.
    const F term = select(z == -kInf, F{}, exp(z - best)) - lost, next = sum + term;
    store(run->sum + n, next, Full{});
    store(run->lost + n, (next - sum) - term, Full{});
    if (totals) store(run->total + n, load(run->total + n, Full{}) + z, Full{});
    M mine;
    std::memcpy(&mine, targets + n, sizeof mine);
    const M here = mine == static_cast<int32_t>(s.row);
    if (any(here)) store(run->chosen + n, select(here, z, load(run->chosen + n, Full{})), Full{});
  }
  template <class A> KW_INLINE void finish(State&, int64_t, const A*) const {}
};

void refuse_target(int64_t target, int64_t rows) {
  char text[128];
  snprintf(text, sizeof text,
           "loss.linear_cross_entropy: target is %lld somewhere; expected 0 to %lld, a row of weight, or ignore_index",
           static_cast<long long>(target), static_cast<long long>(rows - 1));
  raise("IndexError", "", text);
}

// out[i, j] (+)= sum over k of a[i, k] * panels[j / kTile][k][j % kTile]: rows by panels, both in cache. Where a tile of
// out begins is asked for while the tile is multiplied.
template <class A, class Ask, class Put>
void times_panels(const A* a, int64_t a_row, int64_t rows, const A* panels, int64_t depth, int64_t columns, Ask ask, Put put) {
  alignas(64) float sums[kRows * kTile];
  for (int64_t j = 0; j < columns; j += kTile, panels += depth * kTile)
    for (int64_t i = 0; i < rows; i += kRows) {
      const int64_t here = std::min<int64_t>(kRows, rows - i);
      for (int64_t r = 0; r < here; ++r) ask(i + r, j);
      packed_rows<kRows, 2>(here, a + i * a_row, a_row, panels, kTile, W, depth, sums, 2 * W, false, Full{});
      for (int64_t r = 0; r < here; ++r)
        for (int v = 0; v < 2; ++v)
          if (const int64_t at = j + v * W; at + W <= columns) put(i + r, at, load(sums + (2 * r + v) * W, Full{}), Full{});
          else if (at < columns)
            put(i + r, at, load(sums + (2 * r + v) * W, Full{}), Part{static_cast<int>(columns - at)});
    }
}

// Rows as panels [columns / kTile][rows][kTile] of what is multiplied, zeros beyond the last column.
template <class T, class A>
void to_panels(const Matrix<T>& x, int64_t first, int64_t rows, A* to, A* room) {
  const int64_t panels = (x.inner + kTile - 1) / kTile;
  for (int64_t k = x.inner; k < panels * kTile; ++k) room[k] = A(0.0f);
  for (int64_t i = 0; i < rows; ++i) {
    x.copy(first + i, room);
    for (int64_t p = 0; p < panels; ++p)
      std::memcpy(to + (p * rows + i) * kTile, room + p * kTile, size_t{kTile} * sizeof(A));
  }
}

// [rows][kChunk] to [kChunk][apart], rows a multiple of W: squares of lanes.
template <class A> void transpose(const float* from, int64_t rows, int64_t columns, A* to, int64_t apart) {
  for (int64_t i = 0; i < rows; i += W)
    for (int64_t j = 0; j < columns; j += W) {
      F block[W];
#pragma GCC unroll 16
      for (int k = 0; k < W; ++k) block[k] = i + k < rows ? load(from + (i + k) * kChunk + j, Full{}) : F{};
      transpose_lanes(block);
#pragma GCC unroll 16
      for (int k = 0; k < W; ++k) store(to + (j + k) * apart + i, block[k], Full{});
    }
}

// The logits of a chunk of rows of X, `panels`, in runs of as many threads.
template <class A>
__attribute__((noinline)) void all_logits(const StreamPanels<2, A>& panels, const Source<A>& w, const Logits& fold, int64_t team) {
  const int64_t blocks = std::min<int64_t>((w.rows + kRows - 1) / kRows, team * 8);
  for (int64_t t = 0; t < team; ++t) fold.run[t].clear();
#pragma omp parallel num_threads(team)
  {
    Logits own = fold;
    own.run += omp_get_thread_num();
#pragma omp for schedule(static)
    for (int64_t b = 0; b < blocks; ++b)
      stream_rows<kRows, 2>(w, panels, own, w.rows * b / blocks, w.rows * (b + 1) / blocks);
  }
}

template <class T> struct Layer {
  using A = Multiplied<T>;
  static constexpr bool kNarrow = !std::is_same_v<A, float>;
  static constexpr int64_t kApart = kChunk + 64 / int64_t(sizeof(A));

  Matrix<T> x, w;
  const int64_t* targets;
  const float* bias;
  Settings settings;
  float* losses;
  const float* scale = nullptr;  // of each row's loss
  bool gradients = false;   // whether gradients are asked for; the scales of no rows are a null pointer too
  T *dx = nullptr, *dw = nullptr;
  float* db = nullptr;

  int64_t threads() const { return omp_in_parallel() ? 1 : omp_get_max_threads(); }

  void run() {
    const int64_t team = threads(), inner = w.inner, tiles = (inner + kTile - 1) / kTile;
    const Temporary<float> kept(gradients ? (w.rows + W) * kChunk : 0);
    const Temporary<A> panels(gradients ? tiles * kTile * kChunk : 0);
    const Temporary<float> parts(gradients ? team * kChunk * inner : 0);
    // Of W's gradient, chunk after chunk; the last one rounds it.
    const Temporary<float> sums(gradients && !std::is_same_v<T, float> && x.rows > kChunk ? w.rows * inner : 0);
    const Temporary<Running> runs(team);
    if (gradients) {
      ask_large_pages(dw, w.rows * inner * int64_t(sizeof(T)));
      if (!x.rows) std::fill_n(dw, w.rows * inner, T(0.0f));
      if (db) std::fill_n(db, w.rows, 0.0f);
    }
    for (int64_t m = 0; m < x.rows; m += kChunk) {
      const int64_t count = std::min(kChunk, x.rows - m);
      alignas(64) int32_t targets_here[kChunk];
      for (int64_t i = 0; i < kChunk; ++i) {
        const int64_t t = i < count ? targets[m + i] : settings.ignored;
        if (t != settings.ignored && (t < 0 || t >= w.rows)) refuse_target(t, w.rows);
        targets_here[i] = t == settings.ignored ? -1 : static_cast<int32_t>(t);
      }
      forward(m, count, targets_here, gradients ? kept.data : nullptr, runs.data, team);
      if (gradients) backward(m, count, targets_here, kept.data, runs.data[0], panels.data, parts.data, sums.data, team);
    }
  }

  void forward(int64_t m, int64_t count, const int32_t* wanted, float* kept, Running* runs, int64_t team) {
    Matrix<T> rows = x;
    rows.data += m * x.row, rows.rows = count;
    const StreamPanels<2, A> panels(rows);
    const Logits fold{bias, wanted, settings.softcap, settings.smoothing > 0, kept, runs};
    all_logits(panels, Source<A>::of(w), fold, team);
    Running& all = runs[0];
    for (int64_t i = 0; i < count; ++i) {
      float best = all.best[i];
      for (int64_t t = 1; t < team; ++t) best = larger(best, runs[t].best[i]);
      double sum = 0, total = 0, chosen = 0;
      for (int64_t t = 0; t < team; ++t) {
        const double own = double(runs[t].sum[i]) - runs[t].lost[i];
        sum += runs[t].best[i] == best ? own : own * std::exp(double(runs[t].best[i]) - best);
        total += runs[t].total[i], chosen += runs[t].chosen[i];
      }
      const double whole = best + std::log(sum), eased = settings.smoothing;
      double loss = whole - (1 - eased) * chosen + settings.z_loss * whole * whole;
      if (eased > 0) loss -= eased * total / double(w.rows);
      losses[m + i] = wanted[i] < 0 ? 0.0f : static_cast<float>(loss);
      all.best[i] = best;
      all.factor[i] = static_cast<float>((1 + 2 * settings.z_loss * whole) / sum);
    }
    for (int64_t i = count; i < kChunk; ++i) all.best[i] = all.factor[i] = 0.0f;
  }

  // The gradient of a block of logits z, [rows][kChunk], which may be in its place, and as it is multiplied, [rows][kApart].
  void gradient(const float* z, float* to, A* multiplied, int64_t first, int64_t rows, const int32_t* wanted, const Running& run,
                const float* scales, int64_t width) const {
    const float eased = settings.smoothing, share = eased / static_cast<float>(w.rows);
    for (int64_t v = 0; v < rows; ++v) {
      F sum{};
      for (int64_t n = 0; n < width; n += W) {
        const F logit = load(z + v * kChunk + n, Full{}), best = load(run.best + n, Full{});
        M mine;
        std::memcpy(&mine, wanted + n, sizeof mine);
        F g = exp(logit - best) * load(run.factor + n, Full{}) - splat(share);
        g = select(mine == static_cast<int32_t>(first + v), g - splat(1 - eased), g);
        if (settings.softcap > 0) {
          const F part = logit / splat(settings.softcap);
          g *= splat(1.0f) - part * part;
        }
        g = select(mine < 0, F{}, g * load(scales + n, Full{}));
        store(to + v * kChunk + n, g, Full{});
        if constexpr (kNarrow) store(multiplied + v * kApart + n, g, Full{});
        sum += g;
      }
      if (db) db[first + v] += fold_lanes(sum, [](F a, F b) { return a + b; })[0];
    }
  }

  void backward(int64_t m, int64_t count, const int32_t* wanted, float* kept, const Running& run, A* x_panels,
                float* parts, float* sums, int64_t team) {
    const int64_t inner = w.inner, width = (count + W - 1) / W * W, tiles = (inner + kTile - 1) / kTile;
    const bool last = m + count == x.rows;
    if constexpr (std::is_same_v<T, float>) sums = dw;
    alignas(64) float scales[kChunk] = {};
    std::memcpy(scales, scale + m, static_cast<size_t>(count) * sizeof(float));
    {
      const Temporary<A> room(tiles * kTile);
      to_panels(x, m, count, x_panels, room.data);
    }
    const int64_t blocks = (w.rows + kDepth - 1) / kDepth;
#pragma omp parallel num_threads(team)
    {
      float* part = parts + omp_get_thread_num() * kChunk * inner;
      std::memset(part, 0, static_cast<size_t>(width * inner) * sizeof(float));
      constexpr int64_t apart = kDepth + 64 / int64_t(sizeof(A));
      const Temporary<A> across(kChunk * apart), w_panels(tiles * kTile * kDepth), room(tiles * kTile);
      const Temporary<float> own(kNarrow ? kDepth * kChunk : 0);
      const Temporary<A> narrow(kNarrow ? kDepth * kApart : 0);
#pragma omp for schedule(static)
      for (int64_t b = 0; b < blocks; ++b) {
        const int64_t first = b * kDepth, rows = std::min(kDepth, w.rows - first);
        float *z = kept + first * kChunk, *slope = kNarrow ? own.data : z;
        gradient(z, slope, narrow.data, first, rows, wanted, run, scales, width);
        const A* multiplied = narrow.data;
        if constexpr (!kNarrow) multiplied = slope;
        times_panels(
            multiplied, kNarrow ? kApart : kChunk, rows, x_panels, count, inner,
            [&](int64_t i, int64_t j) KW_INLINED {
              const int64_t at = (first + i) * inner + j;
              if (m) prefetch(sums + at), prefetch(sums + at + W);
              else if (last) prefetch(dw + at);
            },
            [&](int64_t i, int64_t j, F sum, auto lanes) KW_INLINED {
              const int64_t at = (first + i) * inner + j;
              if (m) sum += load(sums + at, lanes);
              if (last) store(dw + at, sum, lanes);
              else store(sums + at, sum, lanes);
            });
        transpose(slope, rows, width, across.data, apart);
        to_panels(w, first, rows, w_panels.data, room.data);
        times_panels(
            across.data, apart, count, w_panels.data, rows, inner,
            [&](int64_t i, int64_t j) KW_INLINED { prefetch(part + i * inner + j), prefetch(part + i * inner + j + W); },
            [&](int64_t i, int64_t j, F sum, auto lanes) KW_INLINED {
              float* to = part + i * inner + j;
              store(to, load(to, lanes) + sum, lanes);
            });
      }
#pragma omp for schedule(static)
      for (int64_t i = 0; i < count; ++i)
        over_lanes(inner, [&](int64_t k, auto lanes) KW_INLINED {
          F sum{};
          for (int64_t t = 0; t < team; ++t) sum += load(parts + (t * kChunk + i) * inner + k, lanes);
          store(dx + (m + i) * inner + k, sum, lanes);
        });
    }
  }
};

template <class Function> void by_type(const Args& args, Function function) {
  if (args.is<float>(0)) function(static_cast<const float*>(nullptr));
  else if (args.is<bfloat16>(0)) function(static_cast<const bfloat16*>(nullptr));
  else function(static_cast<const float16*>(nullptr));
}

// x, weight, target, bias or none, ignored, smoothing, z_loss, softcap
template <class T> Layer<T> layer_of(const Args& args) {
  return {Matrix<T>::of(args.tensor<const T>(0)), Matrix<T>::of(args.tensor<const T>(1)),
          args.tensor<const int64_t>(2).data(), args.is_none(3) ? nullptr : args.tensor<const float>(3).data(),
          {args.integer(4), static_cast<float>(args.real(5)), static_cast<float>(args.real(6)),
           static_cast<float>(args.real(7))},
          nullptr};
}

}  // namespace
}  // namespace kw

// ... ; losses
KW_KERNEL(linear_cross_entropy) {
  const kw::Tuned tuned(args, 9);
  kw::by_type(args, [&](auto type) {
    using T = std::remove_const_t<std::remove_pointer_t<decltype(type)>>;
    auto layer = kw::layer_of<T>(args);
    layer.losses = args.tensor<float>(8).data();
    layer.run();
  });
}

// ..., scale; losses, gradients of x, weight, and bias
KW_KERNEL(linear_cross_entropy_gradients) {
  const kw::Tuned tuned(args, 13);
  kw::by_type(args, [&](auto type) {
    using T = std::remove_const_t<std::remove_pointer_t<decltype(type)>>;
    auto layer = kw::layer_of<T>(args);
    layer.gradients = true, layer.scale = args.tensor<const float>(8).data();
    layer.losses = args.tensor<float>(9).data();
    layer.dx = args.tensor<T>(10).data(), layer.dw = args.tensor<T>(11).data();
    if (!args.is_none(3)) layer.db = args.tensor<float>(12).data();
    layer.run();
  });
}
