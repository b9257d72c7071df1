// A convolution as it is defined: lanes along a row of results, weights from memory to all lanes, sums in registers.
//   results[g, o, n, z, y, x] = finish(sum over c, u of weights[g, o, c, u] * image[g, c, n, stride * (z, y, x) + step * u])
// A task is a block of neighbouring results of every channel. It copies what they read into its second cache, padding
// included, each phase of the stride a plane of its own: from there on a tap of the window is a distance between
// addresses, whatever the stride, the dilation and the number of dimensions, and every load is of neighbours. Where rows
// are no whole vectors, vectors run through the copied plane, and the few results between rows are left out.
// Weights lie in panels, [groups][phases][results / panel][channels][taps][panel].
#pragma once
#include <limits>
#include <vector>

#include "pixels.h"

namespace kw {

constexpr int64_t kSumElements = 4096;             // of a panel and a block of results: half the first cache
constexpr int64_t kImageBytes = int64_t(3) << 17;  // of an image that a block copies: part of the second cache
constexpr int64_t kLongChain = 512;                // products that one register sums

// rows: of a panel. phases: ranges of taps; rows are in their order. down, across: taps of a window whose rows of results
// share what they load; its panel is one row, its image lies as it is.
template <int rows_, int phases_, int down_ = 0, int across_ = 0> struct Direct {
  static constexpr int panel = rows_, phases = phases_;
  static constexpr int most = kVectorRegisters > 16 ? 8 : 4;  // rows of a tile
  static constexpr int rows = panel < most ? panel : most;
  static constexpr int fits = (kVectorRegisters - 1) / (rows + 1);
  static constexpr int vectors = fits > 8 ? 8 : fits;
  static constexpr int down = down_, across = across_;
  static constexpr bool shares = down > 0;
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

  explicit Blocks(const Convolution& c, int64_t threads) : c(c), images(1), size{1, 1, c.sizes[2]} {
    const int64_t held = std::max<int64_t>(kSumElements / T::panel, W * T::vectors);
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

  int64_t bytes() const { return c.channels * channel * int64_t(sizeof(float)); }
  int64_t tasks() const {
    int64_t count = c.items * ((c.images + images - 1) / images);
    for (int d = 0; d < 3; ++d) count *= (c.sizes[d] + size[d] - 1) / size[d];
    return count;
  }

  void settle() {
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

  std::vector<Tap> taps(const TapRange& range) const {
    std::vector<Tap> found;
    for (int64_t u = range.begin[0]; u < range.end[0]; ++u)
      for (int64_t v = range.begin[1]; v < range.end[1]; ++v)
        for (int64_t w = range.begin[2]; w < range.end[2]; ++w)
          found.push_back({u * c.dilations[0] * slice + line(v * c.dilations[1]) + column(w * c.dilations[2]),
                           ((u * c.taps[1] + v) * c.taps[2] + w) * T::panel});
    return found;
  }
  std::vector<int64_t> starts() const {
    std::vector<int64_t> found;
    for (int64_t n = 0; n < images; ++n)
      for (int64_t z = 0; z < size[0]; ++z) {
        const int64_t base = n * image + z * c.strides[0] * slice;
        for (int64_t v = 0; v < each(); ++v)
          found.push_back(base + (flat ? v * W : v / (row / W) * phase[1] + v % (row / W) * W));
      }
    return found;
  }
};

// The results that a task computes: of a group, from an image on.
struct Block {
  int64_t item, n, from[3], to[3];
};

// Lines `y` to `end` of what a block's results read of a channel at stride one, in whole vectors, which reach into the next
// line as far as that is outside, and further where it is copied next. On its own, and with sizes in registers: stores of
// vectors may change anything in memory.
template <class Image>
__attribute__((noinline)) void copy_lines(const Convolution& c, Image image, const Block& at, int64_t channel, int64_t n,
                                          int64_t z, int64_t y, int64_t end, int64_t pitch, float* lines) {
  const int64_t item = at.item, top = at.from[1] - c.low[1], first = at.from[2] - c.low[2], height = c.extents[1];
  const int64_t count = at.to[2] - at.from[2] + (c.taps[2] - 1) * c.dilations[2];
  const int64_t left = std::clamp<int64_t>(-first, 0, count), reached = std::clamp(c.extents[2] - first, left, count);
  const int64_t whole = left + (reached - left) / W * W, stop = left + pitch;
  const bool within = z >= 0 && z < c.extents[0];
  const Part part{static_cast<int>(reached - whole)};
  const F outside = splat(c.outside);
  if (y == 0) std::fill_n(lines, left, c.outside);
  for (; y < end; ++y) {
    float* const line = lines + y * pitch;
    int64_t x = left;
    if (within && top + y >= 0 && top + y < height) {
      for (; x < whole; x += W) store(line + x, image(item, channel, n, z, top + y, first + x, Full{}), Full{});
      if (part.count) {
        const F v = image(item, channel, n, z, top + y, first + x, part);
        store(line + x, select(lanes_mask(part), v, outside), Full{}), x += W;
      }
    }
    for (; x < stop; x += W) store(line + x, outside, Full{});
  }
}

// Rows `y` to `end` of a block's results m, from their sums.
template <class Finish>
__attribute__((noinline)) void finish_lines(Finish finish, const Block& at, int64_t m, int64_t n, int64_t z, int64_t y,
                                            int64_t end, int64_t pitch, const float* sums) {
  const int64_t item = at.item, top = at.from[1], from = at.from[2];
  const int64_t width = at.to[2] - from, whole = width / W * W;
  const Part part{static_cast<int>(width - whole)};
  for (; y < end; ++y, sums += pitch) {
    for (int64_t x = 0; x < whole; x += W)
      finish(load(sums + x, Full{}), item, m, n, z, top + y, from + x, Full{});
    if (part.count) finish(load(sums + whole, part), item, m, n, z, top + y, from + whole, part);
  }
}

template <class T> struct Convolving {
  const Blocks<T>& b;
  const TapRange* ranges;
  Temporary<float> copy, sums;
  const std::vector<int64_t> starts;
  std::vector<int64_t> columns;  // of a row of the image in the copy
  std::vector<Tap> taps[T::phases];
  Convolving(const Blocks<T>& b, const TapRange* ranges)
      : b(b), ranges(ranges), copy(b.c.channels * b.channel + W * (T::vectors + 1)), sums(T::panel * b.vectors * W),
        starts(b.starts()) {
    for (int p = 0; p < T::phases; ++p) taps[p] = b.taps(ranges[p]);
    for (int64_t x = 0; x < b.span[2]; ++x) columns.push_back(b.column(x));
    std::fill_n(copy.data, b.c.channels * b.channel + W * (T::vectors + 1), 0.0f);
  }

  // Copies elements `from` to `to` of a row of the copy, 0 to `count`; get(x, lanes) reads them; fills the others.
  template <class Get> KW_INLINE void copy_row(Get get, int64_t count, int64_t from, int64_t to, float* row) const {
    for (int64_t x = 0; x < from; ++x) row[columns[x]] = b.c.outside;
    for (int64_t x = to; x < count; ++x) row[columns[x]] = b.c.outside;
    const auto part = [&](int64_t x, auto then) KW_INLINED {
      if (to - x >= W) then(Full{});
      else if (to > x) then(Part{static_cast<int>(to - x)});
    };
    if (b.c.strides[2] == 1) {
      for (int64_t x = from; x < to; x += W)
        part(x, [&](auto lanes) KW_INLINED { store(row + x, get(x, lanes), lanes); });
    } else if (b.c.strides[2] == 2) {
      for (int64_t x = from; x < to; x += 2 * W) {
        F two[2] = {};
        part(x, [&](auto lanes) KW_INLINED { two[0] = get(x, lanes); });
        part(x + W, [&](auto lanes) KW_INLINED { two[1] = get(x + W, lanes); });
        for (int odd = 0; odd < 2; ++odd) {
          const int64_t left = (to - x + 1 - odd) / 2;
          if (left <= 0) break;
          float* spot = row + columns[x + odd];
          const F every = shuffle(two[0], two[1], iota() * 2 + odd);
          if (left >= W) store(spot, every, Full{});
          else store(spot, every, Part{static_cast<int>(left)});
        }
      }
    } else {
      for (int64_t x = from; x < to; x += W)
        part(x, [&](auto lanes) KW_INLINED {
          const F v = get(x, lanes);
          for (int i = 0; i < lanes.count; ++i) row[columns[x + i]] = v[i];
        });
    }
  }

  template <class Image> void copy_image(Image image, const Block& at) {
    const Convolution& c = b.c;
    int64_t last[3], first[3];  // of what results read; where that begins within the image, padding before it
    for (int d = 0; d < 3; ++d) {
      last[d] = (at.to[d] - at.from[d] - 1) * c.strides[d] + (c.taps[d] - 1) * c.dilations[d] + 1;
      first[d] = at.from[d] * c.strides[d] - c.low[d];
    }
    const int64_t images = std::min(b.images, c.images - at.n);
    const int64_t left = std::clamp<int64_t>(-first[2], 0, last[2]);
    const int64_t right = std::clamp<int64_t>(c.extents[2] - first[2], left, last[2]);
    const auto within = [&](int d, int64_t i) KW_INLINED { return i >= 0 && i < c.extents[d]; };
    for (int64_t k = 0; k < c.channels; ++k)
      for (int64_t i = 0; i < images; ++i)
        for (int64_t z = 0; z < last[0]; ++z) {
          float* const lines = copy.data + b.lead() + k * b.channel + i * b.image + z * b.slice;
          const int64_t zz = first[0] + z;
          if (c.strides[1] == 1 && c.strides[2] == 1) {
            copy_lines(c, image, at, k, at.n + i, zz, 0, last[1], b.phase[1], lines);
            continue;
          }
          for (int64_t line = 0; line < last[1]; ++line) {
            const int64_t yy = first[1] + line, stop = within(0, zz) && within(1, yy) ? right : left;
            copy_row([&](int64_t x, auto lanes)
                         KW_INLINED { return image(at.item, k, at.n + i, zz, yy, first[2] + x, lanes); },
                     last[2], left, stop, lines + b.line(line));
          }
        }
  }

  // The sums of one panel, in `sums`.
  void multiply(const float* weights, int phase) {
    if constexpr (T::shares) return share(weights);
    const Convolution& c = b.c;
    const int64_t window = c.taps[0] * c.taps[1] * c.taps[2], count = static_cast<int64_t>(taps[phase].size());
    const int64_t chain = std::max<int64_t>(1, kLongChain / std::max<int64_t>(1, count));
    const int64_t tiles = (b.vectors + T::vectors - 1) / T::vectors;
    for (int64_t k = 0; k < c.channels; k += chain)
      for (int64_t i = 0; i < tiles; ++i) {
        const int64_t first = b.vectors * i / tiles, end = b.vectors * (i + 1) / tiles;
        const auto rows = [&](auto count_rows, int64_t r) KW_INLINED {
          pixel_vectors<count_rows.value, T::vectors>(
              end - first, copy.data + k * b.channel, starts.data() + first, b.channel, taps[phase].data(), count,
              std::min(chain, c.channels - k), weights + k * window * T::panel + r, window * T::panel,
              sums.data + r * b.vectors * W + first * W, b.vectors * W, k != 0);
        };
        int64_t r = 0;
        for (; r + T::rows <= T::panel; r += T::rows) rows(std::integral_constant<int, T::rows>{}, r);
        if constexpr (T::panel % T::rows != 0) rows(std::integral_constant<int, T::panel % T::rows>{}, r);
      }
  }

  // The sums of one channel of results whose rows share what they load.
  void share(const float* weights) {
    const Convolution& c = b.c;
    for (int64_t k = 0; k < c.channels; ++k)
      for (int64_t u = 0; u < c.taps[0]; ++u)
        for (int64_t n = 0; n < b.images; ++n)
          for (int64_t z = 0; z < b.size[0]; ++z) {
            const int64_t slice = z * c.strides[0] + u * c.dilations[0];
            const float* image = copy.data + b.lead() + k * b.channel + n * b.image + slice * b.slice;
            for (int64_t y = 0; y < b.size[1]; y += b.tall())
              share_rows(image + y * b.phase[1], weights + (k * c.taps[0] + u) * T::down * T::across,
                         sums.data + (n * b.size[0] + z) * b.each() * W + y * b.row, k + u > 0);
          }
  }
  // A tile's rows of those.
  void share_rows(const float* image, const float* weights, float* to, bool add) const {
    const int64_t wide = b.row / W, tiles = (wide + T::wide - 1) / T::wide;
    for (int64_t i = 0; i < tiles; ++i) {
      const int64_t first = wide * i / tiles, count = wide * (i + 1) / tiles - first;
      const auto tile = [&](auto rows, auto vectors) KW_INLINED {
        shared_tile<rows.value, vectors.value, T::down, T::across>(image + first * W, b.phase[1], weights, to + first * W,
                                                                   b.row, add);
      };
      constexpr std::integral_constant<int, kSharedNarrow> narrow{};
      constexpr std::integral_constant<int, kShared> rows{};
      if (wide < T::wide - 1) {
        if (count == 1) tile(narrow, std::integral_constant<int, 1>{});
        else if constexpr (T::wide > 3) tile(narrow, std::integral_constant<int, 2>{});
      } else if (count == T::wide) tile(rows, std::integral_constant<int, T::wide>{});
      else if (count == T::wide - 1) tile(rows, std::integral_constant<int, T::wide - 1>{});
      else if constexpr (T::wide > 3) tile(rows, std::integral_constant<int, T::wide - 2>{});
    }
  }
  // One channel of an image, a tile's rows at a time, the lines that they read copied a tile ahead: memory is read and
  // written while sums are under way, and no load waits for what was stored just before.
  template <class Image, class Finish> void roll(Image image, const float* weights, Finish finish, const Block& at) {
    const int64_t rows = at.to[1] - at.from[1], tall = b.tall(), pitch = b.phase[1];
    float* const lines = copy.data + b.lead();
    int64_t copied = 0;
    for (int64_t y = 0; y < rows; y += tall) {
      const int64_t ahead = std::min(rows + T::down - 1, y + 2 * tall + T::down - 1);
      copy_lines(b.c, image, at, 0, at.n, at.from[0] * b.c.strides[0] - b.c.low[0], copied, ahead, pitch, lines);
      copied = ahead;
      share_rows(lines + y * pitch, weights, sums.data, false);
      finish_lines(finish, at, 0, at.n, at.from[0], y, std::min(rows, y + tall), b.row, sums.data);
    }
  }

  template <class Finish> void finish_panel(Finish finish, const Block& at, int64_t m, int64_t rows) const {
    const int64_t images = std::min(b.images, b.c.images - at.n), each = b.each() * W;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t i = 0; i < images; ++i)
        for (int64_t z = at.from[0]; z < at.to[0]; ++z) {
          const float* slice = sums.data + (r * b.images * b.size[0] + i * b.size[0] + z - at.from[0]) * each;
          finish_lines(finish, at, m + r, at.n + i, z, 0, at.to[1] - at.from[1], b.row, slice);
        }
  }
};

// Weights of a panel as it lies: to[c][tap][r].
template <class T, class Left>
void lay_panel(const Convolution& c, Left left, int64_t item, int64_t m, int64_t rows, float* to) {
  const int64_t inner = c.channels * c.taps[0] * c.taps[1] * c.taps[2];
  for (int64_t r = 0; r < T::panel; ++r)
    for (int64_t k = 0; k < inner; k += W) {
      const int64_t count = std::min<int64_t>(W, inner - k);
      const F v = r < rows ? left(item, m + r, k, Part{static_cast<int>(count)}) : F{};
      for (int64_t i = 0; i < count; ++i) to[(k + i) * T::panel + r] = v[i];
    }
}

// Weights are given in panels, or as a function of the factor that they are.
template <class T, class Left, class Image, class Finish>
void convolve_directly(const Convolution& c, const TapRange (&ranges)[T::phases], Left left, Image image,
                       Finish finish) {
  if (c.items * c.rows * c.images * c.sizes[0] * c.sizes[1] * c.sizes[2] == 0) return;
  constexpr bool given = std::is_pointer_v<Left>;
  const int64_t inner = c.channels * c.taps[0] * c.taps[1] * c.taps[2], each = c.rows / T::phases;
  const int64_t panels = (each + T::panel - 1) / T::panel, all = panels * T::phases;
  const bool alone = c.items * c.rows * c.images * c.sizes[0] * c.sizes[1] * c.sizes[2] * inner < kSerialProducts;
  const int64_t threads = alone || omp_in_parallel() ? 1 : omp_get_max_threads();
  const Blocks<T> blocks(c, threads);
  const int64_t tasks = blocks.tasks(), groups = std::clamp<int64_t>(2 * threads / std::max<int64_t>(1, tasks), 1, all);
  const Temporary<float> own(given ? 0 : c.items * all * inner * T::panel);
  const auto first_row = [&](int64_t panel) { return panel / panels * each + panel % panels * T::panel; };
  const auto rows_of = [&](int64_t panel) { return std::min<int64_t>(T::panel, each - panel % panels * T::panel); };
#pragma omp parallel num_threads(threads)
  {
    const float* weights = own.data;
    if constexpr (given) weights = left;
    else {
#pragma omp for schedule(static)
      for (int64_t i = 0; i < c.items * all; ++i)
        lay_panel<T>(c, left, i / all, first_row(i % all), rows_of(i % all), own.data + i * inner * T::panel);
    }
    Convolving<T> task(blocks, ranges);
#pragma omp for schedule(dynamic, 1)
    for (int64_t i = 0; i < tasks * groups; ++i) {
      int64_t left_over = i / groups;
      Block at;
      for (int d = 2; d >= 0; --d) {
        const int64_t count = (c.sizes[d] + blocks.size[d] - 1) / blocks.size[d];
        at.from[d] = left_over % count * blocks.size[d];
        at.to[d] = std::min(c.sizes[d], at.from[d] + blocks.size[d]);
        left_over /= count;
      }
      const int64_t count = (c.images + blocks.images - 1) / blocks.images;
      at.n = left_over % count * blocks.images, at.item = left_over / count;
      if (Blocks<T>::rolls(c)) {
        task.roll(image, weights + at.item * inner, finish, at);
        continue;
      }
      task.copy_image(image, at);
      for (int64_t j = all * (i % groups) / groups; j < all * (i % groups + 1) / groups; ++j) {
        task.multiply(weights + (at.item * all + j) * inner * T::panel, static_cast<int>(j / panels));
        task.finish_panel(finish, at, first_row(j), rows_of(j));
      }
    }
  }
}

}  // namespace kw
