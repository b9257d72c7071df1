// out[b, m, e] = finish(sum over n of weight[b, m, n] * value[b, n, e]), where weights are the softmax over n of
// score(query[b, m] . key[b, n]): the online softmax, so that scores never leave the first cache.
//
// A task is a block of rows. Keys and values come in blocks that are packed into the second cache, once a task: keys in
// panels of columns, values as rows. A tile of rows multiplies all keys of a block, rescales what it summed so far where
// a larger score came, and multiplies the values; both products are the micro-kernel of `micro_kernel.h`. Few rows read keys and
// values in place, once, and share the keys out over threads.
// Source: Dao, FlashAttention-2 (2023), algorithm 1; Flash-Decoding (2023) for few rows.
//
// The kernel gives functions of vectors:
//   query(b, m, d, lanes), value(b, n, e, lanes)   elements side by side along d and e,
//   key(b, d, n, lanes)                            along d, or along n (`Along`),
//   score(sum, b, m, n, lanes)                     what is between the product and the softmax: scale and mask,
//   masked(b, m, end_m, n, end_n)                  whether every score in there is minus infinity whatever the sums,
//   finish(sum, b, m, e, lanes)                    what is fused after, and the store.
#pragma once
#include "gemm.h"

namespace kw {

struct AttentionShape {
  int64_t batch, rows, keys, inner, columns;
};

// No score is known to be minus infinity: nothing is skipped.
struct Unmasked {};

constexpr int64_t kBlockFloats = 1 << 15;  // of keys, and of values, that stay in the second cache
constexpr int64_t kMostRows = 64 * kTileRows;  // of a task; they share packed keys
constexpr int64_t kFewRows = 6;            // that read keys in place: packing a panel costs as much as so many rows by it
constexpr int64_t kShareKeys = 1024;       // least keys of a thread, where few rows share them

// e^x for x <= 0 and NaN; zero where it would be subnormal, so that no product meets a subnormal number.
KW_INLINE F exp_of_negative(F x) {
  const F n = rint(x * 1.44269504088896341f);
  const F r = fma(n, 2.12194440e-4f, fma(n, -0.693359375f, x));
  const F p = expm1_reduced(r) + 1.0f;
#if defined(__AVX512F__)
  return (F)_mm512_maskz_scalef_ps(_mm512_cmp_ps_mask((__m512)x, _mm512_set1_ps(-87.33f), _CMP_NLT_UQ), (__m512)p, (__m512)n);
#else
  return (x < -87.33f) ? F{} : scale_normal(p, n);
#endif
}

// Lane i is the sum of all lanes of r[i].
KW_INLINE F sums_of_lanes(F (&r)[W]) {
  transpose_lanes(r);
  F sum{};
#pragma GCC unroll 16
  for (int i = 0; i < W; ++i) sum += r[i];
  return sum;
}

// Whether test(m, n, lanes) holds for all of some rows and keys.
template <class Test> KW_INLINE bool everywhere(int64_t m, int64_t end_m, int64_t n, int64_t end_n, Test test) {
  for (; m < end_m; ++m) {
    int64_t at = n;
    for (; at + W <= end_n; at += W)
      if (!all(test(m, at, Full{}), Full{})) return false;
    const Part rest{static_cast<int>(end_n - at)};
    if (rest.count && !all(test(m, at, rest), rest)) return false;
  }
  return true;
}

// The state of a row's softmax so far: the largest score, and the sum of exponentials relative to it.
struct Softmax {
  float top = -kInf, total = 0.0f;
};

// Calls step(at, chain, lanes) for vectors of `count` elements: neighbours belong to chains that do not wait for one another.
constexpr int kScoreChains = 4;
template <class Step> KW_INLINE void over_chains(int64_t count, Step step) {
  int64_t at = 0;
  for (; at + kScoreChains * W <= count; at += kScoreChains * W)
#pragma GCC unroll 4
    for (int i = 0; i < kScoreChains; ++i) step(at + i * W, i, Full{});
  over_lanes(count - at, [&](int64_t rest, auto lanes) KW_INLINED { step(at + rest, 0, lanes); });
}

// Makes of scores exponentials relative to the row's largest so far, which may lie in their place; returns what earlier
// sums shrink by. gradual: they may be subnormal. Next to a weight of one no such weight counts, but in a sum over rows it may
// be the only one.
template <bool gradual = false, class A, class Score>
KW_INLINE float exponentials(Softmax& state, float* scores, A* weights, int64_t count, Score score) {
  F top[kScoreChains], total[kScoreChains] = {};
  for (F& t : top) t = splat(-kInf);
  over_chains(count, [&](int64_t n, int chain, auto lanes) KW_INLINED {
    const F s = score(load(scores + n, Full{}), n, lanes);
    store(scores + n, s, Full{});
    top[chain] = keep(lanes, maximum(s, top[chain]), top[chain]);
  });
  const F most = maximum(maximum(top[0], top[1]), maximum(top[2], top[3]));
  const float before = state.top;
  state.top = larger(before, fold_lanes(most, [](F x, F y) { return maximum(x, y); })[0]);
  const float shift = state.top == -kInf ? 0.0f : state.top;
  over_chains(count, [&](int64_t n, int chain, auto lanes) KW_INLINED {
    const F away = load(scores + n, Full{}) - shift, p = gradual ? exp(away) : exp_of_negative(away);
    store(weights + n, p, Full{});
    total[chain] += keep(lanes, p, F{});
  });
  const float shrunk = before == state.top ? 1.0f : exp_of_negative(splat(before - shift))[0];
  state.total = state.total * shrunk + fold_lanes(added<kScoreChains>(total), [](F x, F y) { return x + y; })[0];
  return shrunk;
}

// Attention of one call. along: what lanes of keys run along. safe: rows without a key that is not masked are zero, not NaN.
// kMostKeys: of a block; a tile's scores stay in the first cache. A: what queries, keys, values and weights are multiplied as.
template <Along along_, bool safe, int64_t kMostKeys, class A, class Query, class Key, class Value, class Score, class Masked, class Finish>
struct Attention {
  using Tiles = RegisterTiles<Packed<0, 2>, A, A>;
  static constexpr int R = Packed<0, 2>::rows;
  static constexpr int64_t kPanel = 2 * W;  // keys, and columns, of a register tile
  static constexpr int64_t kScoreRow = kMostKeys + W;  // from a row to the next: not at the same places in the cache
  static constexpr bool kSkips = !std::is_same_v<Masked, Unmasked>;
  using Packing = Tiling<Form::kPanels, along_, R, 2, 256, 96>;

