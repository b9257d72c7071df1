// Kernels by hand for problems of `peer_problems`, one size each: how near a bound one gets who knows the problem.
#include "tiles.h"

using namespace kw;

namespace {

// Lines of 64 bytes that are asked for ahead of a walk.
constexpr int64_t kAhead = 32 * 16;

KW_INLINE F at(const float* p) { return load(p, Full{}); }
KW_INLINE F ahead(const float* p) {
  __builtin_prefetch(p + kAhead);
  return at(p);
}
KW_INLINE float total(F v) { return fold_lanes(v, [](F a, F b) __attribute__((always_inline)) { return a + b; })[0]; }
KW_INLINE float top(F v) { return fold_lanes(v, [](F a, F b) __attribute__((always_inline)) { return maximum(a, b); })[0]; }

// The sum of what a function makes of every vector of n elements, in four accumulators.
template <class Function> KW_INLINE float sum_of(int64_t n, Function value) {
  F sums[4] = {};
  for (int64_t i = 0; i < n; i += 4 * W)
#pragma GCC unroll 4
    for (int u = 0; u < 4; ++u) sums[u] += value(i + u * W);
  return total((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

}  // namespace

KW_KERNEL(variance_of_rows) {
  const auto x = args.tensor<const float>(0);
  const auto out = args.tensor<float>(1);
  const int64_t n = x.shape(1);
  for (int64_t r = 0; r < x.shape(0); ++r) {
    const float* p = x.data() + r * n;
    const float mean = sum_of(n, [&](int64_t i) { return at(p + i); }) / n;
    out.data()[r] = sum_of(n, [&](int64_t i) {
      __builtin_prefetch(p + n + i);
      const F away = at(p + i) - splat(mean);
      return away * away;
    }) / (n - 1);
  }
}

KW_KERNEL(embedding) {
  const auto ids = args.tensor<const int64_t>(0);
  const auto table = args.tensor<const float>(1);
  const auto out = args.tensor<float>(2);
  const int64_t n = table.shape(1), count = ids.numel();
  for (int64_t r = 0; r < count; ++r) {
    const float* p = table.data() + ids.data()[r] * n;
    const float* next = table.data() + ids.data()[r + 1 < count ? r + 1 : r] * n;
    for (int64_t i = 0; i < n; i += W) {
      __builtin_prefetch(next + i);
      stream(out.data() + r * n + i, at(p + i), Full{});
    }
  }
  fence();
}

KW_KERNEL(embedding_summed) {
  const auto ids = args.tensor<const int64_t>(0);
  const auto table = args.tensor<const float>(1);
  const auto out = args.tensor<float>(2);
  constexpr int64_t kColumns = 256, kNext = 4;
  const int64_t bag = ids.shape(1), count = ids.numel();
  for (int64_t r = 0; r < ids.shape(0); ++r) {
    F sums[kColumns / W] = {};
    for (int64_t k = r * bag; k < (r + 1) * bag; ++k) {
      const float* p = table.data() + ids.data()[k] * kColumns;
      const float* next = table.data() + ids.data()[k + kNext < count ? k + kNext : k] * kColumns;
#pragma GCC unroll 16
      for (int64_t i = 0; i < kColumns / W; ++i) {
        __builtin_prefetch(next + i * W);
        sums[i] += at(p + i * W);
      }
    }
    for (int64_t i = 0; i < kColumns / W; ++i) store(out.data() + r * kColumns + i * W, sums[i], Full{});
  }
}

KW_KERNEL(swiglu_elementwise) {
  const auto x = args.tensor<const float>(0);
  const auto out = args.tensor<float>(1);
  const int64_t n = x.shape(1) / 2;
  for (int64_t r = 0; r < x.shape(0); ++r) {
    const float* p = x.data() + r * 2 * n;
    for (int64_t i = 0; i < n; i += W) stream(out.data() + r * n + i, silu(ahead(p + i)) * ahead(p + n + i), Full{});
  }
  fence();
}

KW_KERNEL(exponential_of_a_sum) {
  const auto x = args.tensor<const float>(0);
  const auto y = args.tensor<const float>(1);
  const auto out = args.tensor<float>(2);
  for (int64_t i = 0; i < x.numel(); i += W) store(out.data() + i, exp(ahead(x.data() + i) + ahead(y.data() + i)), Full{});
}

KW_KERNEL(huber_loss) {
  const auto x = args.tensor<const float>(0);
  const auto y = args.tensor<const float>(1);
  const auto out = args.tensor<float>(2);
  double sum = 0;
  for (int64_t block = 0; block < x.numel(); block += 4096)
    sum += sum_of(4096, [&](int64_t i) {
      const F away = abs(ahead(x.data() + block + i) - ahead(y.data() + block + i));
      const F near = at_most(away, 1.0f);
      return near * (away - 0.5f * near);
    });
  out.data()[0] = static_cast<float>(sum / x.numel());
}

KW_KERNEL(max_pool_3x3) {  // stride two, padding one, widths of whole vectors
  const auto x = args.tensor<const float>(0);
  const auto out = args.tensor<float>(1);
  const int64_t planes = x.shape(0) * x.shape(1), height = x.shape(2), width = x.shape(3);
  const int64_t rows = height / 2, columns = width / 2;
  constexpr int kMost = 512;
  KW_REQUIRE(width + 2 * W <= kMost, "rows are too long");
  float line[kMost];
  for (int i = 0; i < W; ++i) line[i] = -INFINITY;
  for (int64_t plane = 0; plane < planes; ++plane)
    for (int64_t r = 0; r < rows; ++r) {
      const float* p = x.data() + (plane * height + 2 * r) * width;
      const float* above = r ? p - width : p;
      for (int64_t i = 0; i < width; i += W) {
        __builtin_prefetch(p + 2 * width + i);
        __builtin_prefetch(p + 3 * width + i);
        store(line + W + i, maximum(maximum(at(above + i), at(p + i)), at(p + width + i)), Full{});
      }
      const M even = 2 * iota();
      for (int64_t c = 0; c < columns; c += W) {
        const int64_t first = c + W <= columns ? c : columns - W;
        const float* q = line + W + 2 * first;
        const F before = shuffle(at(q - 1), at(q - 1 + W), even), low = at(q), high = at(q + W);
        const F here = shuffle(low, high, even), after = shuffle(low, high, even + 1);
        store(out.data() + (plane * rows + r) * columns + first, maximum(maximum(before, here), after), Full{});
      }
    }
}

KW_KERNEL(average_pool_2x2) {
  const auto x = args.tensor<const float>(0);
  const auto out = args.tensor<float>(1);
  const int64_t rows = out.numel() / out.shape(3), width = x.shape(3), columns = out.shape(3);
  const M even = 2 * iota();
  for (int64_t r = 0; r < rows; ++r) {
    const float* p = x.data() + 2 * r * width;
    for (int64_t c = 0; c < columns; c += W) {
      const int64_t first = c + W <= columns ? c : columns - W;
      const float* q = p + 2 * first;
      const F low = ahead(q) + ahead(q + width), high = ahead(q + W) + ahead(q + width + W);
      const F both = shuffle(low, high, even) + shuffle(low, high, even + 1);
      store(out.data() + r * columns + first, both * 0.25f, Full{});
    }
  }
}

KW_KERNEL(attention_one_query) {  // heads of 128
  const auto q = args.tensor<const float>(0);
  const auto k = args.tensor<const float>(1);
  const auto v = args.tensor<const float>(2);
  const auto out = args.tensor<float>(3);
  constexpr int kParts = 128 / W, kBlock = 512;
  const int64_t heads = k.shape(1), keys = k.shape(2);
  for (int64_t h = 0; h < heads; ++h) {
    F query[kParts], sums[kParts] = {};
    for (int i = 0; i < kParts; ++i) query[i] = at(q.data() + h * 128 + i * W) * 0.0884f;
    float largest = -INFINITY, weight = 0, scores[kBlock];
    for (int64_t block = 0; block < keys; block += kBlock) {
      for (int64_t j = 0; j < kBlock; j += W) {
        F dots[W];
        for (int u = 0; u < W; ++u) {
          const float* p = k.data() + ((h * keys + block + j + u) * 128);
          F dot = query[0] * ahead(p);
          for (int i = 1; i < kParts; ++i) dot = fma(query[i], ahead(p + i * W), dot);
          dots[u] = dot;
        }
        transpose_lanes(dots);
        F sum = dots[0];
        for (int u = 1; u < W; ++u) sum += dots[u];
        store(scores + j, sum, Full{});
      }
      F most = splat(largest);
      for (int64_t j = 0; j < kBlock; j += W) most = maximum(most, at(scores + j));
      const float now = top(most), factor = std::exp(largest - now);
      weight = weight * factor + sum_of(kBlock, [&](int64_t j) {
        const F power = exp(at(scores + j) - splat(now));
        store(scores + j, power, Full{});
        return power;
      });
      largest = now;
      for (int i = 0; i < kParts; ++i) sums[i] *= factor;
      for (int64_t j = 0; j < kBlock; ++j) {
        const float* p = v.data() + ((h * keys + block + j) * 128);
        for (int i = 0; i < kParts; ++i) sums[i] = fma(splat(scores[j]), ahead(p + i * W), sums[i]);
      }
    }
    for (int i = 0; i < kParts; ++i) store(out.data() + h * 128 + i * W, sums[i] / weight, Full{});
  }
}

KW_KERNEL(cumulative_sum_of_columns) {
  const auto x = args.tensor<const float>(0);
  const auto out = args.tensor<float>(1);
  const int64_t n = x.shape(1);
  constexpr int kSide = 16;
  for (int64_t c = 0; c < n; c += kSide * W) {
    F sums[kSide] = {};
    for (int64_t r = 0; r < x.shape(0); ++r)
#pragma GCC unroll 16
      for (int u = 0; u < kSide; ++u) {
        const int64_t place = r * n + c + u * W;
        __builtin_prefetch(x.data() + place + 4 * n);
        sums[u] += at(x.data() + place);
        stream(out.data() + place, sums[u], Full{});
      }
  }
  fence();
}

KW_KERNEL(layer_norm_in_cache) {
  const auto x = args.tensor<const float>(0);
  const auto w = args.tensor<const float>(1);
  const auto b = args.tensor<const float>(2);
  const auto out = args.tensor<float>(3);
  const int64_t n = x.shape(1);
  for (int64_t r = 0; r < x.shape(0); ++r) {
    const float* p = x.data() + r * n;
    F sums[4] = {}, squares[4] = {};
    for (int64_t i = 0; i < n; i += 4 * W)
#pragma GCC unroll 4
      for (int u = 0; u < 4; ++u) {
        const F v = at(p + i + u * W);
        __builtin_prefetch(p + n + i + u * W);
        sums[u] += v, squares[u] = fma(v, v, squares[u]);
      }
    const float mean = total((sums[0] + sums[1]) + (sums[2] + sums[3])) / n;
    const float square = total((squares[0] + squares[1]) + (squares[2] + squares[3])) / n - mean * mean;
    const float scale = 1 / std::sqrt(square + 1e-5f);
    for (int64_t i = 0; i < n; i += W)
      store(out.data() + r * n + i, fma((at(p + i) - splat(mean)) * scale, at(w.data() + i), at(b.data() + i)), Full{});
  }
}
