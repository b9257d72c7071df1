// Steps of optimizers: AdamW, Lion and Adafactor. Each element of a parameter and of its state is read and written once
// in a step of AdamW and Lion, of one tensor or of many in one call. Adafactor reads gradients twice: the norm of its
// update is summed along with the squares of the gradient, since it factors by rows and columns as they do.
// Sources: Loshchilov and Hutter, Decoupled weight decay regularization (2019), algorithm 2; Chen et al., Symbolic
// discovery of optimization algorithms (2023), program 1; Shazeer and Stern, Adafactor (2018), algorithms 4 and 5.
#include <cmath>
#include <vector>

#include "stream_map.h"

namespace kw {
namespace {

constexpr int64_t kChunk = 1 << 13;  // elements of a tensor that a thread takes at once
constexpr int64_t kCost = 4;         // what an element costs, in elements that are only moved

// What a step reads and writes; `to` may be `from`.
struct Adam {
  float decay, beta1, beta2, new1, new2, size, root, eps, sign;

  // From argument `at`: step, lr, beta1, beta2, eps, weight_decay, maximize.
  static Adam of(const Args& args, int at) {
    return of(args.real(at), args.real(at + 1), args.real(at + 2), args.real(at + 3), args.real(at + 4),
              args.real(at + 5), args.boolean(at + 6));
  }
  static Adam of(double step, double lr, double beta1, double beta2, double eps, double decay, bool maximize) {
    const auto f = [](double x) { return static_cast<float>(x); };
    return {f(1 - lr * decay), f(beta1), f(beta2), f(1 - beta1), f(1 - beta2), f(lr / (1 - std::pow(beta1, step))),
            f(1 / std::sqrt(1 - std::pow(beta2, step))), f(eps), maximize ? -1.0f : 1.0f};
  }

  template <class T> struct Place {
    const T *p, *g;
    const float *m, *v, *top;
    T* p_to;
    float *m_to, *v_to, *top_to;
  };
  template <bool TOP, class T> void run(const Place<T>& at, int64_t begin, int64_t end) const {
    sweep<2>(begin, end, [&](int64_t i, auto lanes, int) KW_INLINED {
      // All is read before anything is written: what lies a page apart would wait for the writes.
      const F p = load(at.p + i, lanes), g = load(at.g + i, lanes) * sign, m = load(at.m + i, lanes);
      const F mean = fma(g - m, new1, m);
      F square = fma(g * g, new2, load(at.v + i, lanes) * beta2);
      const F kept = square;
      if constexpr (TOP) square = maximum(load(at.top + i, lanes), square);
      const F step = mean * size / fma(sqrt(square), root, splat(eps));
      store(at.p_to + i, fma(p, decay, -step), lanes);
      store(at.v_to + i, kept, lanes);
      if constexpr (TOP) store(at.top_to + i, square, lanes);
      store(at.m_to + i, mean, lanes);
    });
  }
};

struct Sign {
  float decay, new1, new2, lr, sign;

  // From argument `at`: lr, beta1, beta2, weight_decay, maximize.
  static Sign of(const Args& args, int at) {
    const double lr = args.real(at);
    const auto f = [](double x) { return static_cast<float>(x); };
    return {f(1 - lr * args.real(at + 3)), f(1 - args.real(at + 1)), f(1 - args.real(at + 2)), f(lr),
            args.boolean(at + 4) ? -1.0f : 1.0f};
  }