  const AttentionShape& s;
  Query query;
  Key key;
  Value value;
  Score score;
  Masked masked;
  Finish finish;

  int64_t depth() const { return (s.inner + W - 1) / W * W; }
  int64_t query_row() const { return depth() + W; }
  int64_t value_row() const { return (s.columns + W - 1) / W * W; }
  int64_t block_keys() const {
    const int64_t most = kBlockFloats / std::max(depth(), value_row());
    return std::clamp<int64_t>(most / kPanel, 1, kMostKeys / kPanel) * kPanel;
  }

  void done(const Softmax& state, const float* sums, int64_t b, int64_t m) const {
    const float total = safe && state.top == -kInf ? 1.0f : state.total;
    over_lanes(s.columns, [&](int64_t e, auto lanes) KW_INLINED { finish(load(sums + e, Full{}) / total, b, m, e, lanes); });
  }

  // A thread's room for a block of keys and values, and for a tile's scores.
  struct Room {
    static constexpr int64_t kScores = R * kScoreRow;
    static constexpr bool kInPlace = std::is_same_v<A, float>;  // weights take the places of their scores
    Temporary<A> keys, values, queries, narrow;
    Temporary<float> scores, sums;
    std::unique_ptr<Softmax[]> states;
    bool packed[kMostKeys / kPanel];
    Room(const Attention& a, int64_t rows)
        : keys(a.depth() * a.block_keys()), values(a.value_row() * a.block_keys()), queries(rows * a.query_row()),
          narrow(kInPlace ? 0 : kScores), scores(kScores), sums(rows * a.value_row()), states(new Softmax[rows]) {}

    A* weights() {
      if constexpr (kInPlace) return scores.data;
      else return narrow.data;
    }
  };

  void pack(Room& room, int64_t b, int64_t first, int64_t panel) const {
    if (room.packed[panel]) return;
    room.packed[panel] = true;
    const int64_t n = first + panel * kPanel, count = std::min(kPanel, s.keys - n);
    pack_panel<Packing>(key, b, 0, s.inner, n, count, 0, room.keys.data + panel * kPanel * depth());
    for (int64_t i = 0; i < count; ++i)
      over_lanes(s.columns, [&](int64_t e, auto lanes) KW_INLINED {
        store(room.values.data + (panel * kPanel + i) * value_row() + e, value(b, n + i, e, lanes), Full{});
      });
  }

