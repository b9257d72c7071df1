// Norms over rows, forward and backward: a row is read from memory once, and again from cache by later passes.
//
// RMS norm is layer norm with a mean of zero. Backward recomputes a row's statistics from the row, which it reads
// anyway: nothing but the inputs is kept from forward.
#include "rows.h"
#include "stream_map.h"

namespace kw {
namespace {

constexpr int kUnroll = 4;

// A sum over a row. What one run holds needs no float64: folding its lanes in float32 is as right, and shorter.
struct Total : Sum<kUnroll, true> {
  bool brief = false;

  Total() = default;
  explicit Total(int64_t n) : brief(n <= kRun) {}
  KW_INLINE void flush() {
    if (!brief) Sum::flush();
  }
  void merge(const Total& other) {
    Sum::merge(other);
    for (int u = 0; u < kUnroll; ++u) run[u] += other.run[u];
  }
  KW_INLINE F value() const {
    if (!brief) return Sum::value(0);
    return fold_lanes((run[0] + run[1]) + (run[2] + run[3]), [](F a, F b) { return a + b; });
  }
};

// Sums over a row's part in runs: add(i, lanes, u) for each vector, each sum flushed after a run.
template <class Add, class... Sums> KW_INLINE void in_runs(Range part, const Add& add, Sums&... sums) {
  for (int64_t begin = part.begin; begin < part.end; begin += kRun) {
    sweep<kUnroll>(begin, std::min(begin + kRun, part.end), add);
    (sums.flush(), ...);
  }
}

struct Statistics {
  F mean{}, scale{};  // scale: 1 / sqrt(variance + eps)
};

template <class X, class Team> KW_INLINE F mean_of(const X& x, int64_t n, const Team& team) {
  Total sum(n);
  in_runs(team.part(n, W), [&](int64_t i, auto lanes, int u) KW_INLINED { sum.add(u, x(i, lanes), lanes); }, sum);
  team.combine(sum);
  return sum.value() * (1.0f / static_cast<float>(n));
}

// Statistics of the row x(i, lanes) of n elements.
template <bool CENTRE, class X, class Team>
KW_INLINE Statistics statistics(const X& x, int64_t n, float eps, const Team& team) {
  const Range part = team.part(n, W);
  const float inverse = 1.0f / static_cast<float>(n);
  Statistics found;
  if constexpr (CENTRE) found.mean = mean_of(x, n, team);
  Total squares(n);
  in_runs(part, [&](int64_t i, auto lanes, int u) KW_INLINED {
    const F d = CENTRE ? x(i, lanes) - found.mean : x(i, lanes);
    if constexpr (std::is_same_v<decltype(lanes), Full>) squares.run[u] = fma(d, d, squares.run[u]);
    else squares.add(u, d * d, lanes);
  }, squares);
  team.combine(squares);
  found.scale = 1.0f / sqrt(squares.value() * inverse + eps);
  return found;
}

template <class T> struct Rows {
  const T *x, *residual;
  T *out, *sum;  // sum: of x and the residual, which is what is normed; none without one
  const float *weight, *bias;
  int64_t rows, n;
  float eps;
};

template <bool CENTRE, bool STREAM, bool ADD, class T, class Team>
KW_INLINE void norm_row(const Rows<T>& c, int64_t row, const Team& team) {
  const int64_t at = row * c.n;
  const T *from = c.x + at, *other = ADD ? c.residual + at : nullptr;
  T *to = c.out + at, *kept = ADD ? c.sum + at : nullptr;
  const auto x = [&](int64_t i, auto lanes) KW_INLINED {
    if constexpr (ADD) return rounded<T>(load(from + i, lanes) + load(other + i, lanes));
    else return load(from + i, lanes);
  };
  const Statistics s = statistics<CENTRE>(x, c.n, c.eps, team);
  const Range part = team.part(c.n, W);
  const int64_t next = near(c.n);
  sweep_lines<STREAM, kUnroll>(to, part.begin, part.end, [&](int64_t i, auto lanes, int) KW_INLINED {
    const F value = x(i, lanes);
    ask(from + i, next);
    if constexpr (ADD) ask(other + i, next);
    if constexpr (ADD) write<STREAM>(kept + i, value, lanes);
    const F w = load(c.weight + i, lanes);
    if constexpr (CENTRE) write<STREAM>(to + i, fma((value - s.mean) * s.scale, w, load(c.bias + i, lanes)), lanes);
    else write<STREAM>(to + i, value * s.scale * w, lanes);
  });
}

template <bool CENTRE, bool ADD, class T> void norm_rows(const Rows<T>& c) {
  const int64_t bytes = c.rows * c.n * int64_t(sizeof(T));
  ask_large_pages(c.out, bytes);
  if (ADD) ask_large_pages(c.sum, bytes);
  const auto run = [&](auto streamed) {
    distribute(c.rows, c.rows * c.n, kSerialElements, [&](const auto& team, int64_t begin, int64_t end, int) {
      for (int64_t row = begin; row < end; ++row) norm_row<CENTRE, streamed.value, ADD>(c, row, team);
    });
  };
  if (ADD ? streams(c.rows * c.n, c.out, c.sum) : streams(c.rows * c.n, c.out)) run(std::true_type{});
  else run(std::false_type{});
}

template <class T> struct Gradients {
  const T *g, *x, *extra;  // extra: a gradient that reaches x on another way, or none
  T* dx;
  const float* weight;
  int64_t rows, n;
  float eps;
};

constexpr int64_t kRowsInRun = 32;  // rows that one float32 sum of a column takes

template <bool CENTRE, bool STREAM, class T, class Team>
KW_INLINE void gradient_row(const Gradients<T>& c, int64_t row, float* weights, float* biases, const Team& team) {
  const int64_t at = row * c.n;
  const T *g = c.g + at, *from = c.x + at, *extra = c.extra ? c.extra + at : nullptr;
  T* to = c.dx + at;
  const auto x = [&](int64_t i, auto lanes) KW_INLINED { return load(from + i, lanes); };
  const Range part = team.part(c.n, W);
  const float inverse = 1.0f / static_cast<float>(c.n);
  Statistics s;
  Total squares(c.n), along(c.n), straight(c.n);  // of x less its mean, of that times g * weight, of g * weight
  if constexpr (CENTRE) s.mean = mean_of(x, c.n, team);
  in_runs(part, [&](int64_t i, auto lanes, int u) KW_INLINED {
    const F v = CENTRE ? x(i, lanes) - s.mean : x(i, lanes), moved = load(g + i, lanes) * load(c.weight + i, lanes);
    squares.add(u, v * v, lanes), along.add(u, moved * v, lanes);
    if constexpr (CENTRE) straight.add(u, moved, lanes);
  }, squares, along, straight);
  team.combine(squares, along, straight);
  s.scale = 1.0f / sqrt(squares.value() * inverse + c.eps);
  const F level = straight.value() * inverse, slope = along.value() * s.scale * s.scale * inverse;
  const int64_t next = near(c.n);
  sweep_lines<STREAM, kUnroll>(to, part.begin, part.end, [&](int64_t i, auto lanes, int) KW_INLINED {
    ask(g + i, next), ask(from + i, next);
    const F v = CENTRE ? x(i, lanes) - s.mean : x(i, lanes), gradient = load(g + i, lanes);
    F moved = gradient * load(c.weight + i, lanes);
    if constexpr (CENTRE) moved -= level;
    F dx = (moved - v * slope) * s.scale;
    if (extra) dx += load(extra + i, lanes);
    write<STREAM>(to + i, dx, lanes);
    store(weights + i, fma(gradient, v * s.scale, load(weights + i, lanes)), lanes);
    if constexpr (CENTRE) store(biases + i, gradient + load(biases + i, lanes), lanes);
  });
}

// Sums of columns go to dw (and db); either may be empty.
template <bool CENTRE, class T, class Store> void gradient_rows(const Gradients<T>& c, const Store& store_sums) {
  ask_large_pages(c.dx, c.rows * c.n * int64_t(sizeof(T)));
  const int threads = c.rows * c.n < kSerialElements ? 1 : omp_get_max_threads();
  const bool one_run = c.rows <= kRowsInRun;
  ColumnSums weights(c.n, threads, one_run), biases(CENTRE ? c.n : 0, threads, one_run);
  const auto run = [&](auto streamed) {
    distribute(c.rows, c.rows * c.n, kSerialElements, [&](const auto& team, int64_t begin, int64_t end, int rank) {
      for (int64_t row = begin; row < end; ++row) {
        gradient_row<CENTRE, streamed.value>(c, row, weights.run(rank), biases.run(rank), team);
        if ((row - begin) % kRowsInRun == kRowsInRun - 1 || row == end - 1) {
          weights.flush(rank);
          if (CENTRE) biases.flush(rank);
        }
      }
    });
  };
  if (streams(c.rows * c.n, c.dx)) run(std::true_type{});
  else run(std::false_type{});
  store_sums(weights, biases);
}

void store_sums(const Args& args, int i, const ColumnSums& sums) {
  if (args.any_tensor(i)->shape[0] == 0) return;
  if (args.is<float>(i)) sums.store_to(args.tensor<float>(i).data());
  else sums.store_to(args.tensor<bfloat16>(i).data());
}

template <class T> const T* rows_of(const Args& args, int i) {
  const auto t = args.tensor<const T>(i);
  if (!t.contiguous()) KW_UNSUPPORTED("a tensor is not contiguous");
  return t.data();
}

template <class Body> void by_type(const Args& args, int i, const Body& body) {
  if (args.is<float>(i)) body(float{});
  else body(bfloat16{});
}

struct Shape {
  int64_t rows, n;
  explicit Shape(const DLTensor* t) : rows(1), n(t->shape[t->ndim - 1]) {
    for (int i = 0; i + 1 < t->ndim; ++i) rows *= t->shape[i];
  }
};

// Groups of channels, each channel a run of `inner` elements -----------------------------------------------

template <class T> struct Groups {
  const T *g, *x;  // g: the gradient of out, in backward
  T* out;          // or dx
  const float *weight, *bias;
  int64_t items, groups, channels, inner;
  float eps;
  float *weights = nullptr, *biases = nullptr;  // [items][channels], of their gradients
  int64_t in_group() const { return channels / groups; }
};

// y * sigmoid(y), and the derivative.
KW_INLINE F silu_slope(F y) {
  const F s = sigmoid(y);
  return s * fma(y, 1.0f - s, splat(1.0f));
}

template <bool SILU, bool STREAM, class T> KW_INLINE void group(const Groups<T>& c, int64_t it) {
  const int64_t n = c.in_group() * c.inner, first = it % c.groups * c.in_group();
  const T* from = c.x + it * n;
  T* to = c.out + it * n;
  const Statistics s = statistics<true>(
      [&](int64_t i, auto lanes) KW_INLINED { return load(from + i, lanes); }, n, c.eps, Solo{});
  const int64_t next = near(n);
  for (int64_t k = 0; k < c.in_group(); ++k) {
    const F scale = s.scale * c.weight[first + k], shift = splat(c.bias[first + k]);
    sweep_lines<STREAM, kUnroll>(to, k * c.inner, (k + 1) * c.inner, [&](int64_t i, auto lanes, int) KW_INLINED {
      ask(from + i, next);
      const F y = fma(load(from + i, lanes) - s.mean, scale, shift);
      write<STREAM>(to + i, SILU ? silu(y) : y, lanes);
    });
  }
}

constexpr int64_t kHeld = int64_t(1) << 20;  // elements of a group whose gradients before silu wait in a cache

// `held`: room for the gradients of a group before silu, or none: then they are made again, an exponential and a division each.
template <bool SILU, bool STREAM, class T> KW_INLINE void group_gradient(const Groups<T>& c, int64_t it, float* held) {
  const int64_t n = c.in_group() * c.inner, first = it % c.groups * c.in_group();
  const T *from = c.x + it * n, *g = c.g + it * n;
  T* to = c.out + it * n;
  const Statistics s = statistics<true>(
      [&](int64_t i, auto lanes) KW_INLINED { return load(from + i, lanes); }, n, c.eps, Solo{});
  // The gradient of what is before silu, and the normed element.
  const auto moved = [&](int64_t i, F weight, F bias, F& normed, auto lanes) KW_INLINED {
    normed = (load(from + i, lanes) - s.mean) * s.scale;
    const F gradient = load(g + i, lanes);
    return SILU ? gradient * silu_slope(fma(normed, weight, bias)) : gradient;
  };
  float *weights = c.weights + it / c.groups * c.channels + first, *biases = c.biases + it / c.groups * c.channels + first;
  double level = 0, slope = 0;
  for (int64_t k = 0; k < c.in_group(); ++k) {
    const F weight = splat(c.weight[first + k]), bias = splat(c.bias[first + k]);
    Total straight(c.inner), along(c.inner);
    in_runs({k * c.inner, (k + 1) * c.inner}, [&](int64_t i, auto lanes, int u) KW_INLINED {
      F normed;
      const F m = moved(i, weight, bias, normed, lanes);
      if (SILU && held) store(held + i, m, lanes);
      straight.add(u, m, lanes), along.add(u, m * normed, lanes);
    }, straight, along);
    biases[k] = straight.value()[0], weights[k] = along.value()[0];
    level += double(biases[k]) * c.weight[first + k], slope += double(weights[k]) * c.weight[first + k];
  }
  const int64_t next = near(n);
  const F mean = splat(static_cast<float>(level / double(n))), tilt = splat(static_cast<float>(slope / double(n)));
  for (int64_t k = 0; k < c.in_group(); ++k) {
    const F weight = splat(c.weight[first + k]), bias = splat(c.bias[first + k]);
    sweep_lines<STREAM, kUnroll>(to, k * c.inner, (k + 1) * c.inner, [&](int64_t i, auto lanes, int) KW_INLINED {
      ask(from + i, next), ask(g + i, next);
      F normed, m;
      if (SILU && held) m = load(held + i, lanes), normed = (load(from + i, lanes) - s.mean) * s.scale;
      else m = moved(i, weight, bias, normed, lanes);
      write<STREAM>(to + i, (m * weight - mean - normed * tilt) * s.scale, lanes);
    });
  }
}

template <bool GRADIENT, class T> void group_rows(const Groups<T>& c, bool with_silu) {
  const int64_t elements = c.items * c.channels * c.inner;
  ask_large_pages(c.out, elements * int64_t(sizeof(T)));
  const auto run = [&](auto silu, auto streamed) {
    in_shares(c.items * c.groups, elements, 1, [&](int64_t begin, int64_t end) {
      const int64_t n = c.in_group() * c.inner;
      const bool holds = GRADIENT && silu.value && n <= kHeld;
      const std::unique_ptr<float[]> held(holds ? new float[static_cast<size_t>(n)] : nullptr);
      for (int64_t it = begin; it < end; ++it)
        if constexpr (GRADIENT) group_gradient<silu.value, streamed.value>(c, it, held.get());
        else group<silu.value, streamed.value>(c, it);
    });
  };
  const auto by_size = [&](auto silu) {
    if (streams(elements, c.out)) run(silu, std::true_type{});
    else run(silu, std::false_type{});
  };
  if (with_silu) by_size(std::true_type{});
  else by_size(std::false_type{});
}

// Sums of [items][channels] over the items.
void store_items(const Args& args, int i, const float* each, int64_t items, int64_t channels) {
  if (args.any_tensor(i)->shape[0] == 0) return;
  for (int64_t k = 0; k < channels; ++k) {
    double sum = 0;
    for (int64_t item = 0; item < items; ++item) sum += each[item * channels + k];
    if (args.is<float>(i)) args.tensor<float>(i)[k] = static_cast<float>(sum);
    else args.tensor<bfloat16>(i)[k] = static_cast<float>(sum);
  }
}

// x at `at`, then weight, bias, groups, eps and silu.
template <class T> Groups<T> groups_of(const Args& args, int at, const Floats& weight, const Floats& bias) {
  const auto x = args.tensor<const T>(at);
  return {nullptr, rows_of<T>(args, at), nullptr, weight.data, bias.data, x.shape(0), args.integer(at + 3), x.shape(1),
          x.numel(2, x.ndim()), static_cast<float>(args.real(at + 4))};
}

}  // namespace
}  // namespace kw

