// A convolution with windows of three by three, one apart, two by two results at a time: 16 multiplications for 36.
//   out tile = A^T [ (G g G^T) * (B^T d B) ] A, with the products summed over channels by register tiles.
// Source: Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (2015), section 4.1, F(2x2, 3x3).
// Lanes run over tiles side by side. Weights come transformed, (16, rows, channels), or are so once a call (16/9 of
// their bytes written and read); tiles of the image, for all channels, and the sums of a block of rows stay in the
// second cache between the transforms.
#pragma once
#include <type_traits>

#include "contraction.h"

namespace kw {

struct Windows {
  int64_t images, height, width, channels;  // of the results; channels of the image
};

// Lanes first, first + 2, first + 4 ... of two vectors that lie one after another.
KW_INLINE F every_other(F a, F b, int first) {
#if defined(__GNUC__) && !defined(__clang__)
  return __builtin_shuffle(a, b, iota() * 2 + first);
#else
  F r;
  for (int i = 0; i < W; ++i) r[i] = 2 * i + first < W ? a[2 * i + first] : b[2 * i + first - W];
  return r;
#endif
}
// Lanes of two vectors in turn, from the first half of both (0) or from the second (1).
KW_INLINE F in_turn(F a, F b, int half) {
#if defined(__GNUC__) && !defined(__clang__)
  return __builtin_shuffle(a, b, (iota() >> 1) + (iota() & 1) * W + half * (W / 2));
#else
  F r;
  for (int i = 0; i < W; ++i) r[i] = (i & 1 ? b : a)[i / 2 + half * (W / 2)];
  return r;
#endif
}

// G g: four values of three; B^T d: four of four; A^T m: two of four.
template <class V> KW_INLINE void spread(const V& a, const V& b, const V& c, V* to, int step) {
  to[0] = a;
  to[step] = (a + b + c) * 0.5f;
  to[2 * step] = (a - b + c) * 0.5f;
  to[3 * step] = c;
}
KW_INLINE void mix(F* d, int step) {
  const F a = d[0], b = d[step], c = d[2 * step], e = d[3 * step];
  d[0] = a - c;
  d[step] = b + c;
  d[2 * step] = c - b;
  d[3 * step] = b - e;
}
KW_INLINE void gather_up(const F* m, int step, F& first, F& second) {
  first = m[0] + m[step] + m[2 * step];
  second = m[step] - m[2 * step] - m[3 * step];
}

// What a task is about: so many groups of W tiles side by side, each in one row of tiles of one image.
template <class T> struct Chunk {
  const Shape& s;
  const Windows& w;
  Temporary<float> image, sums;  // (16, channels, tiles) and (16, rows, tiles)
  Chunk(const Shape& s, const Windows& w)
      : s(s), w(w), image(16 * w.channels * T::columns), sums(16 * std::min(T::block, s.rows) * T::columns) {}

  int64_t across() const { return (w.width + 2 * W - 1) / (2 * W); }
  int64_t down() const { return (w.height + 1) / 2; }
  int64_t groups() const { return w.images * down() * across(); }
  int64_t top(int64_t group) const { return group / across() % down() * 2; }
  int64_t start(int64_t group) const { return group % across() * 2 * W; }
  int64_t column(int64_t group, int64_t y) const {
    return (group / across() / down() * w.height + y) * w.width + start(group);
  }

  // Calls take(vector, lanes) for the one or two vectors of a row of results that lie within it.
  template <class Take> KW_INLINE void halves(int64_t group, Take take) const {
    const int64_t rest = w.width - start(group);
    if (rest >= W) take(0, Full{});
    else take(0, Part{static_cast<int>(rest)});
    if (rest >= 2 * W) take(1, Full{});
    else if (rest > W) take(1, Part{static_cast<int>(rest - W)});
  }

  template <class Right> void transform(Right right, int64_t b, int64_t group, int64_t c, float* to) {
    F d[16] = {};
    for (int i = 0; i < 4; ++i) {
      const int64_t y = top(group) + (i == 3), u = std::min(i, 2);  // the last row belongs to the lower results
      if (y >= w.height) continue;
      for (int v = 0; v < 3; ++v) {
        F row[2] = {};
        halves(group, [&](int half, auto lanes) KW_INLINED {
          row[half] = right(b, c * 9 + u * 3 + v, column(group, y) + half * W, lanes);
        });
        d[i * 4 + v] = every_other(row[0], row[1], 0);
        if (v == 2) d[i * 4 + 3] = every_other(row[0], row[1], 1);
      }
    }
    for (int j = 0; j < 4; ++j) mix(d + j, 4);
    for (int i = 0; i < 4; ++i) mix(d + i * 4, 1);
    for (int k = 0; k < 16; ++k) store(to + k * w.channels * T::columns, d[k], Full{});
  }

  template <class Finish>
  void finish_tiles(Finish finish, int64_t b, int64_t group, int64_t row, const float* from, int64_t apart) {
    F m[16], t[8], y[4];
    for (int k = 0; k < 16; ++k) m[k] = load(from + k * apart, Full{});
    for (int j = 0; j < 4; ++j) gather_up(m + j, 4, t[j], t[4 + j]);
    for (int i = 0; i < 2; ++i) gather_up(t + i * 4, 1, y[i * 2], y[i * 2 + 1]);
    for (int i = 0; i < 2 && top(group) + i < w.height; ++i)
      halves(group, [&](int half, auto lanes) KW_INLINED {
        finish(in_turn(y[i * 2], y[i * 2 + 1], half), b, row, column(group, top(group) + i) + half * W, lanes);
      });
  }

  template <class Right, class Finish>
  void run(Right right, Finish finish, const float* weights, int64_t b, int64_t first) {
    const int64_t count = std::min<int64_t>(T::vectors, groups() - first), channels = w.channels;
    for (int64_t v = 0; v < T::vectors; ++v)
      for (int64_t c = 0; c < channels; ++c) {
        float* to = image.data + c * T::columns + v * W;
        if (v < count) transform(right, b, first + v, c, to);
        else
          for (int k = 0; k < 16; ++k) store(to + k * channels * T::columns, F{}, Full{});
      }
    for (int64_t m = 0; m < s.rows; m += T::block) {
      const int64_t rows = std::min(T::block, s.rows - m), apart = rows * T::columns;
      for (int k = 0; k < 16; ++k) {
        const float* from = image.data + k * channels * T::columns;
        tile_rows<F, T::rows, T::vectors>(
            weights + (k * s.rows + m) * channels, channels, rows, channels,
            [from](int64_t c, int v) KW_INLINED { return load(from + c * T::columns + v * W, Full{}); },
            sums.data + k * apart, T::columns, false);
      }
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t v = 0; v < count; ++v)
          finish_tiles(finish, b, first + v, m + r, sums.data + r * T::columns + v * W, apart);
    }
  }
};

