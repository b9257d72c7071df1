// out[b, h, i] = sum over keys j of softmax(score(q[b, h, i] . k[b, g, j])) * v[b, g, j], g being h's group: attention by
// tiles whose scores never leave the first cache, under a mask that is given as ranges of keys for each row.
//
// A task is a block of rows of the heads of one group, which share packed keys and values. For a tile of rows and a block
// of keys, a row's ranges become bits, a word for each panel of keys: a panel that no row of the tile sees is skipped, one
// that all see whole takes no mask work, and in the others bits select scores. Scores are in base 2: the factor of the
// query holds log2(e), and exponentials need no reduction but to a whole number.
// Source: Dao, FlashAttention-2 (2023), algorithm 1; Wang et al., FlashMask (2024) for masks as ranges.
#pragma once
#include "attention.h"

namespace kw {

constexpr float kLog2E = 1.44269504088896341f;
constexpr float kLn2 = 0.693147180559945309f;
constexpr int64_t kPanel = 2 * W;  // keys of a panel, and of a word of mask bits
constexpr uint32_t kEveryKey = kPanel == 32 ? ~uint32_t(0) : (uint32_t(1) << (kPanel % 32)) - 1;

// x where it is greater, else y: y where either is NaN, by one instruction.
KW_INLINE F greater_or(F x, F y) {
#if defined(__AVX512F__)
  return (F)_mm512_max_ps((__m512)x, (__m512)y);
#elif defined(__AVX2__)
  return (F)_mm256_max_ps((__m256)x, (__m256)y);
#else
  return (x > y) ? x : y;
#endif
}

// 2^x for x <= 0 and NaN; zero where it would be subnormal, so that no product meets a subnormal number. The polynomial
// is fitted to 2e-9 on [-1/2, 1/2].
KW_INLINE F exp2_of_negative(F x) {
  const auto power = [](F r, float times) KW_INLINED {
    F p = splat(times * 1.5353360601592201e-4f);
    p = fma(p, r, times * 1.3398874860175466e-3f);
    p = fma(p, r, times * 9.6184373664747261e-3f);
    p = fma(p, r, times * 5.5503324697146042e-2f);
    p = fma(p, r, times * 2.4022647913499171e-1f);
    p = fma(p, r, times * 6.9314720285595655e-1f);
    return fma(p, r, times);
  };
#if defined(__AVX512F__)
  const F n = rint(x);
  return (F)_mm512_maskz_scalef_ps(_mm512_cmp_ps_mask((__m512)x, _mm512_set1_ps(-126.0f), _CMP_NLT_UQ),
                                   (__m512)power(x - n, 1.0f), (__m512)n);
#else
  // Twice 2^r by half of 2^n. Next to 3 * 2^22 the last bit of a number is one, so its bits hold n, and as many more as make
  // n + 126 of the last eight: an exponent, and at -126, where smaller numbers are kept, that of zero.
  constexpr float kWhole = 12582912.0f + 126.0f;
  x = greater_or(splat(-126.0f), x);
  const F whole = x + kWhole;
  return power(x - (whole - kWhole), 2.0f) * from_bits(bits(whole) << 23);
#endif
}

// x where a lane's bit is set, else y.
KW_INLINE F where_bits(uint32_t bits, F x, F y) {
#if defined(__AVX512F__)
  return (F)_mm512_mask_blend_ps(static_cast<__mmask16>(bits), (__m512)y, (__m512)x);
#else
  return select(((M{} + static_cast<int32_t>(bits)) >> iota() & 1) != 0, x, y);
#endif
}

// Rows of d elements side by side, found by item, head and row.
template <class T> struct Heads {
  T* data;
  int64_t item, head, row;  // elements from one to the next
  static Heads of(const Tensor<T>& t) { return {t.data(), t.stride(0), t.stride(1), t.stride(2)}; }
  KW_INLINE T* at(int64_t b, int64_t h, int64_t i) const { return data + b * item + h * head + i * row; }
};

template <class T> bool all_finite(const Heads<const T>& x, int64_t b, int64_t h, int64_t rows, int64_t columns) {
  F zeros{};
  for (int64_t i = 0; i < rows; ++i)
    over_lanes(columns, [&](int64_t e, auto lanes) KW_INLINED {
      zeros += keep(lanes, load(x.at(b, h, i) + e, lanes), F{}) * 0.0f;
    });
  return all(zeros == 0.0f, Full{});
}

struct FlashShape {
  int64_t batch, heads, groups, rows, keys, inner, columns;
  int64_t each() const { return heads / groups; }          // heads of a group
  int64_t depth() const { return (inner + W - 1) / W * W; }
  int64_t width() const { return (columns + W - 1) / W * W; }
};

// Keys that each row sees: `many` ranges [begin, end), in any order, which may overlap or be empty.
struct RowRanges {
  const int32_t* data = nullptr;  // none: every key
  int64_t many = 0, item = 0, head = 0;
  const int32_t* of(int64_t b, int64_t h, int64_t i) const { return data + b * item + h * head + i * many * 2; }
};

// Sets the bits of a row's keys within first to first + count; `apart`: words from one panel to the next.
inline void row_bits(const int32_t* ranges, int64_t many, int64_t first, int64_t count, uint32_t* to, int64_t apart) {
  const auto below = [](int64_t i) { return i == kPanel ? kEveryKey : (uint32_t(1) << i) - 1; };
  for (int64_t p = 0; p * kPanel < count; ++p) to[p * apart] = 0;
  for (int64_t i = 0; i < many; ++i) {
    const int64_t begin = std::max<int64_t>(ranges[2 * i] - first, 0);
    const int64_t end = std::min<int64_t>(ranges[2 * i + 1] - first, count);
    if (begin >= end) continue;
    const int64_t p = begin / kPanel, last = (end - 1) / kPanel;
    const uint32_t head = ~below(begin - p * kPanel), tail = below(end - last * kPanel);
    to[p * apart] |= (p == last ? head & tail : head) & kEveryKey;
    for (int64_t at = p + 1; at < last; ++at) to[at * apart] = kEveryKey;
    if (p < last) to[last * apart] |= tail;
  }
}

// Widens [low, high) to the keys that a row sees.
inline void hull(const int32_t* ranges, int64_t many, int64_t keys, int64_t& low, int64_t& high) {
  for (int64_t i = 0; i < many; ++i) {
    const int64_t begin = std::max<int64_t>(ranges[2 * i], 0), end = std::min<int64_t>(ranges[2 * i + 1], keys);
    if (begin < end) low = std::min(low, begin), high = std::max(high, end);
  }
}

// What is between a product and the softmax: a cap, and a bias that falls with distance. Scores are in base 2.
struct Scoring {
  float factor;                   // of queries, before the product
  float cap;                      // in base 2; 0 for none
  const float* slopes = nullptr;  // of heads, or none
  int64_t offset = 0;             // position of the first row among the keys
  bool plain() const { return cap == 0.0f && !slopes; }
  float slope(int64_t h) const { return slopes ? slopes[h] * kLog2E : 0.0f; }
  // The score at key n + lane, where `at` is the row's position.
  KW_INLINE F biased(F x, float slope, int64_t at, int64_t n) const {
    return slopes ? x - abs(from_integers(iota() + static_cast<int32_t>(n - at))) * slope : x;
  }
  KW_INLINE F capped(F x) const { return cap == 0.0f ? x : cap * tanh(x); }

