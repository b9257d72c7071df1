// Adafactor: a matrix parameter, whose second moments are kept by row and column, and any other, whose are kept whole.
// Source: Shazeer and Stern, Adafactor: adaptive learning rates with sublinear memory cost (2018), algorithms 4 and 5.
#pragma once
#include <cmath>
#include <vector>

#include "stream_map.h"

namespace kw {
namespace {

// What a step is made of; `fresh` is the share of new squares in their means.
struct Numbers {
  float decay;
  double fresh, lr, eps1, eps2, d, step;

  // From argument `at`: lr, beta2_decay, eps1, eps2, d, weight_decay.
  static Numbers of(const Args& args, int at, double step) {
    const double lr = args.real(at);
    return {static_cast<float>(1 - lr * args.real(at + 5)), std::pow(step, args.real(at + 1)), lr,
            args.real(at + 2), args.real(at + 3), args.real(at + 4), step};
  }
  float mixed(float before, double mean) const { return static_cast<float>(before + fresh * (mean - before)); }
  // How far a parameter of n elements moves, of the norms, squared, of itself and of its change.
  float size_of_step(double norm, double change, int64_t n, bool maximize) const {
    const double mean = std::sqrt(norm / static_cast<double>(n));
    const double alpha = (mean > eps2 ? mean : eps2) * std::min(lr, 1 / std::sqrt(step));
    return static_cast<float>(shrunk(alpha, std::sqrt(change / static_cast<double>(n)) / d)) * (maximize ? -1.0f : 1.0f);
  }

 private:
  static double shrunk(double alpha, double much) { return much > 1 ? alpha / much : alpha; }
};

// A parameter whose second moments are kept whole. Gradients are read twice.
template <class T>
void unfactored(const Numbers& how, int64_t n, T* p, const T* g, float* variance, bool maximize) {
  const float fresh = static_cast<float>(how.fresh), least = static_cast<float>(how.eps1 * how.eps1);
  const auto change_at = [&](int64_t i, F square, auto lanes) KW_INLINED {
    return load(g + i, lanes) / sqrt(maximum(square, splat(least)));
  };
  const int64_t runs = (n + kRun - 1) / kRun;
  std::vector<double> norms(static_cast<size_t>(2 * runs));  // of a run each, so that threads do not change the sum
  in_shares(runs, 4 * n, 1, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      Sum<2, true> norm, change;
      sweep<2>(r * kRun, std::min(n, (r + 1) * kRun), [&](int64_t i, auto lanes, int u) KW_INLINED {
        const F x = load(p + i, lanes), y = load(g + i, lanes), old = load(variance + i, lanes);
        const F square = fma(fma(y, y, -old), fresh, old), c = change_at(i, square, lanes);
        store(variance + i, square, lanes);
        norm.add(u, x * x, lanes), change.add(u, c * c, lanes);
      });
      norm.flush(), change.flush();
      norms[static_cast<size_t>(2 * r)] = sum_lanes(norm.total[0]);
      norms[static_cast<size_t>(2 * r + 1)] = sum_lanes(change.total[0]);
    }
  });
  double norm = 0, change = 0;
  for (int64_t r = 0; r < runs; ++r) norm += norms[static_cast<size_t>(2 * r)], change += norms[static_cast<size_t>(2 * r + 1)];
  const float step = how.size_of_step(norm, change, std::max<int64_t>(n, 1), maximize);
  in_shares(runs, 4 * n, 1, [&](int64_t first, int64_t last) {
    sweep<2>(first * kRun, std::min(n, last * kRun), [&](int64_t i, auto lanes, int) KW_INLINED {
      store(p + i, fma(change_at(i, load(variance + i, lanes), lanes), -step, load(p + i, lanes) * how.decay), lanes);
    });
  });
}

// A matrix parameter.
template <class T> struct Factored : Numbers {
  static constexpr int64_t kRows = 8, kFlush = 64;  // rows whose squares meet in registers; rows between two flushes
  int64_t rows, columns;
  const T *p, *g;

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
    const float step = size_of_step(norm, change, rows * columns, maximize);
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

}  // namespace
}  // namespace kw