  // The weights of some keys from their products with a row, and what sums so far shrink by. Compiled once.
  template <class To>
  __attribute__((noinline)) float weigh(Softmax& state, float* scores, To* weights, int64_t keys, int64_t b, int64_t m, int64_t first) const {
    return exponentials(state, scores, weights, keys, [&](F x, int64_t n, auto lanes) KW_INLINED { return score(x, b, m, first + n, lanes); });
  }

  // Rows row to row + count of a task by some panels of a block: scores, exponentials, and the sum over values.
  void tile(Room& room, int64_t b, int64_t m, int64_t row, int64_t count, int64_t first, int64_t panel, int64_t end) const {
    const int64_t begin = panel * kPanel, keys = std::min(end * kPanel, s.keys - first) - begin;
    for (int64_t p = panel; p < end; ++p) {
      pack(room, b, first, p);
      float* to = room.scores.data + (p - panel) * kPanel;
      for (int64_t d = 0; d < s.inner || d == 0; d += kChain)
        Tiles::whole(room.queries.data + row * query_row() + d, query_row(), room.keys.data + p * kPanel * depth() + d * kPanel,
                     kPanel, W, std::min(kChain, s.inner - d), to, kScoreRow, d != 0, Full{}, {}, count);
    }
    for (int64_t r = 0; r < count; ++r) {
      const float shrunk = weigh(room.states[row + r], room.scores.data + r * kScoreRow, room.weights() + r * kScoreRow, keys, b,
                                 m + row + r, first + begin);
      float* sums = room.sums.data + (row + r) * value_row();
      if (shrunk != 1.0f)
        for (int64_t e = 0; e < value_row(); e += W) store(sums + e, load(sums + e, Full{}) * shrunk, Full{});
    }
    const A* values = room.values.data + begin * value_row();
    float* sums = room.sums.data + row * value_row();
    int64_t e = 0;
    for (; e + kPanel <= value_row(); e += kPanel)
      Tiles::whole(room.weights(), kScoreRow, values + e, value_row(), W, keys, sums + e, value_row(), true, Full{}, {}, count);
    if (e < value_row())
      Tiles::narrow(room.weights(), kScoreRow, values + e, value_row(), W, keys, sums + e, value_row(), true, part_of(Full{}), {}, count);
  }

  bool skipped(int64_t b, int64_t m, int64_t end_m, int64_t n, bool finite) const {
    if constexpr (kSkips) return finite && masked(b, m, end_m, n, std::min(s.keys, n + kPanel));
    return false;
  }

  // Rows m to m + count of an item. A panel of keys that the mask hides from all rows of a tile costs nothing, where
  // `finite`: a product with an infinite value would be NaN though its weight is zero.
  void task(Room& room, int64_t b, int64_t m, int64_t count, bool finite) const {
    std::fill_n(room.sums.data, count * value_row(), 0.0f);
    std::fill_n(room.states.get(), count, Softmax{});
    for (int64_t r = 0; r < count; ++r)
      over_lanes(s.inner, [&](int64_t d, auto lanes) KW_INLINED {
        const F x = query(b, m + r, d, lanes);
        store(room.queries.data + r * query_row() + d, x, Full{});
        if constexpr (kSkips) finite = finite && all(keep(lanes, x, F{}) * 0.0f == 0.0f, Full{});
      });
    const int64_t high = (count + R - 1) / R, each = count / high, more = count % high;
    for (int64_t first = 0; first < s.keys; first += block_keys()) {
      const int64_t panels = (std::min(block_keys(), s.keys - first) + kPanel - 1) / kPanel;
      std::fill_n(room.packed, panels, false);
      for (int64_t i = 0; i < high; ++i) {
        const int64_t row = i * each + std::min(i, more), rows = each + (i < more);
        const auto hidden = [&](int64_t p) { return skipped(b, m + row, m + row + rows, first + p * kPanel, finite); };
        for (int64_t p = 0; p < panels;) {
          while (p < panels && hidden(p)) ++p;
          int64_t end = p;
          while (end < panels && !hidden(end)) ++end;
          if (p < end) tile(room, b, m, row, rows, first, p, end);
          p = end;
        }
      }
    }
    for (int64_t r = 0; r < count; ++r) done(room.states[r], room.sums.data + r * value_row(), b, m + r);
  }

