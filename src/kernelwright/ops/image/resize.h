// Resizing of a plane: weighted sums of rows, and of places of a row, in the order that touches fewer elements.
// Sums of rows run along vectors. A vector of results of a row reads places that lie close together: two loads and a
// shuffle for each tap, where they are within two vectors.
#pragma once
#include <utility>
#include <vector>

#include "stream_map.h"
#include "tiles.h"

namespace kw {

enum class Mode : int64_t { kNearest, kLinear, kCubic };

// Keys' cubic for x >= 0.
inline double cubic(double x, double a) {
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return ((x - 5) * x + 8) * x * a - 4 * a;
}

// Which places along an axis each result reads, and their weights: [taps][wide], results rounded up to whole vectors.
struct Axis {
  int64_t size, out, wide, taps = 1;
  std::vector<int32_t> places;
  std::vector<float> weights;

  Axis(int64_t size, int64_t out, Mode mode, bool antialias) : size(size), out(out), wide((out + W - 1) / W * W) {
    const double step = static_cast<double>(size) / static_cast<double>(std::max<int64_t>(out, 1));
    const double reach = mode == Mode::kLinear ? 1 : 2, grown = antialias ? std::max(step, 1.0) : 1.0, a = antialias ? -0.5 : -0.75;
    if (mode != Mode::kNearest) taps = static_cast<int64_t>(2 * reach * grown) + 2;
    places.resize(static_cast<size_t>(taps * wide)), weights.resize(places.size());
    int64_t most = 1;
    for (int64_t i = 0; i < out; ++i) {
      if (mode == Mode::kNearest) {
        set(0, i, i * size / out, 1.0f);
        continue;
      }
      const double middle = (static_cast<double>(i) + 0.5) * step;
      const int64_t first = static_cast<int64_t>(std::floor(middle - reach * grown + 0.5));
      double sum = 0;
      std::vector<std::pair<int64_t, double>> read;
      for (int64_t place = first; place < first + taps; ++place) {
        const double apart = std::abs((static_cast<double>(place) + 0.5 - middle) / grown);
        if (apart >= reach || (antialias && (place < 0 || place >= size))) continue;
        const double w = mode == Mode::kLinear ? 1 - apart : cubic(apart, a);
        read.emplace_back(std::clamp<int64_t>(place, 0, size - 1), w), sum += w;
      }
      const int64_t count = static_cast<int64_t>(read.size());
      most = std::max(most, count);
      for (int64_t t = 0; t < count; ++t)
        set(t, i, read[static_cast<size_t>(t)].first, static_cast<float>(read[static_cast<size_t>(t)].second / (antialias ? sum : 1)));
      for (int64_t t = count; t < taps; ++t) set(t, i, count ? read.back().first : 0, 0.0f);
    }
    taps = most;
    for (int64_t t = 0; t < taps && out; ++t)
      for (int64_t i = out; i < wide; ++i) set(t, i, place(t, out - 1), 0.0f);
  }
  void set(int64_t tap, int64_t i, int64_t place, float weight) {
    places[static_cast<size_t>(tap * wide + i)] = static_cast<int32_t>(place);
    weights[static_cast<size_t>(tap * wide + i)] = weight;
  }
  int64_t place(int64_t tap, int64_t i) const { return places[static_cast<size_t>(tap * wide + i)]; }
  float weight(int64_t tap, int64_t i) const { return weights[static_cast<size_t>(tap * wide + i)]; }
};

template <class T> struct Resized {
  const Axis &rows, &columns;
  const bool across_first;  // rows are more after, so those before are resized
  Temporary<float> room, held;
  std::vector<int64_t> slots;     // which row of the image lies in each of the held
  std::vector<int32_t> starts;    // of each tap and vector of results, the first place; -1 if they are further apart
  const int64_t stride;

  Resized(const Axis& rows, const Axis& columns)
      : rows(rows), columns(columns), across_first(rows.out >= rows.size), room(columns.size + 3 * W),
        held(across_first ? rows.taps * columns.wide : columns.wide), slots(static_cast<size_t>(rows.taps), -1),
        stride(columns.wide) {
    for (int64_t t = 0; t < columns.taps; ++t)
      for (int64_t x = 0; x < columns.wide; x += W) {
        int64_t low = columns.place(t, x), high = low;
        for (int64_t i = 1; i < W; ++i) low = std::min(low, columns.place(t, x + i)), high = std::max(high, columns.place(t, x + i));
        starts.push_back(high - low < 2 * W ? static_cast<int32_t>(low) : -1);
      }
    std::fill_n(room.data, columns.size + 3 * W, 0.0f);
  }

  // A vector of results, from the row in `room`.
  KW_INLINE F across(int64_t x) const {
    F sum{};
    for (int64_t t = 0; t < columns.taps; ++t) {
      const size_t at = static_cast<size_t>(t * columns.wide + x);
      M place;
      std::memcpy(&place, columns.places.data() + at, sizeof place);
      const int32_t start = starts[at / W];
      F read;
      if (start >= 0) {
        read = shuffle(load(room.data + start, Full{}), load(room.data + start + W, Full{}), place - start);
      } else {
        for (int i = 0; i < W; ++i) read[i] = room.data[place[i]];
      }
      const F weight = load(columns.weights.data() + at, Full{});
      read = (weight != 0.0f) ? read : F{};  // what does not count may be infinite
      sum = t ? fma(weight, read, sum) : weight * read;
    }
    return sum;
  }
  template <class Put> KW_INLINE void row_across(Put put) const {
    int64_t x = 0;
    for (; x + W <= columns.out; x += W) put(across(x), x, Full{});
    if (x < columns.out) put(across(x), x, Part{static_cast<int>(columns.out - x)});
  }
  // The sum of some rows, given by row(place), for row y of the results.
  template <class Row, class Put> KW_INLINE void down(int64_t y, int64_t count, Row row, Put put) const {
    sweep<2>(0, count, [&](int64_t x, auto lanes, int) KW_INLINED {
      F sum{};
      if (const float w = rows.weight(0, y); w != 0) sum = load(row(rows.place(0, y)) + x, lanes) * w;
      for (int64_t t = 1; t < rows.taps; ++t)
        if (const float w = rows.weight(t, y); w != 0) sum = fma(load(row(rows.place(t, y)) + x, lanes), splat(w), sum);
      put(sum, x, lanes);
    });
  }
  void plane(const T* from, T* to) {
    std::fill(slots.begin(), slots.end(), -1);
    for (int64_t y = 0; y < rows.out; ++y) {
      T* out = to + y * columns.out;
      if (!across_first) {
        down(y, columns.size, [&](int64_t place) KW_INLINED { return from + place * columns.size; },
             [&](F sum, int64_t x, auto lanes) KW_INLINED { store(room.data + x, sum, lanes); });
        row_across([&](F v, int64_t x, auto lanes) KW_INLINED { store(out + x, v, lanes); });
        continue;
      }
      for (int64_t t = 0; t < rows.taps; ++t) {
        const int64_t place = rows.place(t, y), slot = place % rows.taps;
        if (slots[static_cast<size_t>(slot)] == place) continue;
        slots[static_cast<size_t>(slot)] = place;
        sweep<1>(0, columns.size, [&](int64_t x, auto lanes, int) KW_INLINED {
          store(room.data + x, load(from + place * columns.size + x, lanes), lanes);
        });
        row_across([&](F v, int64_t x, auto) KW_INLINED { store(held.data + slot * stride + x, v, Full{}); });
      }
      down(y, columns.out, [&](int64_t place) KW_INLINED { return held.data + place % rows.taps * stride; },
           [&](F sum, int64_t x, auto lanes) KW_INLINED { store(out + x, sum, lanes); });
    }
  }
};

}  // namespace kw