// x, weight or none, eps, offset; out
KW_KERNEL(rms_norm) {
  const kw::Shape shape(args.any_tensor(0));
  const kw::Floats weight(args, 1, shape.n, 1.0f, static_cast<float>(args.real(3)));
  kw::by_type(args, 0, [&](auto type) {
    using T = decltype(type);
    kw::norm_rows<false, false, T>({kw::rows_of<T>(args, 0), nullptr, args.tensor<T>(4).data(), nullptr, weight.data,
                                    nullptr, shape.rows, shape.n, static_cast<float>(args.real(2))});
  });
}

// x, residual, weight or none, eps, offset; out, x + residual
KW_KERNEL(add_rms_norm) {
  const kw::Shape shape(args.any_tensor(0));
  const kw::Floats weight(args, 2, shape.n, 1.0f, static_cast<float>(args.real(4)));
  kw::by_type(args, 0, [&](auto type) {
    using T = decltype(type);
    kw::norm_rows<false, true, T>({kw::rows_of<T>(args, 0), kw::rows_of<T>(args, 1), args.tensor<T>(5).data(),
                                   args.tensor<T>(6).data(), weight.data, nullptr, shape.rows, shape.n,
                                   static_cast<float>(args.real(3))});
  });
}

// gradient, x, weight or none, a gradient of x to add or none, eps, offset; dx, dweight
KW_KERNEL(rms_norm_backward) {
  const kw::Shape shape(args.any_tensor(1));
  const kw::Floats weight(args, 2, shape.n, 1.0f, static_cast<float>(args.real(5)));
  kw::by_type(args, 1, [&](auto type) {
    using T = decltype(type);
    const T* extra = args.is_none(3) ? nullptr : kw::rows_of<T>(args, 3);
    kw::gradient_rows<false, T>({kw::rows_of<T>(args, 0), kw::rows_of<T>(args, 1), extra, args.tensor<T>(6).data(),
                                 weight.data, shape.rows, shape.n, static_cast<float>(args.real(4))},
                                [&](const auto& weights, const auto&) { kw::store_sums(args, 7, weights); });
  });
}

