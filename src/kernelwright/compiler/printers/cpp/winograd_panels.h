// A convolution with windows of three by three, one apart, R by R results at a time: (R + 2)^2 multiplications for 9 R^2.
//   out tile = A^T [ (G g G^T) * (B^T d B) ] A, with the products summed over channels by the tiles of `channels_last.h`.
// Source: Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (2015), sections 4.1 and 4.3: F(2x2, 3x3) and
// F(4x4, 3x3), here at the points 0 and plus and minus the roots of 1/2 and 2, which round less than 1 and 2 do: on random
// numbers a quarter of the largest error. Its divisors are in B, so that G holds powers of the points.
// Lanes run along channels: a vector's channels of an image are turned in registers, and so are the results. Weights
// come transformed, in panels [groups][results / 16][(R + 2)^2][channels][16]. A block of tiles, for all channels, and the
// sums of a tile of results stay in the second cache between the transforms.
#pragma once
#include <numeric>

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

// B^T d: R + 2 values of as many.
template <class Put> KW_INLINE void mix_values(const F (&d)[4], Put put) {
  put(0, d[0] - d[2]);
  put(1, d[1] + d[2]);
  put(2, d[2] - d[1]);
  put(3, d[1] - d[3]);
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
// A^T m: R values of R + 2.
template <class Put> KW_INLINE void gather_values(const F (&m)[4], Put put) {
  put(0, m[0] + m[1] + m[2]);
  put(1, m[1] - m[2] - m[3]);
}
template <class Put> KW_INLINE void gather_values(const F (&m)[6], Put put) {
  const F one = m[1] + m[2], away = m[1] - m[2], two = m[3] + m[4], apart = m[3] - m[4];
  put(0, m[0] + one + two);
  put(1, away * (kRoot / 2) + apart * kRoot);
  put(2, one * 0.5f + two * 2.0f);
  put(3, away * (kRoot / 4) + apart * (kRoot * 2) + m[5]);
}

// d[y, x]: N by N vectors, `line` elements from one row to the next, W from one column; to[k] is `apart` from to[k + 1].
template <int N>
__attribute__((noinline)) void transform_tile(const float* d, int64_t line, float* to, int64_t apart) {
  F t[N][N];
#pragma GCC unroll 6
  for (int x = 0; x < N; ++x) {
    F column[N];
#pragma GCC unroll 6
    for (int y = 0; y < N; ++y) column[y] = load(d + y * line + x * W, Full{});
    mix_values(column, [&](int i, F v) KW_INLINED { t[i][x] = v; });
  }
#pragma GCC unroll 6
  for (int i = 0; i < N; ++i)
    mix_values(t[i], [&](int j, F v) KW_INLINED { store(to + (i * N + j) * apart, v, Full{}); });
}
// Sums of a tile, `apart` from one of N * N to the next, to N - 2 by N - 2 vectors.
template <int N>
__attribute__((noinline)) void gather_tile(const float* m, int64_t apart, float* to, int64_t line) {
  F t[N - 2][N];
#pragma GCC unroll 6
  for (int x = 0; x < N; ++x) {
    F column[N];
#pragma GCC unroll 6
    for (int i = 0; i < N; ++i) column[i] = load(m + (i * N + x) * apart, Full{});
    gather_values(column, [&](int y, F v) KW_INLINED { t[y][x] = v; });
  }
#pragma GCC unroll 6
  for (int y = 0; y < N - 2; ++y)
    gather_values(t[y], [&](int x, F v) KW_INLINED { store(to + y * line + x * W, v, Full{}); });
}

// Tiles that a task computes at once: of some images, rows and columns of tiles.
template <int R> struct TileBlocks {
  int64_t all[3], size[3], count[3];
  TileBlocks(const Convolution& c, int64_t threads)
      : all{c.images, (c.sizes[1] + R - 1) / R, (c.sizes[2] + R - 1) / R} {
    const int64_t held = kTilesBytes / ((R + 2) * (R + 2) * int64_t(sizeof(float)) * (c.channels + kTileVectors * W));
    const int64_t share = all[0] * all[1] * all[2] / (threads > 1 ? 4 * threads : 1);
    int64_t most = std::max<int64_t>(2 * kTileResults, std::min(held, share));
    for (int d = 2; d >= 0; --d) {
      size[d] = ChannelBlocks::even(all[d], std::max<int64_t>(1, most));
      most = size[d] == all[d] ? most / size[d] : 1;
      count[d] = (all[d] + size[d] - 1) / size[d];
    }
  }
  int64_t tasks() const { return count[0] * count[1] * count[2]; }
  int64_t tiles() const { return size[0] * size[1] * size[2]; }
};

template <int R> struct TileTask {
  static constexpr int N = R + 2, all = N * N;
  const Convolution& c;
  const TileBlocks<R>& b;
  const int64_t wide, deep, across;  // channels in whole vectors; elements of a line of the image, and of results
  Temporary<float> line, square, tiles, sums, results;
  std::vector<const float*> rows;
  std::vector<int64_t> places;
  int64_t begin[3], end[3];

  TileTask(const Convolution& c, const TileBlocks<R>& b)
      : c(c), b(b), wide((c.channels + W - 1) / W * W), deep((R * b.size[2] + 2 + W - 1) / W * W),
        across((R * b.size[2] + W - 1) / W * W), line(deep * W), square((R * b.size[1] + 2) * deep * W),
        tiles(all * b.tiles() * wide), sums(all * b.tiles() * kTileVectors * W), results(R * across * W),
        rows(b.tiles()), places(b.tiles()) {
    for (int64_t t = 0; t < b.tiles(); ++t) rows[t] = tiles.data + t * wide;
    std::iota(places.begin(), places.end(), int64_t(0));
    std::fill_n(line.data, deep * W, 0.0f);
    std::fill_n(results.data, R * across * W, 0.0f);
  }
  void settle(int64_t task) {
    for (int d = 2; d >= 0; --d) {
      begin[d] = task % b.count[d] * b.size[d];
      end[d] = std::min(b.all[d], begin[d] + b.size[d]);
      task /= b.count[d];
    }
  }
  int64_t high() const { return end[1] - begin[1]; }
  int64_t broad() const { return end[2] - begin[2]; }
  int64_t count() const { return (end[0] - begin[0]) * high() * broad(); }

  // Channels k to k + W of one image: lines of the image, turned, and from there the tiles.
  template <class Image> void transform(Image image, int64_t item, int64_t k, int64_t n) {
    const int64_t first = begin[2] * R - c.low[2], length = R * broad() + 2, top = begin[1] * R - c.low[1];
    const int64_t channels = std::min<int64_t>(W, c.channels - k);
    const int64_t left = std::clamp<int64_t>(-first, 0, length), right = std::clamp(c.extents[2] - first, left, length);
    for (int64_t y = 0; y < R * high() + 2; ++y) {
      const bool inside = top + y >= 0 && top + y < c.extents[1];
      for (int64_t i = 0; i < channels; ++i) {
        float* to = line.data + i * deep;
        if (!inside || left > 0 || right < length) std::fill_n(to, length, c.outside);
        for (int64_t x = left; inside && x < right; x += W) {
          const auto copied = [&](auto lanes) KW_INLINED {
            store(to + x, image(item, k + i, n, int64_t(0), top + y, first + x, lanes), lanes);
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
    const int64_t apart = b.tiles() * wide, from = (n - begin[0]) * high() * broad();
    for (int64_t y = 0; y < high(); ++y)
      for (int64_t x = 0; x < broad(); ++x)
        transform_tile<N>(square.data + (R * y * deep + R * x) * W, deep * W,
                       tiles.data + (from + y * broad() + x) * wide + k, apart);
  }

  // `vectors` of results, of every tile.
  void multiply(const float* panel, int64_t vectors) {
    const int64_t tap = c.channels * kPanel, apart = all * tap, done = count(), high = (done + kTileResults - 1) / kTileResults;
    const int64_t zero = 0, depth = std::min(c.channels, kSummed);
    for (int64_t k = 0; k < all; ++k)
      for (int64_t i = 0; i < high; ++i) {
        const int64_t first = done * i / high, row = done * (i + 1) / high - first - 1;
        const Places at{rows.data(), places.data() + first, &zero};
        const auto tile = vectors > 1 ? kChannelTiles<kTileVectors>[row] : kChannelTiles<1>[row];
        for (int64_t j = 0; j < c.channels; j += depth)
          tile(at, 1, k * b.tiles() * wide + j, 1, std::min(depth, c.channels - j), panel + k * tap + j * kPanel, tap,
               apart, sums.data + (k * b.tiles() + first) * vectors * W, j > 0);
      }
  }

  // W results from `row` on, of a row of tiles.
  template <class Finish>
  void finish_row(Finish finish, int64_t item, int64_t row, int64_t n, int64_t y, const float* from, int64_t vectors) {
    const int64_t tile = ((n - begin[0]) * high() + y - begin[1]) * broad();
    for (int64_t x = 0; x < broad(); ++x)
      gather_tile<N>(from + (tile + x) * vectors * W, b.tiles() * vectors * W, results.data + R * x * W, across * W);
    const int64_t start = begin[2] * R, length = std::min(R * broad(), c.sizes[2] - start);
    const int64_t channels = std::min<int64_t>(W, c.rows - row);
    for (int64_t i = 0; i < R && y * R + i < c.sizes[1]; ++i)
      for (int64_t x = 0; x < length; x += W) {
        F v[W];
        for (int j = 0; j < W; ++j) v[j] = load(results.data + (i * across + x + j) * W, Full{});
        turn(v);
        const auto finished = [&](auto lanes) KW_INLINED {
          for (int64_t j = 0; j < channels; ++j)
            finish(v[j], item, row + j, n, int64_t(0), y * R + i, start + x, lanes);
        };
        if (length - x >= W) finished(Full{});
        else finished(Part{static_cast<int>(length - x)});
      }
  }
};

template <int R, class Image, class Finish>
void convolve_tiles(const Convolution& c, const float* weights, Image image, Finish finish) {
  if (c.items * c.rows * c.images * c.sizes[1] * c.sizes[2] == 0) return;
  const bool few = c.items * c.rows * c.images * c.sizes[1] * c.sizes[2] * c.channels * 9 < kSerialProducts;
  const int64_t threads = few || omp_in_parallel() ? 1 : omp_get_max_threads();
  const TileBlocks<R> blocks(c, threads);
  const int64_t tasks = blocks.tasks(), panels = (c.rows + kPanel - 1) / kPanel, one = (R + 2) * (R + 2) * c.channels * kPanel;
#pragma omp parallel num_threads(threads)
  {
    TileTask<R> task(c, blocks);
#pragma omp for schedule(dynamic, 1)
    for (int64_t i = 0; i < tasks * c.items; ++i) {
      const int64_t item = i / tasks;
      task.settle(i % tasks);
      for (int64_t n = task.begin[0]; n < task.end[0]; ++n)
        for (int64_t k = 0; k < c.channels; k += W) task.transform(image, item, k, n);
      for (int64_t row = 0; row < c.rows; row += kTileVectors * W) {
        const int64_t vectors = c.rows - row > W ? kTileVectors : 1;
        task.multiply(weights + (item * panels + row / kPanel) * one + row % kPanel, vectors);
        for (int64_t v = 0; v < vectors; ++v)
          for (int64_t n = task.begin[0]; n < task.end[0]; ++n)
            for (int64_t y = task.begin[1]; y < task.end[1]; ++y)
              task.finish_row(finish, item, row + v * W, n, y, task.sums.data + v * W, vectors);
      }
    }
  }
}

}  // namespace kw
