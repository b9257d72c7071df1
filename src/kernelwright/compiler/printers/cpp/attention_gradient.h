// Attention and its gradients in one pass over rows of queries: neither weights nor their gradients reach memory.
//
//   weight[b, m, n] = softmax over n of score(query[b, m] . key[b, n])
//   change[b, m, n] = through(weight, slope[b, m] . value[b, n], sum over n of weight * that product): the scores' gradient
//   out[b, m] = sum over n of weight * value[b, n]         of_query[b, m] = sum over n of change * key[b, n]
//   of_value[b, n] = sum over m of weight * slope[b, m]    of_key[b, n] = sum over m of change * query[b, m]
//
// A task is an item, or a share of its rows. Keys and values are packed once a task, in panels of columns and as rows. A
// tile of rows keeps all its weights and changes in the second cache. Sums over rows are kept turned, so that rows of weights
// are what the micro-kernel takes as the right factor; they are turned back when an item is done.
// Source: Dao, FlashAttention-2 (2023), section 3.1; weights of a tile are kept here rather than computed twice.
//
// The kernel gives functions of vectors:
//   query(b, m, d, lanes), key(b, n, d, lanes), slope(b, m, e, lanes), value(b, n, e, lanes),
//   query_rows, key_rows, slope_rows, value_rows  the same for the products that are results, as those read them,
//   score(sum, b, m, n, lanes), through(weight, sum, total, b, m, n, lanes),
//   masked(b, m, end_m, n, end_n)                  as in `attention.h`,
//   of_out, of_query(sum, b, m, e, lanes), of_key, of_value(sum, b, n, d, lanes)  what is fused after, and the store.
#pragma once
#include "attention.h"

namespace kw {

// A result that nobody asks for.
struct Unasked {
  template <class... Given> KW_INLINE void operator()(Given...) const {}
};
template <class T> constexpr bool kAsked = !std::is_same_v<T, Unasked>;

constexpr int64_t kTileScores = 1 << 15;  // weights of a tile of rows, and as many changes, that the second cache holds
constexpr int64_t kLeastTile = 4 * kTileRows, kMostTile = 8 * kTileRows;  // rows: sums over rows are read and written once a tile

template <bool safe, class Query, class Key, class Slope, class Value, class Score, class Through, class Masked, class OfOut,
          class ValueRows, class OfQuery, class KeyRows, class OfKey, class QueryRows, class OfValue, class SlopeRows>
struct AttentionGradient {
  using Tiles = RegisterTiles<Packed<0, 2>, float, float>;
  static constexpr int R = Packed<0, 2>::rows;
  static constexpr int64_t kPanel = 2 * W;
  static constexpr bool kSkips = !std::is_same_v<Masked, Unmasked>;
  using Packing = Tiling<Form::kPanels, Along::kInner, R, 2, 256, 96>;

  const AttentionShape& s;
  Query query;
  Key key;
  Slope slope;
  Value value;
  Score score;
  Through through;
  Masked masked;
  OfOut of_out;
  ValueRows value_rows;
  OfQuery of_query;
  KeyRows key_rows;
  OfKey of_key;
  QueryRows query_rows;
  OfValue of_value;
  SlopeRows slope_rows;

  static int64_t whole(int64_t count, int64_t of) { return (count + of - 1) / of * of; }
  int64_t depth() const { return whole(s.inner, W); }
  int64_t width() const { return whole(s.columns, W); }
  int64_t panels() const { return (s.keys + kPanel - 1) / kPanel; }
  int64_t across() const { return std::max<int64_t>(1, panels()) * kPanel; }
  int64_t score_row() const { return across() + W; }  // from a row to the next: not at the same places in the cache
  int64_t tile_rows() const { return std::clamp(kTileScores / across() / R * R, kLeastTile, kMostTile); }

  struct Room {
    Temporary<float> key_panels, key_rows, value_panels, value_rows, queries, slopes, turned_queries, turned_slopes, weights,
        changes, sums;
    explicit Room(const AttentionGradient& a)
        : key_panels(a.across() * a.depth()), key_rows(kAsked<OfQuery> ? a.across() * a.depth() : 0),
          value_panels(a.across() * a.width()), value_rows(kAsked<OfOut> ? a.across() * a.width() : 0),
          queries(kMostTile * (a.depth() + W)), slopes(kMostTile * (a.width() + W)), turned_queries(kMostTile * a.depth()),
          turned_slopes(kMostTile * a.width()), weights(kMostTile * a.score_row()), changes(kMostTile * a.score_row()),
          sums(kMostTile * std::max(a.depth(), a.width())) {}
  };