// x, weight or none, bias or none, eps; out
KW_KERNEL(layer_norm) {
  const kw::Shape shape(args.any_tensor(0));
  const kw::Floats weight(args, 1, shape.n, 1.0f), bias(args, 2, shape.n, 0.0f);
  kw::by_type(args, 0, [&](auto type) {
    using T = decltype(type);
    kw::norm_rows<true, false, T>({kw::rows_of<T>(args, 0), nullptr, args.tensor<T>(4).data(), nullptr, weight.data,
                                   bias.data, shape.rows, shape.n, static_cast<float>(args.real(3))});
  });
}

// gradient, x, weight or none, bias or none, eps; dx, dweight, dbias
KW_KERNEL(layer_norm_backward) {
  const kw::Shape shape(args.any_tensor(1));
  const kw::Floats weight(args, 2, shape.n, 1.0f);
  kw::by_type(args, 1, [&](auto type) {
    using T = decltype(type);
    kw::gradient_rows<true, T>({kw::rows_of<T>(args, 0), kw::rows_of<T>(args, 1), nullptr, args.tensor<T>(5).data(),
                                weight.data, shape.rows, shape.n, static_cast<float>(args.real(4))},
                               [&](const auto& weights, const auto& biases) {
                                 kw::store_sums(args, 6, weights);
                                 kw::store_sums(args, 7, biases);
                               });
  });
}