// The weights of one row, for every channel: to[k][channel], k of 16.
template <class Left> void transform_weights(Left left, int64_t b, int64_t row, int64_t channels, float* to, int64_t apart) {
  for (int64_t c = 0; c < channels; ++c) {
    float g[9], h[12], u[16];
    for (int k = 0; k < 9; ++k) g[k] = left(b, row, c * 9 + k, Part{1})[0];
    for (int j = 0; j < 3; ++j) spread(g[j], g[3 + j], g[6 + j], h + j, 3);
    for (int i = 0; i < 4; ++i) spread(h[i * 3], h[i * 3 + 1], h[i * 3 + 2], u + i * 4, 1);
    for (int k = 0; k < 16; ++k) to[k * apart + c] = u[k];
  }
}

template <class T, class Right, class Finish>
void convolve_spread(const Shape& s, const Windows& w, const float* weights, Right right, Finish finish) {
  Chunk<T> chunk(s, w);
  const int64_t chunks = (chunk.groups() + T::vectors - 1) / T::vectors, one = 16 * s.rows * w.channels;
#pragma omp for schedule(static)
  for (int64_t i = 0; i < s.batch * chunks; ++i)
    chunk.run(right, finish, weights + i / chunks * one, i / chunks, i % chunks * T::vectors);
}

// Weights are given transformed, or as a function of the factor that they are.
template <class T, class Left, class Right, class Finish>
void convolve(const Shape& s, const Windows& w, Left left, Right right, Finish finish) {
  constexpr bool given = std::is_pointer_v<Left>;
  const bool alone = s.batch * s.rows * s.columns * s.inner < kSerialProducts || omp_in_parallel();
  const int64_t one = s.rows * w.channels;
  const Temporary<float> own(given ? 0 : 16 * s.batch * one);
#pragma omp parallel num_threads(alone ? 1 : omp_get_max_threads())
  {
    if constexpr (given) convolve_spread<T>(s, w, left, right, finish);
    else {
#pragma omp for schedule(static)
      for (int64_t i = 0; i < s.batch * s.rows; ++i)
        transform_weights(left, i / s.rows, i % s.rows, w.channels,
                          own.data + i / s.rows * 16 * one + i % s.rows * w.channels, one);
      convolve_spread<T>(s, w, own.data, right, finish);
    }
  }
}

}  // namespace kw
