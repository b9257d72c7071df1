// A convolution of images whose channels lie side by side, as those of the results do: lanes along the channels of results.
//   results[n, z, y, x, g, o] = finish(sum over c, u of weights[g, o, c, u] * image[n, stride * (z, y, x) + step * u, g, c])
// An image is read where it lies, through a table of where the channels of every element begin; elements of the padding
// begin at a row that holds it. A tap of the window is a distance in that table, whatever the stride and the dilation, and a
// register tile may hold any results of a block, whole small images included. Weights lie in panels,
// [groups][results / 16][taps][channels][16]; those of one filter a channel as [taps][channels].
#pragma once
#include <array>
#include <utility>
#include <vector>

#include "pixels.h"

namespace kw {

// An image as it lies: elements from one image, group, channel and position to the next.
struct Located {
  const float* data;
  int64_t image, item, channel, at[3];
};

constexpr int kPanel = 16;                        // results of a panel: whole vectors of every machine
constexpr int64_t kHeldBytes = int64_t(3) << 17;  // of an image that a block reads: part of the second cache
constexpr int64_t kSummed = 512;                  // products that one register sums

// What a tile of results reads: from[starts[r] + taps[t]] is where channel 0 of a tap begins.
struct Places {
  const float* const* from;
  const int64_t *starts, *taps;
};

// sums[r, v] (+)= sum over taps and channels of image[r, t, c] * weights[v, t, c]; panels are `apart` elements apart.
template <int R, int V>
__attribute__((noinline)) void channels_tile(const Places& places, int64_t count, int64_t first, int64_t step,
                                             int64_t depth, const float* weights, int64_t tap, int64_t apart,
                                             float* sums, bool add) {
  F acc[R][V] = {};
  for (int64_t t = 0; t < count; ++t) {
    const float* x[R];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) x[r] = places.from[places.starts[r] + places.taps[t]] + first;
    const float* w = weights + t * tap;
    int64_t at = 0;
    for (int64_t k = 0; k < depth; ++k) {
      F y[V];
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) y[v] = load(w + v * W / kPanel * apart + v * W % kPanel, Full{});
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const F each = splat(x[r][at]);
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) acc[r][v] = fma(each, y[v], acc[r][v]);
      }
      w += kPanel;
      at += step;
#if defined(__GNUC__)
      asm("" : "+r"(at));  // one counter for all rows: there are no registers for a pointer each
#endif
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      float* to = sums + (r * V + v) * W;
      store(to, add ? load(to, Full{}) + acc[r][v] : acc[r][v], Full{});
    }
}