// x, weight or none, bias or none, groups, eps, silu; out
KW_KERNEL(group_norm_silu) {
  const int64_t channels = args.any_tensor(0)->shape[1];
  const kw::Floats weight(args, 1, channels, 1.0f), bias(args, 2, channels, 0.0f);
  kw::by_type(args, 0, [&](auto type) {
    using T = decltype(type);
    auto c = kw::groups_of<T>(args, 0, weight, bias);
    c.out = args.tensor<T>(6).data();
    kw::group_rows<false>(c, args.boolean(5));
  });
}

// gradient, x, weight or none, bias or none, groups, eps, silu; dx, dweight, dbias
KW_KERNEL(group_norm_silu_backward) {
  const int64_t items = args.any_tensor(1)->shape[0], channels = args.any_tensor(1)->shape[1];
  const kw::Floats weight(args, 2, channels, 1.0f), bias(args, 3, channels, 0.0f);
  const std::unique_ptr<float[]> sums(new float[static_cast<size_t>(2 * items * channels)]);
  kw::by_type(args, 1, [&](auto type) {
    using T = decltype(type);
    auto c = kw::groups_of<T>(args, 1, weight, bias);
    c.g = kw::rows_of<T>(args, 0), c.out = args.tensor<T>(7).data();
    c.weights = sums.get(), c.biases = sums.get() + items * channels;
    kw::group_rows<true>(c, args.boolean(6));
  });
  kw::store_items(args, 8, sums.get(), items, channels);
  kw::store_items(args, 9, sums.get() + items * channels, items, channels);
}
