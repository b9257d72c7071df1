// A convolution whose windows stand one apart, R results at a time for T taps, along each of its last D dimensions: N = R + T - 1
// multiplications a channel for R T, along each.
//   out tile = A^T [ (G g G^T) * (B^T d B) ] A, with the products summed over channels by the tiles of `channels_last.h`.
// Source: Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (2015), sections 4.1 and 4.3, after Toom and
// Cook. Four values take the points 0, 1 and -1; five 0, plus and minus the root of 1/2 and the root of 2; six that and its
// negative: these round less than 1 and 2 do. Divisors are in B, so that G holds powers of the points.
// Taps beyond T are summed with the products: those of slices, and along a row where R is T, as they read other tiles.
// Phases of a transposed convolution have tiles of their own, from the first tap that they use on.
// Lanes run along channels: a vector's channels of an image are turned in registers, and so are the results. Weights
// come transformed, in panels [groups][phases][results / 16][slices][N^D][channels][16]. A block of tiles, for all channels,
// and the sums of a tile of results stay in the second cache between the transforms.
#pragma once
#include "channels_last.h"

namespace kw {

constexpr int64_t kTilesBytes = int64_t(1) << 19;  // of transformed tiles and sums of a block: half the second cache

constexpr float kRoot = 1.41421356f;

// A square of lanes, rows for columns.
KW_INLINE void turn(F* v) {
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC unroll 4
  for (int step = W / 2; step > 0; step /= 2) {
    const M from = iota(), far = (from & step) != 0;
    const M low = select(far, from + (W - step), from), high = select(far, from + W, from + step);
#pragma GCC unroll 16
    for (int i = 0; i < W; ++i)
      if (!(i & step)) {
        const F a = v[i], b = v[i + step];
        v[i] = __builtin_shuffle(a, b, low);
        v[i + step] = __builtin_shuffle(a, b, high);
      }
  }
#else
  for (int i = 0; i < W; ++i)
    for (int j = 0; j < i; ++j) std::swap(v[i][j], v[j][i]);
#endif
}

// B^T d: N values of as many.
template <class Put> KW_INLINE void mix_values(const F (&d)[1], Put put) { put(0, d[0]); }
template <class Put> KW_INLINE void mix_values(const F (&d)[4], Put put) {
  put(0, d[0] - d[2]);
  put(1, d[1] + d[2]);
  put(2, d[2] - d[1]);
  put(3, d[1] - d[3]);
}
template <class Put> KW_INLINE void mix_values(const F (&d)[5], Put put) {
  const F near = d[1] * kRoot, far = d[3] * kRoot;
  put(0, d[0] - near * 0.5f - d[2] * 2.0f + far);
  put(1, near + d[2] - far);
  put(2, d[2] - (near + far) * (1.0f / 3));
  put(3, far * (1.0f / 3) - near * (1.0f / 6));
  put(4, near * 0.5f - d[2] * 0.5f - far + d[4]);
}
template <class Put> KW_INLINE void mix_values(const F (&d)[6], Put put) {
  const F even = d[2] * (4.0f / 3) - d[4] * (2.0f / 3), odd = d[1] * (kRoot * 2 / 3) - d[3] * (kRoot / 3);
  const F outer = d[4] * (1.0f / 6) - d[2] * (0.5f / 6), inner = d[3] * (kRoot / 6) - d[1] * (kRoot / 12);
  put(0, d[0] - d[2] * 2.5f + d[4]);
  put(1, even + odd);
  put(2, even - odd);
  put(3, outer + inner);
  put(4, outer - inner);
  put(5, d[1] - d[3] * 2.5f + d[5]);
}
// A^T m: R values of N.
template <int R, int N, class Put> KW_INLINE void gather_values(const F (&m)[N], Put put) {
  if constexpr (N == 1) {
    put(0, m[0]);
  } else if constexpr (N == 4) {
    const F one = m[1] + m[2], away = m[1] - m[2];
    put(0, m[0] + one);
    put(1, R == 2 ? away - m[3] : away);
    if constexpr (R == 3) put(2, one - m[3]);
  } else if constexpr (N == 5) {
    const F one = m[1] + m[2], away = m[1] - m[2];
    put(0, m[0] + one + m[3]);
    put(1, away * (kRoot / 2) + m[3] * kRoot);
    put(2, one * 0.5f + m[3] * 2.0f + m[4]);
  } else {
    const F one = m[1] + m[2], away = m[1] - m[2], two = m[3] + m[4], apart = m[3] - m[4];
    put(0, m[0] + one + two);
    put(1, away * (kRoot / 2) + apart * kRoot);
    put(2, one * 0.5f + two * 2.0f);
    put(3, away * (kRoot / 4) + apart * (kRoot * 2) + m[5]);
  }
}

// What a tile is: R results of T taps along D dimensions.
template <int R_, int T_, int D_> struct Square {
  static constexpr int R = R_, T = T_, N = R + T - 1;  // along a row
  static constexpr int high = D_ == 2 ? R : 1, tall = D_ == 2 ? N : 1, all = N * tall;
};

// d[y, x]: values of a tile, `line` elements from one row to the next, W from one column; to[k] is `apart` from to[k + 1].
template <class S>
__attribute__((noinline)) void transform_tile(const float* d, int64_t line, float* to, int64_t apart) {
  F t[S::tall][S::N];
#pragma GCC unroll 6
  for (int x = 0; x < S::N; ++x) {
    F column[S::tall];
#pragma GCC unroll 6
    for (int y = 0; y < S::tall; ++y) column[y] = load(d + y * line + x * W, Full{});
    mix_values(column, [&](int i, F v) KW_INLINED { t[i][x] = v; });
  }
#pragma GCC unroll 6
  for (int i = 0; i < S::tall; ++i)
    mix_values(t[i], [&](int j, F v) KW_INLINED { store(to + (i * S::N + j) * apart, v, Full{}); });
}
// Sums of a tile, `apart` from one to the next, to vectors of results.
template <class S>
__attribute__((noinline)) void gather_tile(const float* m, int64_t apart, float* to, int64_t line) {
  F t[S::high][S::N];
#pragma GCC unroll 6
  for (int x = 0; x < S::N; ++x) {
    F column[S::tall];
#pragma GCC unroll 6
    for (int i = 0; i < S::tall; ++i) column[i] = load(m + (i * S::N + x) * apart, Full{});
    gather_values<S::high>(column, [&](int y, F v) KW_INLINED { t[y][x] = v; });
  }
#pragma GCC unroll 6
  for (int y = 0; y < S::high; ++y)
    gather_values<S::R>(t[y], [&](int x, F v) KW_INLINED { store(to + y * line + x * W, v, Full{}); });
}

// Tiles that a task computes at once: of some images, slices, rows and columns of tiles.
template <class S> struct TileBlocks {
  int64_t all[4], size[4], count[4], beyond[4];  // beyond: tiles that are read in addition to those of the results
  TileBlocks(const Convolution& c, int64_t threads)
      : all{c.images, c.sizes[0], (c.sizes[1] + S::high - 1) / S::high, (c.sizes[2] + S::R - 1) / S::R},
        beyond{0, c.taps[0] - 1, 0, (c.taps[2] - 1) / S::T} {
    if (S::R != S::T) beyond[3] = 0;
    const int64_t held = kTilesBytes / (S::all * int64_t(sizeof(float)) * (c.channels + kTileVectors * W));
    const int64_t share = all[0] * all[1] * all[2] * all[3] / (threads > 1 ? 4 * threads : 1);
    int64_t most = std::max<int64_t>(2 * kTileResults, std::min(held, share));
    for (int d : {3, 1, 2, 0}) {
      size[d] = ChannelBlocks::even(all[d], std::max<int64_t>(1, most - beyond[d]));
      most = size[d] == all[d] ? most / (size[d] + beyond[d]) : 1;
      count[d] = (all[d] + size[d] - 1) / size[d];
    }
  }
  int64_t tasks() const { return count[0] * count[1] * count[2] * count[3]; }
  int64_t results() const { return size[0] * size[1] * size[2] * size[3]; }
  int64_t tiles() const { return size[0] * (size[1] + beyond[1]) * size[2] * (size[3] + beyond[3]); }
};

template <class S> struct TileTask {
  static constexpr int R = S::R, all = S::all;
  const Convolution& c;
  const TileBlocks<S>& b;
  const int64_t wide, deep, across;  // channels in whole vectors; elements of a line of the image, and of results
  Temporary<float> line, square, tiles, sums, results;
  std::vector<const float*> rows;
  std::vector<int64_t> places, taps;
  int64_t begin[4], end[4];

  TileTask(const Convolution& c, const TileBlocks<S>& b)
      : c(c), b(b), wide((c.channels + W - 1) / W * W),
        deep((R * (b.size[3] + b.beyond[3]) + S::T - 1 + W - 1) / W * W), across((R * b.size[3] + W - 1) / W * W),
        line(deep * W), square((S::high * b.size[2] + S::tall - S::high) * deep * W), tiles(all * b.tiles() * wide),
        sums(all * b.results() * kTileVectors * W), results(S::high * across * W), rows(b.tiles()) {
    for (int64_t t = 0; t < b.tiles(); ++t) rows[t] = tiles.data + t * wide;
    std::fill_n(line.data, deep * W, 0.0f);
    std::fill_n(results.data, S::high * across * W, 0.0f);
  }
  void settle(int64_t task) {
    for (int d = 3; d >= 0; --d) {
      begin[d] = task % b.count[d] * b.size[d];
      end[d] = std::min(b.all[d], begin[d] + b.size[d]);
      task /= b.count[d];
    }
    places.clear(), taps.clear();
    for (int64_t n = 0; n < count(0); ++n)
      for (int64_t z = 0; z < count(1); ++z)
        for (int64_t y = 0; y < count(2); ++y)
          for (int64_t x = 0; x < count(3); ++x) places.push_back(place(n, z, y, x));
    for (int64_t u = 0; u <= b.beyond[1]; ++u)
      for (int64_t w = 0; w <= b.beyond[3]; ++w) taps.push_back(place(0, u, 0, w));
  }
  int64_t count(int d) const { return end[d] - begin[d]; }
  int64_t broad() const { return count(3) + b.beyond[3]; }
  int64_t place(int64_t n, int64_t z, int64_t y, int64_t x) const {
    return ((n * (count(1) + b.beyond[1]) + z) * count(2) + y) * broad() + x;
  }

  // Channels k to k + W of one slice of an image, read from tap `from` on: lines of it, turned, and from there the tiles.
  template <class Image>
  void transform(Image image, int64_t item, int64_t k, int64_t n, int64_t z, const int64_t* from) {
    const int64_t first = begin[3] * R - c.low[2] + from[2], length = R * broad() + S::T - 1;
    const int64_t top = begin[2] * S::high - c.low[1] + from[1], slice = begin[1] + z - c.low[0] + from[0];
    const int64_t channels = std::min<int64_t>(W, c.channels - k), high = S::high * count(2) + S::tall - S::high;
    const int64_t left = std::clamp<int64_t>(-first, 0, length), right = std::clamp(c.extents[2] - first, left, length);
    for (int64_t y = 0; y < high; ++y) {
      const bool inside = top + y >= 0 && top + y < c.extents[1] && slice >= 0 && slice < c.extents[0];
      for (int64_t i = 0; i < channels; ++i) {
        float* to = line.data + i * deep;
        if (!inside || left > 0 || right < length) std::fill_n(to, length, c.outside);
        for (int64_t x = left; inside && x < right; x += W) {
          const auto copied = [&](auto lanes) KW_INLINED {
            store(to + x, image(item, k + i, begin[0] + n, slice, top + y, first + x, lanes), lanes);
          };
          if (right - x >= W) copied(Full{});
          else copied(Part{static_cast<int>(right - x)});
        }
      }
      for (int64_t i = channels; i < W; ++i) std::fill_n(line.data + i * deep, length, 0.0f);
      for (int64_t x = 0; x < length; x += W) {
        F v[W];
        for (int i = 0; i < W; ++i) v[i] = load(line.data + i * deep + x, Full{});
        turn(v);
        for (int i = 0; i < W; ++i) store(square.data + (y * deep + x + i) * W, v[i], Full{});
      }
    }
    const int64_t apart = b.tiles() * wide;
    for (int64_t y = 0; y < count(2); ++y)
      for (int64_t x = 0; x < broad(); ++x)
        transform_tile<S>(square.data + (S::high * y * deep + R * x) * W, deep * W,
                          tiles.data + place(n, z, y, x) * wide + k, apart);
  }

  // `vectors` of results, of every tile.
  void multiply(const float* panel, int64_t vectors) {
    const int64_t apart = c.channels * kPanel, done = static_cast<int64_t>(places.size());
    const int64_t high = (done + kTileResults - 1) / kTileResults, many = static_cast<int64_t>(taps.size());
    for (int64_t k = 0; k < all; ++k)
      for (int64_t i = 0; i < high; ++i) {
        const int64_t first = done * i / high, count = done * (i + 1) / high - first;
        const Panels from{panel + k * apart, all * apart, many * all * apart};
        sum_taps({rows.data(), places.data() + first, taps.data()}, count, many, k * b.tiles() * wide, 1, c.channels,
                 from, vectors, sums.data + (k * b.results() + first) * vectors * W);
      }
  }

  // W results from `row` on, of a row of tiles.
  template <class Finish>
  void finish_row(Finish finish, int64_t item, int64_t row, int64_t channels, const int64_t* at, const float* from,
                  int64_t vectors) {
    const int64_t tile = ((at[0] * count(1) + at[1]) * count(2) + at[2]) * count(3);
    for (int64_t x = 0; x < count(3); ++x)
      gather_tile<S>(from + (tile + x) * vectors * W, b.results() * vectors * W, results.data + R * x * W, across * W);
    const int64_t start = begin[3] * R, length = std::min(R * count(3), c.sizes[2] - start);
    const int64_t n = begin[0] + at[0], z = begin[1] + at[1], y = (begin[2] + at[2]) * S::high;
    for (int64_t i = 0; i < S::high && y + i < c.sizes[1]; ++i)
      for (int64_t x = 0; x < length; x += W) {
        F v[W];
        for (int j = 0; j < W; ++j) v[j] = load(results.data + (i * across + x + j) * W, Full{});
        turn(v);
        const auto finished = [&](auto lanes) KW_INLINED {
          for (int64_t j = 0; j < channels; ++j) finish(v[j], item, row + j, n, z, y + i, start + x, lanes);
        };
        if (length - x >= W) finished(Full{});
        else finished(Part{static_cast<int>(length - x)});
      }
  }

  // One phase, whose results begin at `first` and whose taps do so at `from`.
  template <class Image, class Finish>
  void run(Image image, Finish finish, const float* weights, int64_t item, int64_t first, int64_t results_of,
           const int64_t* from) {
    for (int64_t n = 0; n < count(0); ++n)
      for (int64_t z = 0; z < count(1) + b.beyond[1]; ++z)
        for (int64_t k = 0; k < c.channels; k += W) transform(image, item, k, n, z, from);
    const int64_t panel = static_cast<int64_t>(taps.size()) * all * c.channels * kPanel;
    for (int64_t row = 0; row < results_of; row += kTileVectors * W) {
      const int64_t vectors = results_of - row > W ? kTileVectors : 1;
      multiply(weights + row / kPanel * panel + row % kPanel, vectors);
      for (int64_t v = 0; v < vectors; ++v)
        for (int64_t at[3] = {0, 0, 0}; at[0] < count(0); ++at[0])
          for (at[1] = 0; at[1] < count(1); ++at[1])
            for (at[2] = 0; at[2] < count(2); ++at[2])
              finish_row(finish, item, first + row + v * W, std::min<int64_t>(W, results_of - row - v * W), at,
                         sums.data + v * W, vectors);
    }
  }
};

template <class S, int phases, class Image, class Finish>
void convolve_tiles(const Convolution& c, const TapRange (&ranges)[phases], const float* weights, Image image,
                    Finish finish) {
  const int64_t results = c.items * c.rows * c.images * c.sizes[0] * c.sizes[1] * c.sizes[2], each = c.rows / phases;
  if (results == 0) return;
  const bool few = results * c.channels * c.taps[0] * S::T * S::T < kSerialProducts;
  const int64_t threads = few || omp_in_parallel() ? 1 : omp_get_max_threads();
  const TileBlocks<S> blocks(c, threads);
  const int64_t tasks = blocks.tasks(), panels = (each + kPanel - 1) / kPanel;
  const int64_t one = (blocks.beyond[1] + 1) * (blocks.beyond[3] + 1) * S::all * c.channels * kPanel * panels;
#pragma omp parallel num_threads(threads)
  {
    TileTask<S> task(c, blocks);
#pragma omp for schedule(dynamic, 1)
    for (int64_t i = 0; i < tasks * c.items; ++i) {
      task.settle(i % tasks);
      for (int p = 0; p < phases; ++p)
        task.run(image, finish, weights + (i / tasks * phases + p) * one, i / tasks, p * each, each, ranges[p].begin);
    }
  }
}

}  // namespace kw