// The same with one filter a channel: lanes along the channels of the image too.
template <int R, int V, class Lanes>
__attribute__((noinline)) void filters_tile(const Places& places, int64_t count, int64_t first, const float* weights,
                                            int64_t tap, float* sums, Lanes lanes) {
  F acc[R][V] = {};
  for (int64_t t = 0; t < count; ++t, weights += tap) {
    const int64_t away = places.taps[t];
    F w[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) w[v] = load(weights + v * W, lanes);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const float* x = places.from[places.starts[r] + away] + first;
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) acc[r][v] = fma(load(x + v * W, lanes), w[v], acc[r][v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) store(sums + (r * V + v) * W, acc[r][v], Full{});
}

// Tiles of every height: the code around them is compiled once for a kernel, not once for a height.
constexpr int kTileResults = 6, kTileVectors = 2;
template <class Function, class Make, size_t... rows>
constexpr std::array<Function, sizeof...(rows)> tiles_of(Make make, std::index_sequence<rows...>) {
  return {make(std::integral_constant<int, rows + 1>{})...};
}
template <int V> constexpr auto kChannelTiles = tiles_of<decltype(&channels_tile<1, V>)>(
    [](auto rows) { return &channels_tile<rows.value, V>; }, std::make_index_sequence<kTileResults>());
template <int V, class Lanes> constexpr auto kFilterTiles = tiles_of<decltype(&filters_tile<1, V, Lanes>)>(
    [](auto rows) { return &filters_tile<rows.value, V, Lanes>; }, std::make_index_sequence<kTileResults>());

// The results that a task computes at once, and the table of what they read.
struct ChannelBlocks {
  const Convolution& c;
  int64_t images = 1, size[3] = {1, 1, 1}, count[3];
  explicit ChannelBlocks(const Convolution& c) : c(c) {
    const int64_t line = c.strides[1] * c.extents[2] * c.items * c.channels * int64_t(sizeof(float));
    const int64_t lines = std::max<int64_t>(1, kHeldBytes / std::max<int64_t>(1, line));
    size[2] = c.sizes[2];
    size[1] = even(c.sizes[1], lines);
    if (size[1] == c.sizes[1]) {
      size[0] = even(c.sizes[0], std::max<int64_t>(1, lines / size[1]));
      if (size[0] == c.sizes[0]) images = even(c.images, std::max<int64_t>(1, lines / (size[0] * size[1])));
    }
    for (int d = 0; d < 3; ++d) count[d] = (c.sizes[d] + size[d] - 1) / size[d];
  }
  static int64_t even(int64_t all, int64_t most) {
    const int64_t parts = (all + most - 1) / most;
    return (all + parts - 1) / parts;
  }
  int64_t tasks() const { return (c.images + images - 1) / images * count[0] * count[1] * count[2]; }
};

struct Result {
  int64_t n, z, y, x;
};

// What one task needs to know of its block.
struct ChannelBlock {
  std::vector<const float*> from;
  std::vector<int64_t> starts, taps;
  std::vector<Result> results;

  void settle(const Convolution& c, const ChannelBlocks& b, const Located& image, const float* edge, int64_t task) {
    int64_t begin[3], end[3], span[3];
    for (int d = 2; d >= 0; --d) {
      begin[d] = task % b.count[d] * b.size[d];
      end[d] = std::min(c.sizes[d], begin[d] + b.size[d]);
      span[d] = (end[d] - begin[d] - 1) * c.strides[d] + (c.taps[d] - 1) * c.dilations[d] + 1;
      task /= b.count[d];
    }
    const int64_t n = task * b.images, last = std::min(c.images, n + b.images);
    const int64_t line = span[2], slice = line * span[1], whole = slice * span[0];
    taps.clear(), starts.clear(), results.clear();
    for (int64_t u = 0; u < c.taps[0]; ++u)
      for (int64_t v = 0; v < c.taps[1]; ++v)
        for (int64_t w = 0; w < c.taps[2]; ++w)
          taps.push_back(u * c.dilations[0] * slice + v * c.dilations[1] * line + w * c.dilations[2]);
    from.resize((last - n) * whole);
    const float** to = from.data();
    const auto first = [&](int d) { return begin[d] * c.strides[d] - c.low[d]; };
    for (int64_t i = n; i < last; ++i)
      for (int64_t z = first(0); z < first(0) + span[0]; ++z)
        for (int64_t y = first(1); y < first(1) + span[1]; ++y, to += line) {
          const bool inside = z >= 0 && z < c.extents[0] && y >= 0 && y < c.extents[1];
          const float* row = image.data + i * image.image + z * image.at[0] + y * image.at[1];
          const int64_t low = std::clamp<int64_t>(-first(2), 0, line);
          const int64_t high = inside ? std::clamp<int64_t>(c.extents[2] - first(2), low, line) : low;
          for (int64_t x = 0; x < low; ++x) to[x] = edge;
          for (int64_t x = low; x < high; ++x) to[x] = row + (first(2) + x) * image.at[2];
          for (int64_t x = high; x < line; ++x) to[x] = edge;
        }
    for (int64_t i = n; i < last; ++i)
      for (int64_t z = begin[0]; z < end[0]; ++z)
        for (int64_t y = begin[1]; y < end[1]; ++y)
          for (int64_t x = begin[2]; x < end[2]; ++x) {
            starts.push_back((i - n) * whole + (z - begin[0]) * c.strides[0] * slice +
                             (y - begin[1]) * c.strides[1] * line + (x - begin[2]) * c.strides[2]);
            results.push_back({i, z, y, x});
          }
  }
};

// One filter a channel where `alone`.
template <bool alone> struct ChannelConvolution {
  const Convolution& c;
  const Located& image;
  const float* weights;
  static constexpr int64_t wide = kTileVectors * W;  // results of a tile, side by side
  int64_t all() const { return alone ? c.items : c.rows; }
  int64_t tiles() const { return (all() + wide - 1) / wide; }

  // The sums of `count` results from `first` on, `width` of them side by side from `column` on.
  void sum(const ChannelBlock& block, int64_t first, int64_t count, int64_t item, int64_t column, int64_t width,
           float* sums) const {
    Places places{block.from.data(), block.starts.data() + first, block.taps.data()};
    const int64_t taps = static_cast<int64_t>(block.taps.size()), row = count - 1;
    if constexpr (alone) {
      const auto run = [&](const auto& tile, auto lanes) {
        tile[row](places, taps, column * image.item, weights + column, c.items, sums, lanes);
      };
      if (width == wide) return run(kFilterTiles<kTileVectors, Full>, Full{});
      if (width == W) return run(kFilterTiles<1, Full>, Full{});
      return run(kFilterTiles<1, Part>, Part{static_cast<int>(width)});
    }
    const int64_t tap = c.channels * kPanel, apart = taps * tap, panels = (c.rows + kPanel - 1) / kPanel;
    const float* panel = weights + (item * panels + column / kPanel) * apart + column % kPanel;
    const int64_t together = std::clamp<int64_t>(kSummed / std::max<int64_t>(1, c.channels), 1, taps);
    const int64_t depth = std::min(c.channels, kSummed);
    const auto tile = width > W ? kChannelTiles<kTileVectors>[row] : kChannelTiles<1>[row];
    for (int64_t t = 0; t < taps; t += together, places.taps += together)
      for (int64_t k = 0; k < c.channels; k += depth)
        tile(places, std::min(together, taps - t), item * image.item + k * image.channel, image.channel,
             std::min(depth, c.channels - k), panel + t * tap + k * kPanel, tap, apart, sums, t + k > 0);
  }

  // One tile of columns of a block, every result of it.
  template <class Finish>
  void columns(const ChannelBlock& block, int64_t item, int64_t column, int64_t width, Finish finish) const {
    const int64_t results = static_cast<int64_t>(block.starts.size());
    const int64_t high = (results + kTileResults - 1) / kTileResults, vectors = (width + W - 1) / W;
    alignas(64) float sums[kTileResults * wide];
    for (int64_t i = 0; i < high; ++i) {
      const int64_t first = results * i / high, end = results * (i + 1) / high;
      sum(block, first, end - first, item, column, width, sums);
      const float* from = sums;
      for (int64_t r = first; r < end; ++r)
        for (int64_t v = 0; v < vectors; ++v, from += W) {
          const Result& at = block.results[r];
          const int64_t here = column + v * W, left = width - v * W;
          const auto then = [&](auto lanes) KW_INLINED {
            finish(load(from, Full{}), alone ? here : item, alone ? 0 : here, at.n, at.z, at.y, at.x, lanes);
          };
          if (left >= W) then(Full{});
          else then(Part{static_cast<int>(left)});
        }
    }
  }

  template <class Finish> void tile(const ChannelBlock& block, int64_t item, int64_t j, Finish finish) const {
    const int64_t first = j * wide, width = std::min(wide, all() - first);
    if (!alone || width == wide || width <= W) return columns(block, item, first, width, finish);
    columns(block, item, first, W, finish);
    columns(block, item, first + W, width - W, finish);
  }
};

template <bool alone, class Finish>
void convolve_channels(const Convolution& c, const Located& image, const float* weights, Finish finish) {
  const int64_t results = c.images * c.sizes[0] * c.sizes[1] * c.sizes[2];
  if (c.items * c.rows * results == 0) return;
  const ChannelConvolution<alone> all{c, image, weights};
  const bool few = c.items * c.rows * results * c.channels * c.taps[0] * c.taps[1] * c.taps[2] < kSerialProducts;
  const int64_t threads = few || omp_in_parallel() ? 1 : omp_get_max_threads();
  const ChannelBlocks blocks(c);
  const int64_t items = alone ? 1 : c.items, tiles = all.tiles(), tasks = blocks.tasks() * items;
  const int64_t groups = threads > 1 ? std::clamp<int64_t>(4 * threads / tasks, 1, tiles) : 1;
  const int64_t held = image.channel * (c.items * c.channels - 1) + 1;
  const Temporary<float> edge(held);  // what the padding holds, as channels of an image lie
  for (int64_t k = 0; k < held; k += image.channel) edge.data[k] = c.outside;
#pragma omp parallel num_threads(threads)
  {
    ChannelBlock block;
#pragma omp for schedule(dynamic, 1)
    for (int64_t i = 0; i < tasks * groups; ++i) {
      const int64_t group = i % groups, item = i / groups % items;
      block.settle(c, blocks, image, edge.data, i / groups / items);
      for (int64_t j = tiles * group / groups; j < tiles * (group + 1) / groups; ++j) all.tile(block, item, j, finish);
    }
  }
}

}  // namespace kw
