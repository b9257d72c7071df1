// A convolution as it is defined: lanes along a row of results, weights from memory to all lanes, sums in registers.
//   results[g, o, n, z, y, x] = finish(sum over c, u of weights[g, o, c, u] * image[g, c, n, stride * (z, y, x) + step * u])
// A task is a block of neighbouring results of every channel. It copies what they read into its second cache, padding
// included, each phase of the stride a plane of its own: from there on a tap of the window is a distance between
// addresses, whatever the stride, the dilation and the number of dimensions, and every load is of neighbours. Where rows
// are no whole vectors, vectors run through the copied plane, and the few results between rows are left out.
// Where many results of a pixel read the same, a tile of pixels is packed, some channels at a time, and stays in the first
// cache for all of them, while weights come by.
// Weights lie in panels, [groups][phases][results / panel][channels][taps][panel].
#pragma once
#include <limits>
#include <vector>

#include "blocks.h"

namespace kw {

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
  Temporary<float> copy, sums, packed;
  const std::vector<int64_t> starts;
  std::vector<int64_t> columns;  // of a row of the image in the copy
  std::vector<Tap> taps[T::phases];
  Convolving(const Blocks<T>& b, const TapRange* ranges, int64_t panels);
  // The sums of one panel, in `sums`.
  void multiply(const float* weights, int phase);
  // The sums of some panels, of the channels k to end that were copied.
  void multiply_packed(const float* weights, int64_t panels, int64_t k, int64_t end);
  // The sums of one channel of results whose rows share what they load; a tile's rows of those.
  void share(const float* weights);
  void share_rows(const float* image, const float* weights, float* to, bool add) const;

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
      int64_t x = from;
      for (; x + 2 * W <= to; x += 2 * W) {
        const F low = get(x, Full{}), high = get(x + W, Full{});
        store(row + columns[x], shuffle(low, high, iota() * 2), Full{});
        store(row + columns[x + 1], shuffle(low, high, iota() * 2 + 1), Full{});
      }
      if (x < to) {
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

  // Channels `from` to `to` of what a block reads. near: the stride is known to be one.
  template <bool near, class Image> void copy_image(Image image, const Block& at, int64_t from, int64_t to) {
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
    // What is copied next is asked for: channels lie far apart, and the machine's own prefetching begins anew at each.
    const auto ask = [&](int64_t k, int64_t i, int64_t z, int64_t y) KW_INLINED {
      if (k < c.channels && within(0, z) && within(1, y))
        for (int64_t x = left; x < right; x += kLineFloats)
          image(at.item, k, at.n + i, z, y, first[2] + x, Ahead{});
    };
    for (int64_t k = from; k < to; ++k)
      for (int64_t i = 0; i < images; ++i)
        for (int64_t z = 0; z < last[0]; ++z) {
          float* const lines = copy.data + b.lead() + (k - from) * b.channel + i * b.image + z * b.slice;
          const int64_t zz = first[0] + z;
          if (near || (c.strides[1] == 1 && c.strides[2] == 1)) {
            for (int64_t line = 0; line < last[1]; ++line) ask(k + 1, i, zz, first[1] + line);
            copy_lines(c, image, at, k, at.n + i, zz, 0, last[1], b.phase[1], lines);
            continue;
          }
          if constexpr (!near)
            for (int64_t line = 0; line < last[1]; ++line) {
              ask(k + 1, i, zz, first[1] + line);
              const int64_t yy = first[1] + line, stop = within(0, zz) && within(1, yy) ? right : left;
              copy_row([&](int64_t x, auto lanes)
                           KW_INLINED { return image(at.item, k, at.n + i, zz, yy, first[2] + x, lanes); },
                       last[2], left, stop, lines + b.line(line));
            }
        }
  }

  // The sums of all rows of some panels, in `sums`. Some channels at a time are copied; what a tile of pixels reads of them is
  // packed and stays in the first cache for every row, their weights in the second one for every tile.
  template <bool near, class Image> void multiply_all(Image image, const Block& at, const float* weights, int64_t panels) {
    const int64_t all = b.c.channels, parts = (all + b.depth - 1) / b.depth;
    for (int64_t part = 0; part < parts; ++part) {
      const int64_t k = all * part / parts, end = all * (part + 1) / parts;
      copy_image<near>(image, at, k, end);
      multiply_packed(weights, panels, k, end);
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

  template <class Finish>
  void finish_panel(Finish finish, const Block& at, int64_t m, int64_t rows, const float* sums) const {
    const int64_t images = std::min(b.images, b.c.images - at.n), each = b.each() * W;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t i = 0; i < images; ++i)
        for (int64_t z = at.from[0]; z < at.to[0]; ++z) {
          const float* slice = sums + (r * b.images * b.size[0] + i * b.size[0] + z - at.from[0]) * each;
          finish_lines(finish, at, m + r, at.n + i, z, 0, at.to[1] - at.from[1], b.row, slice);
        }
  }
};

// What depends on no kernel, out of the class: what is defined within is compiled wherever it could be inlined.
template <class T>
Convolving<T>::Convolving(const Blocks<T>& b, const TapRange* ranges, int64_t panels)
    : b(b), ranges(ranges), copy(b.depth * b.channel + W * (T::vectors + 1)),
      sums((T::packs ? panels : 1) * T::panel * b.vectors * W), packed(T::packs ? b.depth * b.packed() : 0),
      starts(b.starts()) {
  for (int p = 0; p < T::phases; ++p) taps[p] = b.taps(ranges[p]);
  for (int64_t x = 0; x < b.span[2]; ++x) columns.push_back(b.column(x));
  std::fill_n(copy.data, b.depth * b.channel + W * (T::vectors + 1), 0.0f);
}

template <class T> void Convolving<T>::multiply(const float* weights, int phase) {
  if constexpr (T::shares) return share(weights);
  if constexpr (!T::packs && !T::shares) {
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
}

template <class T> void Convolving<T>::multiply_packed(const float* weights, int64_t panels, int64_t k, int64_t end) {
  if constexpr (T::packs) {
    const int64_t count = static_cast<int64_t>(taps[0].size()), row = b.vectors * W, depth = (end - k) * count;
    const int64_t tiles = (b.vectors + T::vectors - 1) / T::vectors;
    for (int64_t i = 0; i < tiles; ++i) {
      const int64_t first = b.vectors * i / tiles, vectors = b.vectors * (i + 1) / tiles - first;
      pack_vectors<T::vectors>(vectors, copy.data, starts.data() + first, b.channel, taps[0].data(), count, end - k, packed.data);
      for (int64_t j = 0; j < panels; ++j) {
        const float* w = weights + (j * b.c.channels + k) * count * T::panel;
        float* to = sums.data + j * T::panel * row + first * W;
        const auto rows = [&](auto count_rows, int64_t r) KW_INLINED {
          packed_vectors<T::panel, count_rows.value, T::vectors>(vectors, packed.data, depth, w + r, to + r * row, row, k != 0);
        };
        int64_t r = 0;
        for (; r + T::rows <= T::panel; r += T::rows) rows(std::integral_constant<int, T::rows>{}, r);
        if constexpr (T::panel % T::rows != 0) rows(std::integral_constant<int, T::panel % T::rows>{}, r);
      }
    }
  }
}

template <class T> void Convolving<T>::share(const float* weights) {
  if constexpr (T::shares) {
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
}

template <class T>
void Convolving<T>::share_rows(const float* image, const float* weights, float* to, bool add) const {
  if constexpr (T::shares) {
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
}

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
template <class T, bool near = false, class Left, class Image, class Finish>
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
    Convolving<T> task(blocks, ranges, (all + groups - 1) / groups);
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
      if constexpr (!T::packs) task.template copy_image<near>(image, at, 0, c.channels);
      const int64_t first = all * (i % groups) / groups, last = all * (i % groups + 1) / groups;
      if constexpr (T::packs)
        task.template multiply_all<near>(image, at, weights + (at.item * all + first) * inner * T::panel, last - first);
      for (int64_t j = first; j < last; ++j) {
        if constexpr (!T::packs)
          task.multiply(weights + (at.item * all + j) * inner * T::panel, static_cast<int>(j / panels));
        const int64_t place = T::packs ? (j - first) * T::panel * blocks.vectors * W : 0;
        task.finish_panel(finish, at, first_row(j), rows_of(j), task.sums.data + place);
      }
    }
  }
}

}  // namespace kw