  template <class T> struct Place {
    const T *p, *g;
    const float* m;
    T* p_to;
    float* m_to;
  };
  template <class T> void run(const Place<T>& at, int64_t begin, int64_t end) const {
    sweep<2>(begin, end, [&](int64_t i, auto lanes, int) KW_INLINED {
      const F p = load(at.p + i, lanes), m = load(at.m + i, lanes), apart = load(at.g + i, lanes) * sign - m;
      const F mixed = fma(apart, new1, m);
      const F step = (mixed != mixed) ? mixed : kw::sign(mixed) * lr;
      store(at.p_to + i, fma(p, decay, -step), lanes);
      store(at.m_to + i, fma(apart, new2, m), lanes);
    });
  }
};

template <class T> const T* input(const Args& args, int i, int64_t n) {
  const auto t = args.tensor<const T>(i);
  if (!t.contiguous()) KW_UNSUPPORTED("a tensor is not contiguous");
  KW_REQUIRE(t.numel() == n, "the tensors of a parameter differ in size");
  return t.data();
}
template <class T> T* output(const Args& args, int i, int64_t n) {
  const auto t = args.tensor<T>(i);
  KW_REQUIRE(t.numel() == n, "an output differs from its parameter in size");
  ask_large_pages(t.data(), n * int64_t(sizeof(T)));
  return t.data();
}
int64_t elements(const Args& args, int i) {
  const DLTensor* t = args.any_tensor(i);
  int64_t n = 1;
  for (int axis = 0; axis < t->ndim; ++axis) n *= t->shape[axis];
  return n;
}
template <class Body> void typed(const Args& args, int i, const Body& body) {
  if (args.is<float>(i)) body(float{});
  else body(bfloat16{});
}

// Calls body(tensor, begin, end) for chunks of many tensors, shared by the threads.
template <class Body> void chunks(const int64_t* sizes, int64_t count, int64_t apart, const Body& body) {
  struct Chunk {
    int64_t tensor, begin;
  };
  std::vector<Chunk> all;
  int64_t work = 0;
  for (int64_t t = 0; t < count; ++t) {
    const int64_t n = sizes[t * apart];
    work += n;
    for (int64_t i = 0; i < n; i += kChunk) all.push_back({t, i});
  }
  in_shares(static_cast<int64_t>(all.size()), work * kCost, 1, [&](int64_t first, int64_t last) {
    for (int64_t c = first; c < last; ++c)
      body(all[c].tensor, all[c].begin, std::min(sizes[all[c].tensor * apart], all[c].begin + kChunk));
  });
}

// Where a table of places has the tensors of one parameter: their addresses, its elements, and whether it is bfloat16.
enum Column { kParam, kGrad, kMean, kSquare, kTop, kElements, kNarrow, kColumns };
template <class T> T* place(const int64_t* row, Column column) { return reinterpret_cast<T*>(row[column]); }

struct Table {
  const int64_t* data;
  int64_t count;
  explicit Table(const Args& args, int i) {
    const auto t = args.tensor<const int64_t>(i);
    KW_REQUIRE(t.ndim() == 2 && t.shape(1) == kColumns && t.contiguous(), "the table of places has another form");
    data = t.data(), count = t.shape(0);
  }
  const int64_t* row(int64_t i) const { return data + i * kColumns; }
};

// A matrix parameter of Adafactor, and what its step is made of.
template <class T> struct Factored {
  static constexpr int64_t kRows = 8, kFlush = 64;  // rows whose squares meet in registers; rows between two flushes
  int64_t rows, columns;
  const T *p, *g;
  float decay;
  double fresh, lr, eps1, eps2, d, step;  // fresh: the share of new squares in their means

  // The sum of squares, in runs short enough for float32.
  static double squares(const T* x, int64_t n) {
    Sum<4, true> sum;
    for (int64_t i = 0; i < n; i += kRun) {
      sweep<4>(i, std::min(n, i + kRun), [&](int64_t k, auto lanes, int u) KW_INLINED {
        const F v = load(x + k, lanes);
        sum.add(u, v * v, lanes);
      });
      sum.flush();
    }
    return sum_lanes(sum.total[0]);
  }
  int threads() const {
    const int64_t most = std::min<int64_t>(rows / kRows, rows * columns / (kSerialElements / 2));
    return static_cast<int>(std::clamp<int64_t>(most, 1, omp_get_max_threads()));
  }
  template <class Body> void over_rows(const Body& body) const {
    const int team = threads();
    if (team == 1) return body(0, int64_t{0}, rows);
#pragma omp parallel num_threads(team)
    {
      const Range mine = share(rows, omp_get_thread_num(), omp_get_num_threads(), kRows);
      body(omp_get_thread_num(), mine.begin, mine.end);
    }
  }
  float mixed(float before, double mean) const { return static_cast<float>(before + fresh * (mean - before)); }

  double size_of_step(double norm) const {
    const double mean = std::sqrt(norm / static_cast<double>(rows * columns));
    return (mean > eps2 ? mean : eps2) * std::min(lr, 1 / std::sqrt(step));
  }
  double shrunk(double alpha, double change) const {
    const double much = std::sqrt(change / static_cast<double>(rows * columns)) / d;
    return much > 1 ? alpha / much : alpha;
  }

  void run(const float* row, const float* column, T* p_to, float* row_to, float* column_to, bool maximize) const {
    const int team = threads();
    ColumnSums plain(columns, team), over_row(columns, team);
    std::vector<double> norms(static_cast<size_t>(team) * 8, 0.0);
    over_rows([&](int rank, int64_t first, int64_t last) {
      double norm = 0;
      int64_t since = 0;
      for (int64_t i = first; i < last; i += kRows) {
        const int64_t many = std::min(kRows, last - i);
        float inverse[kRows];
        for (int64_t r = 0; r < many; ++r) {
          norm += squares(p + (i + r) * columns, columns);
          row_to[i + r] = mixed(row[i + r], squares(g + (i + r) * columns, columns) / static_cast<double>(columns));
          inverse[r] = 1.0f / row_to[i + r];
        }
        float *sums = plain.run(rank), *scaled = over_row.run(rank);
        sweep<1>(0, columns, [&](int64_t k, auto lanes, int) KW_INLINED {
          F sum = load(sums + k, lanes), over = load(scaled + k, lanes);
          for (int64_t r = 0; r < many; ++r) {
            const F x = load(g + (i + r) * columns + k, lanes);
            sum = fma(x, x, sum);
            over = fma(x * x, inverse[r], over);
          }
          store(sums + k, sum, lanes);
          store(scaled + k, over, lanes);
        });
        if ((since += many) >= kFlush) plain.flush(rank), over_row.flush(rank), since = 0;
      }
      plain.flush(rank), over_row.flush(rank);
      norms[static_cast<size_t>(rank) * 8] = norm;
    });
    std::vector<float> sums(static_cast<size_t>(columns)), over(static_cast<size_t>(columns));
    plain.store_to(sums.data()), over_row.store_to(over.data());
    double norm = 0, mean = 0;
    float least_row = kInf, least_column = kInf;
    for (int t = 0; t < team; ++t) norm += norms[static_cast<size_t>(t) * 8];
    for (int64_t i = 0; i < rows; ++i) mean += row_to[i], least_row = std::min(least_row, row_to[i]);
    mean = mean / static_cast<double>(rows);
    if (mean < eps1) mean = eps1;
    for (int64_t k = 0; k < columns; ++k) {
      column_to[k] = mixed(column[k], sums[k] / static_cast<double>(rows));
      least_column = std::min(least_column, column_to[k]);
    }
    const float least = static_cast<float>(eps1 * eps1);
    double change = 0;
    if (double(least_row) / mean * double(least_column) >= 2.0 * least) {
      for (int64_t k = 0; k < columns; ++k) change += double(over[k]) * mean / double(column_to[k]);
    } else {
      change = summed_change(row_to, column_to, mean, least);
    }
    const float step = static_cast<float>(shrunk(size_of_step(norm), change)) * (maximize ? -1.0f : 1.0f);
    over_rows([&](int, int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i)
        sweep<2>(0, columns, [&](int64_t k, auto lanes, int) KW_INLINED {
          const F x = change_of(i * columns + k, row_to[i], column_to + k, mean, least, lanes);
          store(p_to + i * columns + k, load(p + i * columns + k, lanes) * decay - x * step, lanes);
        });
    });
  }