  // Packs what an item has for each key in panels; tells whether all are finite.
  template <class Rows> bool pack(Rows rows, int64_t b, int64_t deep, int64_t count, float* in_panels) const {
    const auto turned = [&](int64_t item, int64_t d, int64_t n, auto lanes) KW_INLINED { return rows(item, n, d, lanes); };
    for (int64_t n = 0; n < s.keys; n += kPanel)
      pack_panel<Packing>(turned, b, 0, count, n, std::min(kPanel, s.keys - n), 0, in_panels + n * deep);
    F zeros{};
    if constexpr (kSkips)
      for (int64_t n = 0; n < s.keys; ++n)
        over_lanes(count, [&](int64_t d, auto lanes) KW_INLINED { zeros += keep(lanes, rows(b, n, d, lanes), F{}) * 0.0f; });
    return all(zeros == 0.0f, Full{});
  }

  template <class Rows> void as_rows(Rows rows, int64_t b, int64_t deep, int64_t count, float* to) const {
    for (int64_t n = 0; n < s.keys; ++n)
      over_lanes(count, [&](int64_t d, auto lanes) KW_INLINED { store(to + n * deep + d, keep(lanes, rows(b, n, d, lanes), F{}), Full{}); });
  }

  // Packs rows m to m + count of a tile; tells whether all are finite.
  template <class Rows> bool take(Rows rows, int64_t b, int64_t m, int64_t count, int64_t wide, int64_t deep, float* to) const {
    F zeros{};
    for (int64_t r = 0; r < count; ++r)
      over_lanes(wide, [&](int64_t d, auto lanes) KW_INLINED {
        const F x = keep(lanes, rows(b, m + r, d, lanes), F{});
        store(to + r * (deep + W) + d, x, Full{});
        if constexpr (kSkips) zeros += x * 0.0f;
      });
    return all(zeros == 0.0f, Full{});
  }

  // Packs rows m to m + count of a tile turned: a row for each element.
  template <class Rows> void turn(Rows rows, int64_t b, int64_t m, int64_t count, int64_t wide, float* to) const {
    for (int64_t r = 0; r < count; r += W)
      for (int64_t d = 0; d < wide; d += W) {
        F square[W];
        for (int i = 0; i < W; ++i) {
          square[i] = F{};
          if (r + i < count && wide - d >= W) square[i] = rows(b, m + r + i, d, Full{});
          else if (r + i < count) square[i] = rows(b, m + r + i, d, Part{static_cast<int>(wide - d)});
        }
        transpose_lanes(square);
#pragma GCC unroll 16
        for (int i = 0; i < W; ++i) store(to + (d + i) * kMostTile + r, square[i], Full{});
      }
  }

  // Products of a tile of rows with panels p to end, each stored where its keys are.
  void by_panels(const float* rows, int64_t deep, int64_t count, int64_t inner, const float* panels, int64_t p, int64_t end, float* to) const {
    for (; p < end; ++p)
      for (int64_t r = 0; r < count; r += R)
        for (int64_t d = 0; d < inner || d == 0; d += kChain)
          Tiles::whole(rows + r * (deep + W) + d, deep + W, panels + p * kPanel * deep + d * kPanel, kPanel, W,
                       std::min(kChain, inner - d), to + r * score_row() + p * kPanel, score_row(), d != 0, Full{}, {},
                       std::min<int64_t>(R, count - r));
  }

  // Sums over keys n to end of a tile's weights or changes times rows of `deep` elements.
  void over_keys(const float* factors, int64_t count, const float* rows, int64_t deep, int64_t n, int64_t end, float* to) const {
    for (int64_t e = 0; e < deep; e += kPanel)
      for (int64_t r = 0; r < count; r += R) {
        const int64_t high = std::min<int64_t>(R, count - r);
        const float* from = factors + r * score_row() + n;
        if (e + kPanel <= deep)
          Tiles::whole(from, score_row(), rows + n * deep + e, deep, W, end - n, to + r * deep + e, deep, false, Full{}, {}, high);
        else
          Tiles::narrow(from, score_row(), rows + n * deep + e, deep, W, end - n, to + r * deep + e, deep, false, part_of(Full{}), {}, high);
      }
  }

  // Adds to turned sums over rows: `turned` has a row for each element, `factors` one for each row of the tile.
  void over_rows(const float* turned, int64_t wide, const float* factors, int64_t count, int64_t p, int64_t end, float* sums) const {
    for (; p < end; ++p)
      for (int64_t d = 0; d < wide; d += R)
        Tiles::whole(turned + d * kMostTile, kMostTile, factors + p * kPanel, score_row(), W, count, sums + d * across() + p * kPanel,
                     across(), true, Full{}, {}, std::min<int64_t>(R, wide - d));
  }

