// Gradients of attention by q, k and v, from scores that are made again tile by tile.
//
// A task is an item and a group of heads: for a block of keys, the rows of each head of the group in turn. Scores are made
// transposed, keys by rows, so that what is known of rows lies along lanes and the products that follow read the weights
// and their gradients as they are: dv += p' do, dk += ds' q. Only ds' is transposed, for dq += ds k.
// Source: Dao, FlashAttention-2 (2023), algorithm 2.
#pragma once
#include "flash.h"

namespace kw {

template <class T, bool plain> struct FlashGradient {
  static constexpr int R = kTileRows;
  static constexpr int64_t kRows = 4 * kPanel;           // of queries at a time
  static constexpr int64_t kRowsApart = kRows + W;
  static constexpr int64_t kMost = 8 * kPanel;           // keys of a block
  static constexpr int64_t kKeysApart = kMost + W;
  using A = Multiplied<T>;  // as in `Flash`
  static constexpr bool kNarrow = !std::is_same_v<A, float>;

  const FlashShape& s;
  Heads<const T> q, k, v, out, gradient;
  const float *lse, *lse_gradient;
  RowRanges ranges;
  Scoring scoring;
  float scale;
  float *dq, *dk, *dv;

  int64_t block_keys() const {
    return std::clamp<int64_t>(kBlockFloats / 2 / std::max(s.depth(), s.width()) / kPanel, 1, kMost / kPanel) * kPanel;
  }

  struct Room {
    int64_t depth, width;
    Temporary<A> k, v, q, g, q_panels, g_panels, turned, narrow_weights, narrow_scores;
    Temporary<float> dk, dv, dq, weights, scores;
    alignas(64) float lse[kRows], level[kRows];
    alignas(64) uint32_t bits[kMost / kPanel][kRows];
    uint32_t any[kMost / kPanel], every[kMost / kPanel];
    bool strict = false;
    Room(const FlashShape& s, int64_t block)
        : depth(s.depth()), width(s.width()), k(block * depth), v(block * width), q(kRows * depth), g(kRows * width),
          q_panels(kRows * depth), g_panels(kRows * width), turned(kRows * kKeysApart),
          narrow_weights(kNarrow ? block * kRowsApart : 0), narrow_scores(kNarrow ? block * kRowsApart : 0),
          dk(block * depth), dv(block * width), dq(s.each() * s.rows * depth), weights(block * kRowsApart),
          scores(block * kRowsApart) {}
  };

  // c[rows, columns] += a b, b's rows `columns` apart.
  static void multiply(int64_t rows, const A* a, int64_t a_row, const A* b, int64_t columns, int64_t depth, float* c) {
    const int64_t high = (rows + R - 1) / R, each = rows / high, more = rows % high;
    for (int64_t i = 0; i < high; ++i) {
      const int64_t row = i * each + std::min(i, more), count = each + (i < more);
      int64_t e = 0;
      for (; e + kPanel <= columns; e += kPanel)
        packed_rows<R, 2>(count, a + row * a_row, a_row, b + e, columns, W, depth, c + row * columns + e, columns, true, Full{});
      if (e < columns)
        packed_rows<R, 1>(count, a + row * a_row, a_row, b + e, columns, W, depth, c + row * columns + e, columns, true, Full{});
    }
  }
  // c[keys, rows] = a b, b in panels of rows.
  static void against_panels(int64_t keys, const A* a, int64_t depth, const A* b, int64_t rows, float* c) {
    const int64_t high = (keys + R - 1) / R, each = keys / high, more = keys % high;
    for (int64_t p = 0; p * kPanel < rows; ++p)
      for (int64_t i = 0; i < high; ++i) {
        const int64_t row = i * each + std::min(i, more);
        packed_rows<R, 2>(each + (i < more), a + row * depth, depth, b + p * kPanel * depth, kPanel, W, depth,
                          c + row * kRowsApart + p * kPanel, kRowsApart, false, Full{});
      }
  }

  // Rows i to i + count of a head: as they are, transposed, and what is subtracted from scores and from weights' gradients.
  void read_rows(Room& room, int64_t b, int64_t h, int64_t i, int64_t count) const {
    const int64_t whole = (count + kPanel - 1) / kPanel * kPanel;
    for (int64_t r = 0; r < whole; ++r) {
      if (r >= count) {
        std::fill_n(room.q.data + r * room.depth, room.depth, A(0.0f));
        std::fill_n(room.g.data + r * room.width, room.width, A(0.0f));
        room.lse[r] = kInf, room.level[r] = 0.0f;
        continue;
      }
      const T *g = gradient.at(b, h, i + r), *o = out.at(b, h, i + r);
      copy_row(q.at(b, h, i + r), s.inner, 1.0f, room.q.data + r * room.depth);
      copy_row(g, s.columns, 1.0f, room.g.data + r * room.width);
      F sum{};
      over_lanes(s.columns, [&](int64_t e, auto lanes) KW_INLINED { sum = fma(load(g + e, lanes), load(o + e, lanes), sum); });
      const int64_t at = (b * s.heads + h) * s.rows + i + r;
      const bool dead = lse[at] == -kInf;
      room.lse[r] = dead ? kInf : lse[at] * kLog2E;  // a row without keys has no weights
      room.level[r] = fold_lanes(sum, [](F x, F y) { return x + y; })[0] - (lse_gradient && !dead ? lse_gradient[at] : 0.0f);
    }
    for (int64_t p = 0; p < whole; p += kPanel) {
      pack_transposed(room.q.data + p * room.depth, room.depth, kPanel, room.depth, kNarrow ? 1.0f : scoring.factor,
                      room.q_panels.data + p * room.depth);
      pack_transposed(room.g.data + p * room.width, room.width, kPanel, room.width, 1.0f, room.g_panels.data + p * room.width);
    }
  }

  // Bits of rows for keys first to first + count; whether any row, and every row, sees each panel.
  void find_bits(Room& room, int64_t b, int64_t h, int64_t i, int64_t rows, int64_t first, int64_t count) const {
    const int32_t all_keys[2] = {0, static_cast<int32_t>(s.keys)};
    for (int64_t r = 0; r < rows; ++r) {
      const int32_t* given = ranges.data ? ranges.of(b, h, i + r) : all_keys;
      row_bits(given, ranges.data ? ranges.many : 1, first, count, &room.bits[0][r], kRows);
    }
    for (int64_t p = 0; p * kPanel < count; ++p) {
      uint32_t any = 0, every = kEveryKey;
      for (int64_t r = 0; r < rows; ++r) any |= room.bits[p][r], every &= room.bits[p][r];
      for (int64_t r = rows; r < (rows + W - 1) / W * W; ++r) room.bits[p][r] = 0;
      room.any[p] = any, room.every[p] = every;
    }
  }

  // Scores of keys become weights, and gradients of weights become gradients of scores.
  void weigh(Room& room, int64_t h, int64_t i, int64_t rows, int64_t first, int64_t begin, int64_t end) const {
    const float slope = scoring.slope(h);
    for (int64_t n = begin; n < end; ++n) {
      const int64_t p = n / kPanel;
      const bool masked = room.every[p] != kEveryKey;
      for (int64_t r = 0; r < (rows + W - 1) / W * W; r += W) {
        float *weight = room.weights.data + n * kRowsApart + r, *score = room.scores.data + n * kRowsApart + r;
        F x = load(weight, Full{}), slack = splat(1.0f);
        if constexpr (kNarrow) x *= scoring.factor;
        if constexpr (!plain) {
          if (scoring.cap != 0.0f) {
            const F t = tanh(x);
            x = scoring.cap * t, slack = 1.0f - t * t;
          }
          // The distance of row i + r + lane from key n, both ways alike.
          x = scoring.biased(x, slope, first + n, i + r + scoring.offset);
        }
        F w = exp2_of_negative(x - load(room.lse + r, Full{}));
        F ds = w * (load(score, Full{}) - load(room.level + r, Full{})) * slack;
        if (masked) {
          M seen;
          std::memcpy(&seen, room.bits[p] + r, sizeof seen);
          seen = (seen & static_cast<int32_t>(uint32_t(1) << (n % kPanel))) != 0;
          w = select(seen, w, F{}), ds = select(seen, ds, F{});
        }
        if constexpr (kNarrow) {
          store(room.narrow_weights.data + n * kRowsApart + r, w, Full{});
          store(room.narrow_scores.data + n * kRowsApart + r, ds, Full{});
        } else {
          store(weight, w, Full{});
        }
        store(score, ds, Full{});
      }
    }
  }

  // [keys][rows] to [rows][keys], whole vectors of both.
  static void turn(const float* from, int64_t keys, int64_t rows, A* to) {
    for (int64_t n = 0; n < keys; n += W)
      for (int64_t r = 0; r < rows; r += W) {
        F block[W];
#pragma GCC unroll 16
        for (int j = 0; j < W; ++j) block[j] = n + j < keys ? load(from + (n + j) * kRowsApart + r, Full{}) : F{};
        transpose_lanes(block);
#pragma GCC unroll 16
        for (int j = 0; j < W; ++j) store(to + (r + j) * kKeysApart + n, block[j], Full{});
      }
  }

  // The last three products, over the pairs alone that are seen: what is hidden may be infinite or NaN.
  void seen_products(Room& room, int64_t rows, int64_t begin, int64_t end, int64_t row) const {
    const auto add = [](float by, const A* from, int64_t count, float* to) KW_INLINED {
      for (int64_t d = 0; d < count; ++d) to[d] += by * to_scalar(from[d]);
    };
    for (int64_t n = begin; n < end; ++n)
      for (int64_t r = 0; r < rows; ++r) {
        if (!(room.bits[n / kPanel][r] >> (n % kPanel) & 1)) continue;
        const float slope = room.scores.data[n * kRowsApart + r];
        const float weight = kNarrow ? to_scalar(room.narrow_weights.data[n * kRowsApart + r]) : room.weights.data[n * kRowsApart + r];
        add(weight, room.g.data + r * room.width, room.width, room.dv.data + n * room.width);
        add(slope, room.q.data + r * room.depth, room.depth, room.dk.data + n * room.depth);
        add(slope, room.k.data + n * room.depth, room.depth, room.dq.data + (row + r) * room.depth);
      }
  }

  // Whether a number of an item that the mask may hide is none, which a product with a weight of zero would show.
  bool has_odd(int64_t b, int64_t g) const {
    bool finite = !ranges.data || all_finite(k, b, g, s.keys, s.inner);
    for (int64_t h = g * s.each(); ranges.data && h < (g + 1) * s.each(); ++h)
      finite = finite && all_finite(q, b, h, s.rows, s.inner) && all_finite(gradient, b, h, s.rows, s.columns);
    return !finite;
  }

  // Keys begin to end of a block, and some rows.
  void products(Room& room, int64_t h, int64_t i, int64_t rows, int64_t first, int64_t begin, int64_t end, int64_t row) const {
    const int64_t keys = end - begin;
    float *weights = room.weights.data + begin * kRowsApart, *scores = room.scores.data + begin * kRowsApart;
    const A* own = room.k.data + begin * room.depth;
    against_panels(keys, own, room.depth, room.q_panels.data, rows, weights);
    against_panels(keys, room.v.data + begin * room.width, room.width, room.g_panels.data, rows, scores);
    weigh(room, h, i, rows, first, begin, end);
    if (room.strict) return seen_products(room, rows, begin, end, row);
    const A *given = room.narrow_weights.data + begin * kRowsApart, *slopes = room.narrow_scores.data + begin * kRowsApart;
    if constexpr (!kNarrow) given = weights, slopes = scores;
    multiply(keys, given, kRowsApart, room.g.data, room.width, rows, room.dv.data + begin * room.width);
    multiply(keys, slopes, kRowsApart, room.q.data, room.depth, rows, room.dk.data + begin * room.depth);
    turn(scores, keys, rows, room.turned.data);
    multiply(rows, room.turned.data, kKeysApart, own, room.depth, keys, room.dq.data + row * room.depth);
  }

  void block(Room& room, int64_t b, int64_t g, int64_t first, int64_t count) const {
    for (int64_t n = 0; n < count; ++n) {
      copy_row(k.at(b, g, first + n), s.inner, 1.0f, room.k.data + n * room.depth);
      copy_row(v.at(b, g, first + n), s.columns, 1.0f, room.v.data + n * room.width);
    }
    std::fill_n(room.dk.data, count * room.depth, 0.0f);
    std::fill_n(room.dv.data, count * room.width, 0.0f);
    for (int64_t at = 0; at < s.each(); ++at)
      for (int64_t i = 0; i < s.rows; i += kRows) {
        const int64_t rows = std::min(kRows, s.rows - i), h = g * s.each() + at, panels = (count + kPanel - 1) / kPanel;
        find_bits(room, b, h, i, rows, first, count);
        bool read = false;
        for (int64_t p = 0; p < panels;) {
          while (p < panels && !room.any[p]) ++p;
          int64_t end = p;
          while (end < panels && room.any[end]) ++end;
          if (p < end) {
            if (!read) read_rows(room, b, h, i, rows);
            read = true;
            products(room, h, i, rows, first, p * kPanel, std::min(end * kPanel, count), at * s.rows + i);
          }
          p = end;
        }
      }
    const auto leave = [&](const float* from, int64_t apart, int64_t columns, float factor, float* to) {
      for (int64_t n = 0; n < count; ++n)
        over_lanes(columns, [&](int64_t d, auto lanes) KW_INLINED {
          store(to + ((b * s.groups + g) * s.keys + first + n) * columns + d, load(from + n * apart + d, Full{}) * factor, lanes);
        });
    };
    leave(room.dk.data, room.depth, s.inner, scale, dk);
    leave(room.dv.data, room.width, s.columns, 1.0f, dv);
  }

  void run() const {
    const int64_t items = s.batch * s.groups, block_of = block_keys();
    if (items == 0) return;
    const int64_t threads = omp_in_parallel() || items * s.each() * s.rows * s.keys < 4096 ? 1 : omp_get_max_threads();
#pragma omp parallel num_threads(threads)
    {
      Room room(s, block_of);
#pragma omp for schedule(dynamic, 1)
      for (int64_t item = 0; item < items; ++item) {
        const int64_t b = item / s.groups, g = item % s.groups, rows = s.each() * s.rows;
        std::fill_n(room.dq.data, rows * room.depth, 0.0f);
        room.strict = has_odd(b, g);
        for (int64_t first = 0; first < s.keys; first += block_of) block(room, b, g, first, std::min(block_of, s.keys - first));
        for (int64_t r = 0; r < rows; ++r)
          over_lanes(s.inner, [&](int64_t d, auto lanes) KW_INLINED {
            store(dq + (item * rows + r) * s.inner + d, load(room.dq.data + r * room.depth + d, Full{}) * scale, lanes);
          });
      }
    }
  }

  // The gradient of each head's sink, which has a share of the softmax and no value.
  void of_sinks(const float* sinks, float* to) const {
    for (int64_t h = 0; h < s.heads; ++h) {
      double sum = 0;
      for (int64_t b = 0; b < s.batch; ++b)
        for (int64_t i = 0; i < s.rows; ++i) {
          const int64_t at = (b * s.heads + h) * s.rows + i;
          const T *g = gradient.at(b, h, i), *o = out.at(b, h, i);
          double level = lse_gradient ? -double(lse_gradient[at]) : 0.0;
          for (int64_t e = 0; e < s.columns; ++e) level += double(to_scalar(g[e])) * to_scalar(o[e]);
          sum -= std::exp(double(sinks[h]) - lse[at]) * level;
        }
      to[h] = static_cast<float>(sum);
    }
  }
};

}  // namespace kw
