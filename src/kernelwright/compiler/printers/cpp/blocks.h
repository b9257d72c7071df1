// How a direct convolution (`convolution.h`) is cut: into blocks of neighbouring results, and where a block's copy of the
// image has what they read.
#pragma once
#include <vector>

#include "pixels.h"

namespace kw {

constexpr int64_t kSumElements = 4096;             // of a panel and a block of results: half the first cache
constexpr int64_t kImageBytes = int64_t(3) << 17;  // of an image that a block copies: part of the second cache
constexpr int64_t kLongChain = 512;                // products that one register sums
constexpr int64_t kPackedBytes = int64_t(1) << 14;   // of what a tile's results read, packed: half the first cache
constexpr int64_t kAllSums = 1 << 16;                // sums of every row that wait for the next channels: part of the second cache

// rows: of a panel. phases: ranges of taps; rows are in their order. down, across: taps of a window whose rows of results
// share what they load; its panel is one row, its image lies as it is. packs: what a tile reads is packed for all rows.
template <int rows_, int phases_, int down_ = 0, int across_ = 0, bool packs_ = false> struct Direct {
  static constexpr int panel = rows_, phases = phases_;
  static constexpr int most = kVectorRegisters > 16 ? 8 : 4;  // rows of a tile
  static constexpr int rows = panel < most ? panel : most;
  static constexpr int fits = (kVectorRegisters - 1) / (rows + 1);
  static constexpr int vectors = fits > 8 ? 8 : fits;
  static constexpr int down = down_, across = across_;
  static constexpr bool shares = down > 0, packs = packs_ && kVectorRegisters == 16;  // with 32 it was not measured
  static constexpr int wide = kVectorRegisters > 16 ? 4 : 2;  // vectors of a tile of shared rows
};
constexpr int kShared = 4, kSharedNarrow = 7;  // rows of such a tile: more of them where rows are short

// What a block of results is, and where a task's copy of the image has it.
template <class T> struct Blocks {
  const Convolution& c;
  int64_t images, size[3];         // results of a block
  int64_t span[3], phase[2];       // elements of the image that they read; rows and columns of a phase of the stride
  int64_t slice, image, channel;   // elements from one to the next in the copy
  int64_t row, vectors;            // elements from one row of sums to the next; vectors of a panel's row
  bool flat;                       // vectors run through rows
  int64_t depth;                   // channels that are copied at once

  explicit Blocks(const Convolution& c, int64_t threads);

  // Elements of a channel that are packed for a tile.
  int64_t packed() const { return c.taps[0] * c.taps[1] * c.taps[2] * T::vectors * W; }
  int64_t bytes() const { return depth * channel * int64_t(sizeof(float)); }
  int64_t tasks() const;
  void settle();
  // Rows of a tile that share what they load, and of a slice in whole tiles.
  int64_t tall() const { return !T::shares ? 1 : row / W < T::wide - 1 ? kSharedNarrow : kShared; }
  int64_t high() const { return (size[1] + tall() - 1) / tall() * tall(); }
  // Whether an image is copied, convolved and finished a few rows at a time.
  static bool rolls(const Convolution& c) { return T::shares && c.channels == 1 && c.taps[0] == 1; }
  // Elements before the first of a copy, so that the image's own first one lies at the beginning of a vector.
  int64_t lead() const { return T::shares ? (W - c.low[2] % W) % W : 0; }
  // Vectors of one slice.
  int64_t each() const {
    return flat ? (row * (size[1] - 1) + size[2] + W - 1) / W : high() * (row / W);
  }
  // The place of a row of the image in the copy of a slice; of a column in that row.
  int64_t line(int64_t y) const {
    return (y % c.strides[1] * c.strides[2] * phase[0] + y / c.strides[1]) * phase[1];
  }
  int64_t column(int64_t x) const { return x % c.strides[2] * phase[0] * phase[1] + x / c.strides[2]; }

  std::vector<Tap> taps(const TapRange& range) const;
  std::vector<int64_t> starts() const;
};

// Out of the class: what is defined within is compiled wherever it could be inlined.
template <class T>
Blocks<T>::Blocks(const Convolution& c, int64_t threads)
    : c(c), images(1), size{1, 1, c.sizes[2]}, depth(c.channels) {
  if (T::packs) depth = std::clamp<int64_t>(kPackedBytes / int64_t(sizeof(float)) / packed(), 1, depth);
  const int64_t held = std::max<int64_t>(T::packs ? kAllSums / c.rows : kSumElements / T::panel, W * T::vectors);
  size[2] = std::min(c.sizes[2], T::shares ? held / (2 * kSharedNarrow) / W * W : held);
  settle();
  for (int d = 1; d >= -1; --d) {  // rows, then slices, then images, while what a block holds fits the caches
    if (d < 1 && (rolls(c) || (d < 0 ? size[0] < c.sizes[0] : size[1] < c.sizes[1]))) break;
    int64_t& here = d < 0 ? images : size[d];
    const int64_t all = d < 0 ? c.images : c.sizes[d];
    while (here < all) {
      ++here;
      settle();
      if (vectors * W <= held && bytes() <= kImageBytes && (threads == 1 || tasks() >= 4 * threads)) continue;
      --here;
      break;
    }
    const int64_t blocks = (all + here - 1) / here;
    here = (all + blocks - 1) / blocks;  // as large as each other
  }
  settle();
}

template <class T> int64_t Blocks<T>::tasks() const {
  int64_t count = c.items * ((c.images + images - 1) / images);
  for (int d = 0; d < 3; ++d) count *= (c.sizes[d] + size[d] - 1) / size[d];
  return count;
}

template <class T> void Blocks<T>::settle() {
  for (int d = 0; d < 3; ++d) span[d] = (size[d] - 1) * c.strides[d] + (c.taps[d] - 1) * c.dilations[d] + 1;
  const int64_t whole = (size[2] + W - 1) / W * W;
  row = whole;
  for (int d = 0; d < 2; ++d) phase[d] = (span[d + 1] + c.strides[d + 1] - 1) / c.strides[d + 1];
  phase[0] += high() - size[1];
  if (T::shares) phase[1] = (phase[1] + W - 1) / W * W;
  slice = phase[0] * phase[1] * c.strides[1] * c.strides[2];
  image = slice * span[0];
  channel = (image * images + 15) / 16 * 16 + 16;
  if (channel % 1024 == 0) channel += 16;
  flat = !T::shares && size[2] == c.sizes[2] && size[1] > 1 &&
         phase[1] * (size[1] - 1) + size[2] < whole * size[1] - W;
  if (flat) row = phase[1];
  vectors = images * size[0] * each();
}

template <class T> std::vector<Tap> Blocks<T>::taps(const TapRange& range) const {
  std::vector<Tap> found;
  for (int64_t u = range.begin[0]; u < range.end[0]; ++u)
    for (int64_t v = range.begin[1]; v < range.end[1]; ++v)
      for (int64_t w = range.begin[2]; w < range.end[2]; ++w)
        found.push_back({u * c.dilations[0] * slice + line(v * c.dilations[1]) + column(w * c.dilations[2]),
                         ((u * c.taps[1] + v) * c.taps[2] + w) * T::panel});
  return found;
}

template <class T> std::vector<int64_t> Blocks<T>::starts() const {
  std::vector<int64_t> found;
  for (int64_t n = 0; n < images; ++n)
    for (int64_t z = 0; z < size[0]; ++z) {
      const int64_t base = n * image + z * c.strides[0] * slice;
      for (int64_t v = 0; v < each(); ++v)
        found.push_back(base + (flat ? v * W : v / (row / W) * phase[1] + v % (row / W) * W));
    }
  return found;
}

// The results that a task computes: of a group, from an image on.
struct Block {
  int64_t item, n, from[3], to[3];
};

}  // namespace kw