  // Whether keys and values of every item are finite.
  std::unique_ptr<bool[]> finite_items() const {
    std::unique_ptr<bool[]> found(new bool[std::max<int64_t>(1, s.batch)]);
    if constexpr (kSkips) {
#pragma omp parallel for schedule(static)
      for (int64_t b = 0; b < s.batch; ++b) {
        F zeros{};
        for (int64_t n = 0; n < s.keys; ++n)
          over_lanes(s.columns, [&](int64_t e, auto lanes) KW_INLINED { zeros += keep(lanes, value(b, n, e, lanes), F{}) * 0.0f; });
        if constexpr (along_ == Along::kInner) {
          for (int64_t n = 0; n < s.keys; ++n)
            over_lanes(s.inner, [&](int64_t d, auto lanes) KW_INLINED { zeros += keep(lanes, key(b, d, n, lanes), F{}) * 0.0f; });
        } else {
          for (int64_t d = 0; d < s.inner; ++d)
            over_lanes(s.keys, [&](int64_t n, auto lanes) KW_INLINED { zeros += keep(lanes, key(b, d, n, lanes), F{}) * 0.0f; });
        }
        found[b] = all(zeros == 0.0f, Full{});
      }
    }
    return found;
  }

  void many_rows() const {
    const int64_t threads = omp_in_parallel() ? 1 : omp_get_max_threads();
    const int64_t tiles = (s.rows + R - 1) / R, wanted = (kTasks * threads + s.batch - 1) / s.batch;
    const int64_t blocks = std::clamp((s.rows + kMostRows - 1) / kMostRows, std::min(tiles, wanted), tiles);
    const std::unique_ptr<bool[]> finite = finite_items();
#pragma omp parallel num_threads(threads)
    {
      Room room(*this, (s.rows + blocks - 1) / blocks);
#pragma omp for schedule(dynamic, 1)
      for (int64_t i = 0; i < s.batch * blocks; ++i) {
        const int64_t b = i / blocks, at = blocks - 1 - i % blocks;  // the longest rows of a causal mask first
        const int64_t m = s.rows * at / blocks;
        task(room, b, m, s.rows * (at + 1) / blocks - m, finite[b]);
      }
    }
  }

  // Few rows -----------------------------------------------------------------------------------------------------

  // Scores of one row by vectors of keys, which are read in place.
  __attribute__((noinline)) void dots(const float* queries, int64_t b, int64_t n, int64_t count, float* to) const {
    over_lanes(count, [&](int64_t at, auto keys) KW_INLINED {
      if constexpr (along_ == Along::kColumns) {
        F sum{};
        for (int64_t d = 0; d < s.inner; ++d) sum = fma(splat(queries[d]), key(b, d, n + at, keys), sum);
        store(to + at, sum, Full{});
      } else {
        F sums[W] = {};
#pragma GCC unroll 16
        for (int i = 0; i < W; ++i)
          if (i < keys.count)
            over_lanes(s.inner, [&](int64_t d, auto lanes) KW_INLINED {
              sums[i] = fma(load(queries + d, Full{}), key(b, d, n + at + i, lanes), sums[i]);
            });
        store(to + at, sums_of_lanes(sums), Full{});
      }
    });
  }