  static Scoring of(float scale, float soft_cap, const float* slopes, int64_t offset) {
    return {soft_cap > 0 ? scale / soft_cap : scale * kLog2E, soft_cap * kLog2E, slopes, offset};
  }
};

// Rows, transposed: [d][kPanel], zeros beyond the last row.
template <class T, class A>
void pack_transposed(const T* from, int64_t apart, int64_t count, int64_t inner, float factor, A* to) {
  for (int64_t d = 0; d < inner; d += W)
    for (int v = 0; v < 2; ++v) {
      F rows[W];
      const bool whole = inner - d >= W;
      const Part part{static_cast<int>(std::min<int64_t>(W, inner - d))};
#pragma GCC unroll 16
      for (int j = 0; j < W; ++j) {
        const T* row = from + (v * W + j) * apart + d;
        rows[j] = v * W + j >= count ? F{} : (whole ? load(row, Full{}) : load(row, part)) * factor;
      }
      transpose_lanes(rows);
#pragma GCC unroll 16
      for (int j = 0; j < W; ++j) store(to + (d + j) * kPanel + v * W, rows[j], Full{});
    }
}
// A row, zeros up to a whole vector.
template <class T, class A> KW_INLINE void copy_row(const T* from, int64_t count, float factor, A* to) {
  over_lanes(count, [&](int64_t d, auto lanes) KW_INLINED { store(to + d, load(from + d, lanes) * factor, Full{}); });
}

// A softmax that has met a sink alone: one that is infinite or NaN leaves no number, as a score does.
KW_INLINE Softmax with_sink(float score) { return {score, score == -kInf ? 0.0f : 1.0f + (score - score)}; }

template <class T, bool plain> struct Flash {
  static constexpr int R = kTileRows;
  static constexpr int64_t kKeys = 512;       // of a block
  static constexpr int64_t kApart = kKeys + W;  // of rows of scores, so that they do not share their places in the cache
  static constexpr int64_t kRows = 384 / R * R, kFewTasks = 16;
  // What is multiplied: pairs of bfloat16 where the processor has them. Queries are then multiplied as they are, and scores
  // by the factor, which would round in them; weights are rounded, as torch's are.
  using A = Multiplied<T>;
  static constexpr bool kNarrow = !std::is_same_v<A, float>;

  const FlashShape& s;
  Heads<const T> q, k, v;
  Heads<T> out;
  float* lse;
  RowRanges ranges;
  Scoring scoring;
  const float* sinks;

  int64_t block_keys() const {
    return std::clamp<int64_t>(kBlockFloats / std::max(s.depth(), s.width()) / kPanel, 1, kKeys / kPanel) * kPanel;
  }

  struct Row {
    Softmax state;
    int64_t head, row;
    float slope;
  };
  struct Room {
    int64_t inner, columns;  // of a row of queries and of sums, apart
    Temporary<A> keys, values, queries, weights;
    Temporary<float> scores, sums;
    Temporary<Row> rows;
    const A* lying = nullptr;  // all values of a task, where they lie as they would be packed
    bool packed[kKeys / kPanel];
    uint32_t bits[R][kKeys / kPanel];
    Room(const Flash& a, int64_t count)
        : inner(a.s.depth() + 64 / int64_t(sizeof(A))), columns(a.s.width()), keys(a.s.depth() * a.block_keys()),
          values(columns * a.block_keys()), queries(count * inner), weights(kNarrow ? R * kApart : 0), scores(R * kApart),
          sums(count * columns), rows(count) {}
    const A* weighed() const {
      if constexpr (kNarrow) return weights.data;
      else return scores.data;
    }
  };

  // Values where they lie, if that is as they would be packed.
  const A* lying_values(int64_t b, int64_t g) const {
    const T* from = v.at(b, g, 0);
    if constexpr (std::is_same_v<A, T>)
      if (v.row == s.columns && s.columns == s.width() && reinterpret_cast<uintptr_t>(from) % sizeof(F) == 0) return from;
    return nullptr;
  }

  void pack(Room& room, int64_t b, int64_t g, int64_t first, int64_t panel) const {
    if (room.packed[panel]) return;
    room.packed[panel] = true;
    const int64_t n = first + panel * kPanel, count = std::min(kPanel, s.keys - n);
    pack_transposed(k.at(b, g, n), k.row, count, s.inner, 1.0f, room.keys.data + panel * kPanel * s.depth());
    for (int64_t i = 0; i < count && !room.lying; ++i)
      copy_row(v.at(b, g, n + i), s.columns, 1.0f, room.values.data + (panel * kPanel + i) * room.columns);
  }

  // Scores of a row become exponentials relative to its largest so far; returns what earlier sums shrink by.
  float exponentials(Row& row, float* scores, A* weights, const uint32_t* bits, int64_t panels, int64_t n) const {
    const float factor = kNarrow ? scoring.factor : 1.0f;
    F top = splat(-kInf);
    const int64_t at = row.row + scoring.offset;
    for (int64_t p = 0; p < panels; ++p)
#pragma GCC unroll 2
      for (int i = 0; i < 2; ++i) {
        float* place = scores + p * kPanel + i * W;
        F x = load(place, Full{});
        if constexpr (kNarrow) x *= factor;
        if constexpr (!plain) x = scoring.biased(scoring.capped(x), row.slope, at, n + p * kPanel + i * W);
        if (bits[p] != kEveryKey) x = where_bits(bits[p] >> (i * W), x, splat(-kInf));
        if (!plain || bits[p] != kEveryKey) store(place, x, Full{});
        top = greater_or(x, top);  // NaN is met again in the total
      }
    const float before = row.state.top;
    row.state.top = larger(before, fold_lanes(top, greater_or)[0]);
    const float shift = row.state.top == -kInf ? 0.0f : row.state.top;
    F total[2] = {};
    for (int64_t p = 0; p < panels; ++p)
#pragma GCC unroll 2
      for (int i = 0; i < 2; ++i) {
        const int64_t at = p * kPanel + i * W;
        F x = load(scores + at, Full{});
        if (kNarrow && plain && bits[p] == kEveryKey) x *= factor;  // else it was stored
        x = exp2_of_negative(x - shift);
        if constexpr (kNarrow) store(weights + at, x, Full{});
        else store(scores + at, x, Full{});
        total[i] += x;
      }
    const float shrunk = before == row.state.top ? 1.0f : exp2_of_negative(splat(before - shift))[0];
    row.state.total = row.state.total * shrunk + fold_lanes(total[0] + total[1], [](F x, F y) { return x + y; })[0];
    return shrunk;
  }

  // `count` rows by panels [panel, end) of a block. `strict`: a hidden value may be infinite, and weighs nothing still.
  void tile(Room& room, int64_t b, int64_t g, int64_t row, int64_t count, int64_t first, int64_t panel, int64_t end,
            bool strict) const {
    const int64_t begin = panel * kPanel, keys = std::min(end * kPanel, s.keys - first) - begin;
    for (int64_t p = panel; p < end; ++p) {
      pack(room, b, g, first, p);
      for (int64_t d = 0; d < s.inner || d == 0; d += kChain)
        packed_rows<R, 2>(count, room.queries.data + row * room.inner + d, room.inner,
                          room.keys.data + p * kPanel * s.depth() + d * kPanel, kPanel, W, std::min(kChain, s.inner - d),
                          room.scores.data + (p - panel) * kPanel, kApart, d != 0, Full{});
    }
    float* sums = room.sums.data + row * room.columns;
    for (int64_t r = 0; r < count; ++r) {
      const float shrunk = exponentials(room.rows.data[row + r], room.scores.data + r * kApart, room.weights.data + r * kApart,
                                        room.bits[ranges.data ? r : 0] + panel, end - panel, first + begin);
      if (shrunk != 1.0f)
        for (int64_t e = 0; e < room.columns; e += W)
          store(sums + r * room.columns + e, load(sums + r * room.columns + e, Full{}) * shrunk, Full{});
    }
    const A* values = room.lying ? room.lying + (first + begin) * room.columns : room.values.data + begin * room.columns;
    const A* weights = room.weighed();
    if (strict) {
      for (int64_t r = 0; r < count; ++r)
        for (int64_t n = 0; n < keys; ++n)
          if (room.bits[r][panel + n / kPanel] >> (n % kPanel) & 1)
            for (int64_t e = 0; e < room.columns; ++e)
              sums[r * room.columns + e] += to_scalar(weights[r * kApart + n]) * to_scalar(values[n * room.columns + e]);
      return;
    }
    int64_t e = 0;
    for (; e + kPanel <= room.columns; e += kPanel)
      packed_rows<R, 2>(count, weights, kApart, values + e, room.columns, W, keys, sums + e, room.columns, true, Full{});
    if (e < room.columns)
      packed_rows<R, 1>(count, weights, kApart, values + e, room.columns, W, keys, sums + e, room.columns, true, Full{});
  }

  // Bits of a tile's rows for a block of keys, and for each panel whether any row sees a key of it.
  void find_bits(Room& room, int64_t b, int64_t row, int64_t count, int64_t first, int64_t keys, uint32_t* seen) const {
    const int64_t panels = (keys + kPanel - 1) / kPanel;
    const int32_t every[2] = {0, static_cast<int32_t>(s.keys)};
    if (!ranges.data) {
      row_bits(every, 1, first, keys, room.bits[0], 1);
      std::fill_n(seen, panels, 1);
      return;
    }
    std::fill_n(seen, panels, 0);
    for (int64_t r = 0; r < count; ++r) {
      const Row& at = room.rows.data[row + r];
      row_bits(ranges.of(b, at.head, at.row), ranges.many, first, keys, room.bits[r], 1);
      for (int64_t p = 0; p < panels; ++p) seen[p] |= room.bits[r][p];
    }
  }

  // Rows m to m + count of a group, the heads' rows one after another.
  void task(Room& room, int64_t b, int64_t g, int64_t m, int64_t count, bool strict) const {
    room.lying = lying_values(b, g);
    std::fill_n(room.sums.data, count * room.columns, 0.0f);
    for (int64_t r = 0; r < count; ++r) {
      const int64_t h = g * s.each() + (m + r) / s.rows, i = (m + r) % s.rows;
      room.rows.data[r] = {sinks ? with_sink(sinks[h] * kLog2E) : Softmax{}, h, i, scoring.slope(h)};
      copy_row(q.at(b, h, i), s.inner, kNarrow ? 1.0f : scoring.factor, room.queries.data + r * room.inner);
    }
    const int64_t high = (count + R - 1) / R, each = count / high, more = count % high, block = block_keys();
    int64_t low[kRows / R + 2], top[kRows / R + 2], least = s.keys, most = 0;
    for (int64_t i = 0; i < high; ++i) {
      low[i] = ranges.data ? s.keys : 0, top[i] = ranges.data ? 0 : s.keys;
      if (ranges.data)
        for (int64_t r = i * each + std::min(i, more); r < (i + 1) * each + std::min(i + 1, more); ++r)
          hull(ranges.of(b, room.rows.data[r].head, room.rows.data[r].row), ranges.many, s.keys, low[i], top[i]);
      least = std::min(least, low[i]), most = std::max(most, top[i]);
    }
    uint32_t seen[kKeys / kPanel];
    for (int64_t first = least / block * block; first < most; first += block) {
      const int64_t keys = std::min(block, s.keys - first), panels = (keys + kPanel - 1) / kPanel;
      std::fill_n(room.packed, panels, false);
      for (int64_t i = 0; i < high; ++i) {
        if (top[i] <= first || low[i] >= first + keys) continue;
        const int64_t row = i * each + std::min(i, more), rows = each + (i < more);
        find_bits(room, b, row, rows, first, keys, seen);
        for (int64_t p = 0; p < panels;) {
          while (p < panels && !seen[p]) ++p;
          int64_t end = p;
          while (end < panels && seen[end]) ++end;
          if (p < end) tile(room, b, g, row, rows, first, p, end, strict);
          p = end;
        }
      }
    }
    for (int64_t r = 0; r < count; ++r) done(room, b, r);
  }

  // Rows that see no key are zeros.
  void done(const Room& room, int64_t b, int64_t r) const {
    const Row& row = room.rows.data[r];
    const bool dead = row.state.total == 0.0f;
    const float total = dead ? 1.0f : row.state.total;
    T* to = out.at(b, row.head, row.row);
    over_lanes(s.columns, [&](int64_t e, auto lanes) KW_INLINED {
      store(to + e, load(room.sums.data + r * room.columns + e, Full{}) / total, lanes);
    });
    lse[(b * s.heads + row.head) * s.rows + row.row] = dead ? -kInf : row.state.top * kLn2 + std::log(row.state.total);
  }

  // Tasks do not depend on the number of threads, and so neither do results.
  void run() const {
    const int64_t items = s.batch * s.groups, rows = s.each() * s.rows;
    if (items * rows == 0) return;
    const int64_t high = items * ((rows + kRows - 1) / kRows) < kFewTasks ? kRows / 2 : kRows;
    const int64_t tiles = (rows + R - 1) / R, blocks = (rows + high - 1) / high;  // of whole tiles
    const int64_t threads = omp_in_parallel() || rows * s.keys * items < 4096 ? 1 : omp_get_max_threads();
    const std::unique_ptr<bool[]> strict(new bool[items]());
#pragma omp parallel num_threads(threads)
    {
      if (ranges.data) {
#pragma omp for schedule(static)
        for (int64_t i = 0; i < items; ++i) strict[i] = !all_finite(v, i / s.groups, i % s.groups, s.keys, s.columns);
      }
      Room room(*this, (tiles + blocks - 1) / blocks * R);
#pragma omp for schedule(dynamic, 1)
      for (int64_t i = 0; i < items * blocks; ++i) {
        const int64_t item = i / blocks, at = blocks - 1 - i % blocks;  // the longest rows of a causal mask first
        const int64_t m = tiles * at / blocks * R, end = std::min(rows, tiles * (at + 1) / blocks * R);
        task(room, item / s.groups, item % s.groups, m, end - m, strict[item]);
      }
    }
  }
};

}  // namespace kw