  // Weights of a tile for keys n to end, normalised; tells whether some row has none that is not masked.
  bool weigh(Room& room, int64_t b, int64_t m, int64_t count, int64_t n, int64_t end) const {
    bool dead = false;
    for (int64_t r = 0; r < count; ++r) {
      Softmax state;
      float* row = room.weights.data + r * score_row() + n;
      exponentials<true>(state, row, row, end - n, [&](F x, int64_t at, auto lanes) KW_INLINED { return score(x, b, m + r, n + at, lanes); });
      dead |= state.top == -kInf;
      const float by = 1.0f / (safe && state.top == -kInf ? 1.0f : state.total);
      for (int64_t at = 0; at < end - n; at += W) store(row + at, load(row + at, Full{}) * by, Full{});
    }
    return dead;
  }

  void change(Room& room, int64_t b, int64_t m, int64_t count, int64_t n, int64_t end) const {
    for (int64_t r = 0; r < count; ++r) {
      const float* weights = room.weights.data + r * score_row();
      float* changes = room.changes.data + r * score_row();
      F totals[kScoreChains] = {};
      over_chains(end - n, [&](int64_t at, int chain, auto lanes) KW_INLINED {
        totals[chain] += keep(lanes, load(weights + n + at, Full{}) * load(changes + n + at, Full{}), F{});
      });
      const F total = splat(fold_lanes(added<kScoreChains>(totals), [](F x, F y) { return x + y; })[0]);
      over_lanes(end - n, [&](int64_t at, auto lanes) KW_INLINED {
        const F x = through(load(weights + n + at, Full{}), load(changes + n + at, Full{}), total, b, m + r, n + at, lanes);
        store(changes + n + at, x, Full{});
      });
    }
  }

  // Rows m to m + count of an item, whose keys and values are packed: `finite` tells whether they are.
  void tile(Room& room, int64_t b, int64_t m, int64_t count, bool finite, float* key_sums, float* value_sums) const {
    finite &= take(query, b, m, count, s.inner, depth(), room.queries.data);
    finite &= take(slope, b, m, count, s.columns, width(), room.slopes.data);
    if constexpr (kAsked<OfKey>) turn(query_rows, b, m, count, s.inner, room.turned_queries.data);
    if constexpr (kAsked<OfValue>) turn(slope_rows, b, m, count, s.columns, room.turned_slopes.data);
    int64_t p = 0, last = panels();
    if constexpr (kSkips) {
      for (int64_t r = 0; r < count && s.keys; ++r)  // what a row's weights are multiplied by may not be finite
        finite = finite && all(through(F{}, F{}, F{}, b, m + r, 0, Part{1}) == 0.0f, Part{1});
      const auto hidden = [&](int64_t at) { return masked(b, m, m + count, at * kPanel, std::min(s.keys, (at + 1) * kPanel)); };
      while (finite && p < last && hidden(p)) ++p;
      while (finite && p < last && hidden(last - 1)) --last;
    }
    const auto weighed = [&] {
      by_panels(room.queries.data, depth(), count, s.inner, room.key_panels.data, p, last, room.weights.data);
      return weigh(room, b, m, count, p * kPanel, std::min(s.keys, last * kPanel));
    };
    if (weighed() && !safe && last - p < panels()) {  // weights of a row without keys are not numbers, for every key
      p = 0, last = panels();
      weighed();
    }
    const int64_t n = p * kPanel, end = std::min(s.keys, last * kPanel);
    by_panels(room.slopes.data, width(), count, s.columns, room.value_panels.data, p, last, room.changes.data);
    change(room, b, m, count, n, end);
    if constexpr (kAsked<OfOut>) along_keys(room, room.weights.data, b, m, count, room.value_rows.data, width(), s.columns, n, end, of_out);
    if constexpr (kAsked<OfQuery>) along_keys(room, room.changes.data, b, m, count, room.key_rows.data, depth(), s.inner, n, end, of_query);
    if constexpr (kAsked<OfValue>) over_rows(room.turned_slopes.data, s.columns, room.weights.data, count, p, last, value_sums);
    if constexpr (kAsked<OfKey>) over_rows(room.turned_queries.data, s.inner, room.changes.data, count, p, last, key_sums);
  }