 private:
  template <class Lanes>
  KW_INLINE F change_of(int64_t at, float row, const float* column, double mean, float least, Lanes lanes) const {
    const F variance = load(column, lanes) * static_cast<float>(row / mean);
    return load(g + at, lanes) / sqrt(maximum(variance, splat(least)));
  }
  // The norm of the change where a variance may be below what it is kept above.
  double summed_change(const float* row, const float* column, double mean, float least) const {
    double sum = 0;
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t k = 0; k < columns; k += kRun) {
        Sum<1, true> some;
        sweep<1>(k, std::min(columns, k + kRun), [&](int64_t j, auto lanes, int) KW_INLINED {
          const F x = change_of(i * columns + j, row[i], column + j, mean, least, lanes);
          some.add(0, x * x, lanes);
        });
        some.flush();
        sum += sum_lanes(some.total[0]);
      }
    return sum;
  }
};

// From argument `at`: step, lr, beta2_decay, eps1, eps2, d, weight_decay.
template <class T> Factored<T> factored(const Args& args, int at, int64_t rows, int64_t columns, const T* p, const T* g) {
  const double step = args.real(at), lr = args.real(at + 1);
  return {rows, columns, p, g, static_cast<float>(1 - lr * args.real(at + 6)), std::pow(step, args.real(at + 2)), lr,
          args.real(at + 3), args.real(at + 4), args.real(at + 5), step};
}

}  // namespace
}  // namespace kw