  // sums[r, e] += sum over n of weights[r, n] * value[n, e] for N rows and V vectors of columns.
  template <int N, int V> void weighted(const float* weights, int64_t b, int64_t n, int64_t count, int64_t e, float* sums) const {
    F acc[N][V];
#pragma GCC unroll 8
    for (int r = 0; r < N; ++r)
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) acc[r][v] = load(sums + r * value_row() + e + v * W, Full{});
    for (int64_t k = 0; k < count; ++k) {
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) {
        const int64_t left = s.columns - e - v * W;
        const F x = V > 1 || left >= W ? value(b, n + k, e + v * W, Full{}) : value(b, n + k, e, Part{static_cast<int>(left)});
#pragma GCC unroll 8
        for (int r = 0; r < N; ++r) acc[r][v] = fma(splat(weights[r * kMostKeys + k]), x, acc[r][v]);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < N; ++r)
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) store(sums + r * value_row() + e + v * W, acc[r][v], Full{});
  }

  // All rows by some keys: code for each number of rows from N on.
  template <int N>
  void share(int64_t rows, int64_t b, int64_t first, int64_t last, const float* queries, float* sums, Softmax* states) const {
    if constexpr (N < kFewRows)
      if (rows > N) return share<N + 1>(rows, b, first, last, queries, sums, states);
    alignas(64) float scores[N * kMostKeys];
    for (int64_t n = first; n < last; n += kMostKeys) {
      const int64_t count = std::min(kMostKeys, last - n);
      for (int r = 0; r < N; ++r) {
        dots(queries + r * query_row(), b, n, count, scores + r * kMostKeys);
        float* row = scores + r * kMostKeys;
        const float shrunk = weigh(states[r], row, row, count, b, r, n);
        if (shrunk != 1.0f)
          for (int64_t e = 0; e < value_row(); e += W)
            store(sums + r * value_row() + e, load(sums + r * value_row() + e, Full{}) * shrunk, Full{});
      }
      int64_t e = 0;
      for (; e + 4 * W <= s.columns; e += 4 * W) weighted<N, 4>(scores, b, n, count, e, sums);
      for (; e < s.columns; e += W) weighted<N, 1>(scores, b, n, count, e, sums);
    }
  }

  void few_rows() const {
    const int64_t threads = omp_in_parallel() || s.batch * s.keys * (s.inner + s.columns) < kSerialProducts ? 1 : omp_get_max_threads();
    const int64_t most = std::max<int64_t>(1, s.keys / kShareKeys);
    const int64_t shares = threads == 1 ? 1 : std::min(most, (kTasks * threads + s.batch - 1) / s.batch);
    const Temporary<float> sums(s.batch * shares * s.rows * value_row());
    const std::unique_ptr<Softmax[]> states(new Softmax[s.batch * shares * s.rows]);
#pragma omp parallel num_threads(threads)
    {
      const Temporary<float> queries(s.rows * query_row());
#pragma omp for schedule(dynamic, 1)
      for (int64_t i = 0; i < s.batch * shares; ++i) {
        const int64_t b = i / shares, at = i % shares;
        std::fill_n(queries.data, s.rows * query_row(), 0.0f);
        for (int64_t r = 0; r < s.rows; ++r)
          over_lanes(s.inner, [&](int64_t d, auto lanes) KW_INLINED {
            store(queries.data + r * query_row() + d, keep(lanes, query(b, r, d, lanes), F{}), Full{});
          });
        float* to = sums.data + i * s.rows * value_row();
        std::fill_n(to, s.rows * value_row(), 0.0f);
        share<1>(s.rows, b, s.keys * at / shares, s.keys * (at + 1) / shares, queries.data, to, states.get() + i * s.rows);
      }
#pragma omp for schedule(static)
      for (int64_t i = 0; i < s.batch * s.rows; ++i) joined(i / s.rows, i % s.rows, shares, sums.data, states.get());
    }
  }

  // Adds the shares of a row to the first, in order, whatever the threads.
  void joined(int64_t b, int64_t r, int64_t shares, float* sums, Softmax* states) const {
    const auto at = [&](int64_t share) { return (b * shares + share) * s.rows + r; };
    Softmax all{states[at(0)].top, 0.0f};
    for (int64_t i = 1; i < shares; ++i) all.top = larger(all.top, states[at(i)].top);
    const float shift = all.top == -kInf ? 0.0f : all.top;
    float* to = sums + at(0) * value_row();
    for (int64_t i = 0; i < shares; ++i) {
      const float shrunk = exp_of_negative(splat(states[at(i)].top - shift))[0];
      all.total += states[at(i)].total * shrunk;
      const float* from = sums + at(i) * value_row();
      for (int64_t e = 0; e < value_row(); e += W) {
        const F part = load(from + e, Full{}) * shrunk;
        store(to + e, i ? load(to + e, Full{}) + part : part, Full{});
      }
    }
    done(all, to, b, r);
  }

  void run() const {
    if (s.batch * s.rows * s.columns == 0) return;
    if (s.rows > kFewRows) return many_rows();
    few_rows();
  }
};

template <Along along, bool safe, int64_t keys, class A, class Query, class Key, class Value, class Score, class Masked, class Finish>
void attend(const AttentionShape& s, Query query, Key key, Value value, Score score, Masked masked, Finish finish) {
  Attention<along, safe, keys, A, Query, Key, Value, Score, Masked, Finish>{s, query, key, value, score, masked, finish}.run();
}

}  // namespace kw