  template <class Finish>
  void along_keys(Room& room, const float* factors, int64_t b, int64_t m, int64_t count, const float* rows, int64_t deep, int64_t wide,
                  int64_t n, int64_t end, Finish finish) const {
    over_keys(factors, count, rows, deep, n, std::max(n, end), room.sums.data);
    for (int64_t r = 0; r < count; ++r)
      over_lanes(wide, [&](int64_t e, auto lanes) KW_INLINED { finish(load(room.sums.data + r * deep + e, Full{}), b, m + r, e, lanes); });
  }

  // Turns back sums over rows of `shares` shares, one after the other in memory, and hands them on.
  template <class Finish> void finished(const float* sums, int64_t shares, int64_t apart, int64_t b, int64_t wide, Finish finish) const {
    for (int64_t n = 0; n < s.keys; n += W)
      for (int64_t d = 0; d < wide; d += W) {
        F square[W];
#pragma GCC unroll 16
        for (int i = 0; i < W; ++i) {
          square[i] = F{};
          if (d + i < wide)
            for (int64_t share = 0; share < shares; ++share) square[i] += load(sums + share * apart + (d + i) * across() + n, Full{});
        }
        transpose_lanes(square);
        const int64_t keys = std::min<int64_t>(W, s.keys - n), left = wide - d;
        for (int64_t i = 0; i < keys; ++i)
          if (left >= W) finish(square[i], b, n + i, d, Full{});
          else finish(square[i], b, n + i, d, Part{static_cast<int>(left)});
      }
  }

  void run() const {
    const int64_t threads = omp_in_parallel() ? 1 : omp_get_max_threads();
    const int64_t tiles = (s.rows + tile_rows() - 1) / tile_rows();
    const int64_t shares = std::clamp<int64_t>((threads + s.batch - 1) / std::max<int64_t>(1, s.batch), 1, std::max<int64_t>(1, tiles));
    const int64_t of_keys = kAsked<OfKey> ? whole(s.inner, W) * across() : 0, of_values = kAsked<OfValue> ? width() * across() : 0;
    const int64_t each = of_keys + of_values;
    const Temporary<float> together(shares > 1 ? s.batch * shares * each : 0);
#pragma omp parallel num_threads(threads)
    {
      Room room(*this);
      const Temporary<float> own(shares > 1 ? 0 : each);
#pragma omp for schedule(dynamic, 1)
      for (int64_t i = 0; i < s.batch * shares; ++i) {
        const int64_t b = i / shares;
        float* sums = shares > 1 ? together.data + i * each : own.data;
        std::fill_n(sums, each, 0.0f);
        bool finite = pack(key, b, depth(), s.inner, room.key_panels.data);
        finite &= pack(value, b, width(), s.columns, room.value_panels.data);
        if constexpr (kAsked<OfQuery>) as_rows(key_rows, b, depth(), s.inner, room.key_rows.data);
        if constexpr (kAsked<OfOut>) as_rows(value_rows, b, width(), s.columns, room.value_rows.data);
        for (int64_t t = i % shares; t < tiles; t += shares) {
          const int64_t m = s.rows * t / tiles;
          tile(room, b, m, s.rows * (t + 1) / tiles - m, finite, sums, sums + of_keys);
        }
        if (shares == 1) results(sums, 1, each, of_keys, b);
      }
      if (shares > 1) {
#pragma omp for schedule(dynamic, 1)
        for (int64_t b = 0; b < s.batch; ++b) results(together.data + b * shares * each, shares, each, of_keys, b);
      }
    }
  }

  void results(const float* sums, int64_t shares, int64_t each, int64_t of_keys, int64_t b) const {
    if constexpr (kAsked<OfKey>) finished(sums, shares, each, b, s.inner, of_key);
    if constexpr (kAsked<OfValue>) finished(sums + of_keys, shares, each, b, s.columns, of_value);
  }
};

template <bool safe, class Query, class Key, class Slope, class Value, class Score, class Through, class Masked, class OfOut,
          class ValueRows, class OfQuery, class KeyRows, class OfKey, class QueryRows, class OfValue, class SlopeRows>
void attend_with_gradients(const AttentionShape& s, Query query, Key key, Slope slope, Value value, Score score, Through through,
                           Masked masked, OfOut of_out, ValueRows value_rows, OfQuery of_query, KeyRows key_rows, OfKey of_key,
                           QueryRows query_rows, OfValue of_value, SlopeRows slope_rows) {
  AttentionGradient<safe, Query, Key, Slope, Value, Score, Through, Masked, OfOut, ValueRows, OfQuery, KeyRows, OfKey, QueryRows,
                    OfValue, SlopeRows>{
      s, query, key, slope, value, score, through, masked, of_out, value_rows, of_query, key_rows, of_key, query_rows, of_value,
      slope_rows}.run();
}

}  // namespace kw