// param, grad, mean, square, largest, step, lr, beta1, beta2, eps, weight_decay, maximize; the first five, moved
KW_KERNEL(optim_adamw) {
  const int64_t n = kw::elements(args, 0);
  const auto adam = kw::Adam::of(args, 5);
  kw::typed(args, 0, [&](auto type) {
    using T = decltype(type);
    const bool top = !args.is_none(4);
    const kw::Adam::Place<T> at{
        kw::input<T>(args, 0, n), kw::input<T>(args, 1, n), kw::input<float>(args, 2, n), kw::input<float>(args, 3, n),
        top ? kw::input<float>(args, 4, n) : nullptr, kw::output<T>(args, 12, n), kw::output<float>(args, 13, n),
        kw::output<float>(args, 14, n), top ? kw::output<float>(args, 15, n) : nullptr};
    kw::chunks(&n, 1, 1, [&](int64_t, int64_t begin, int64_t end) {
      if (top) adam.run<true>(at, begin, end);
      else adam.run<false>(at, begin, end);
    });
  });
}

// param, grad, mean, lr, beta1, beta2, weight_decay, maximize; param and mean, moved
KW_KERNEL(optim_lion) {
  const int64_t n = kw::elements(args, 0);
  const auto lion = kw::Sign::of(args, 3);
  kw::typed(args, 0, [&](auto type) {
    using T = decltype(type);
    const kw::Sign::Place<T> at{kw::input<T>(args, 0, n), kw::input<T>(args, 1, n), kw::input<float>(args, 2, n),
                                kw::output<T>(args, 8, n), kw::output<float>(args, 9, n)};
    kw::chunks(&n, 1, 1, [&](int64_t, int64_t begin, int64_t end) { lion.run(at, begin, end); });
  });
}

// param, grad, row, column, step, lr, beta2_decay, eps1, eps2, d, weight_decay, maximize; param, row and column, moved
KW_KERNEL(optim_adafactor) {
  const DLTensor* t = args.any_tensor(0);
  if (t->ndim != 2) KW_UNSUPPORTED("a parameter of other than two axes");
  const int64_t rows = t->shape[0], columns = t->shape[1];
  if (rows * columns == 0) KW_UNSUPPORTED("a parameter without elements");
  kw::typed(args, 0, [&](auto type) {
    using T = decltype(type);
    const auto step = kw::factored<T>(args, 4, rows, columns, kw::input<T>(args, 0, rows * columns),
                                      kw::input<T>(args, 1, rows * columns));
    step.run(kw::input<float>(args, 2, rows), kw::input<float>(args, 3, columns),
             kw::output<T>(args, 12, rows * columns), kw::output<float>(args, 13, rows),
             kw::output<float>(args, 14, columns), args.boolean(11));
  });
}

// table, steps, lr, beta1, beta2, eps, weight_decay, maximize: AdamW of many parameters, in place
KW_KERNEL(optim_adamw_many) {
  const kw::Table table(args, 0);
  const auto steps = args.tensor<const double>(1);
  KW_REQUIRE(steps.numel() == table.count, "a parameter has no step");
  std::vector<kw::Adam> adams;
  for (int64_t i = 0; i < table.count; ++i)
    adams.push_back(kw::Adam::of(steps[i], args.real(2), args.real(3), args.real(4), args.real(5), args.real(6), args.boolean(7)));
  kw::chunks(table.data + kw::kElements, table.count, kw::kColumns, [&](int64_t tensor, int64_t begin, int64_t end) {
    const int64_t* row = table.row(tensor);
    const auto run = [&](auto type) {
      using T = decltype(type);
      float *m = kw::place<float>(row, kw::kMean), *v = kw::place<float>(row, kw::kSquare), *top = kw::place<float>(row, kw::kTop);
      T* p = kw::place<T>(row, kw::kParam);
      const kw::Adam::Place<T> at{p, kw::place<const T>(row, kw::kGrad), m, v, top, p, m, v, top};
      if (top) adams[tensor].run<true>(at, begin, end);
      else adams[tensor].run<false>(at, begin, end);
    };
    if (row[kw::kNarrow]) run(kw::bfloat16{});
    else run(float{});
  });
}

// table, lr, beta1, beta2, weight_decay, maximize: Lion of many parameters, in place
KW_KERNEL(optim_lion_many) {
  const kw::Table table(args, 0);
  const auto lion = kw::Sign::of(args, 1);
  kw::chunks(table.data + kw::kElements, table.count, kw::kColumns, [&](int64_t tensor, int64_t begin, int64_t end) {
    const int64_t* row = table.row(tensor);
    const auto run = [&](auto type) {
      using T = decltype(type);
      T* p = kw::place<T>(row, kw::kParam);
      float* m = kw::place<float>(row, kw::kMean);
      lion.run(kw::Sign::Place<T>{p, kw::place<const T>(row, kw::kGrad), m, p, m}, begin, end);
    };
    if (row[kw::kNarrow]) run(kw::bfloat16{});
    else run(float{});
  });
}
