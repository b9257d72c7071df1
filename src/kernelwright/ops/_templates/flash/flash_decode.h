// One token of each sequence against its cache: keys and values lie in pages of some positions, where a table says, and are
// read in place, once for all heads of a group. What is cached may be int8 with a scale for each position and head, or int8
// or int4 with a scale for each group of columns (grouped.h).
//
// The keys of a sequence are shared out over tasks, and the shares added in order (split-K), whatever the threads.
// Source: Flash-Decoding (2023); Kwon et al., PagedAttention (2023).
#pragma once
#include "flash.h"
#include "grouped.h"

namespace kw {

KW_INLINE F load(const int8_t* p, Full) {
#if defined(__AVX512F__)
  return (F)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
#elif defined(__AVX2__)
  return (F)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
#else
  return from_integers(load_integers(p, Full{}));
#endif
}

// A cache [pages][positions][groups][columns], its columns side by side.
template <class C> struct Cache {
  const C* data;
  int64_t page, slot, head;      // elements from one to the next
  const float* scales = nullptr;  // [pages][positions][groups], or none
  const bfloat16* of_columns = nullptr;  // [pages][positions][groups][count], of what is grouped
  int64_t count = 0, shift = 0;          // scales of a row; a group has 2^shift blocks

  template <class S> static Cache of(const Tensor<const S>& t) {
    return {reinterpret_cast<const C*>(t.data()), t.stride(0), t.stride(1), t.stride(2)};
  }
};

struct DecodeShape {
  int64_t batch, heads, groups, inner, columns, positions, most;  // positions of a page; pages of a sequence at most
  int64_t each() const { return heads / groups; }
  int64_t depth() const { return (inner + W - 1) / W * W; }
  int64_t width() const { return (columns + W - 1) / W * W; }
};

constexpr int64_t kFromMemory = int64_t(1) << 24;  // bytes of keys and values that no cache is taken to hold

// What a call is, whatever its cache and its queries are of: compiled once for all of them.
struct DecodeCall {
  const DecodeShape& s;
  const float* queries;  // [batch][heads][depth], with the factor in them
  const int32_t *lengths, *table;  // table: [batch][most], or none where sequence b is page b
  const float* sinks;
  Scoring scoring;
  int64_t window;  // 0 for none
  void* out;       // [batch][heads][columns]
  void (*put)(const float* sums, float total, int64_t columns, int64_t at, void* out);  // from an element on
  float* lse;

  // Scores of a head become weights of values, times the values' scales if they have some; returns what earlier sums shrink by.
  float weigh(Softmax& state, float* scores, const float* scales, int64_t h, int64_t at, int64_t first, int64_t count) const {
    F top = splat(-kInf), total{};
    const float slope = scoring.slope(h);
    over_lanes(count, [&](int64_t n, auto lanes) KW_INLINED {
      F x = scoring.biased(scoring.capped(load(scores + n, Full{})), slope, at, first + n);
      x = keep(lanes, x, splat(-kInf));
      store(scores + n, x, Full{});
      top = maximum(x, top);
    });
    const float before = state.top;
    state.top = larger(before, fold_lanes(top, [](F x, F y) { return maximum(x, y); })[0]);
    const float shift = state.top == -kInf ? 0.0f : state.top;
    over_lanes(count, [&](int64_t n, auto) KW_INLINED {
      const F x = exp2_of_negative(load(scores + n, Full{}) - shift);
      store(scores + n, scales ? x * load(scales + n, Full{}) : x, Full{});
      total += x;
    });
    const float shrunk = before == state.top ? 1.0f : exp2_of_negative(splat(before - shift))[0];
    state.total = state.total * shrunk + fold_lanes(total, [](F x, F y) { return x + y; })[0];
    return shrunk;
  }

  // Adds the shares of a head, and its sink, to the first.
  void joined(float* sums, Softmax* states, int64_t first, int64_t shares, int64_t h) const {
    const int64_t each = s.each();
    Softmax all{sinks ? sinks[h] * kLog2E : -kInf, 0.0f};
    const float sink = all.top;
    for (int64_t i = 0; i < shares; ++i) all.top = larger(all.top, states[first + i * each].top);
    const float shift = all.top == -kInf ? 0.0f : all.top;
    if (sinks) all.total = exp2_of_negative(splat(sink - shift))[0];
    float* to = sums + first * s.width();
    for (int64_t i = 0; i < shares; ++i) {
      const Softmax& one = states[first + i * each];
      const float shrunk = exp2_of_negative(splat(one.top - shift))[0];
      all.total += one.total * shrunk;
      const float* from = sums + (first + i * each) * s.width();
      for (int64_t e = 0; e < s.width(); e += W) {
        const F part = load(from + e, Full{}) * shrunk;
        store(to + e, i ? load(to + e, Full{}) + part : part, Full{});
      }
    }
    states[first] = all;
  }

  void done(int64_t b, int64_t h, const float* sums, const Softmax& state) const {
    const bool dead = state.top == -kInf;
    put(sums, dead ? 1.0f : state.total, s.columns, (b * s.heads + h) * s.columns, out);
    lse[b * s.heads + h] = dead ? -kInf : state.top * kLn2 + std::log(state.total);
  }
};

template <class C> struct Decode : DecodeCall {
  static constexpr int64_t kKeys = 128;    // of a chunk
  static constexpr int64_t kShare = 1024;  // least keys of a share
  static constexpr int64_t kShares = 16;
  static constexpr int64_t kAtOnce = 8;    // heads that share what is read

  Cache<C> k, v;
  bool asks = false;  // for rows ahead: where they do not follow each other, or come from memory

  // Rows of a chunk of keys: where they are, and what they are scaled by; beyond the last they are the last.
  struct Rows {
    const C *k[kKeys + W], *v[kKeys + W];
    alignas(64) float k_scale[kKeys + W], v_scale[kKeys + W];
    const bfloat16 *k_groups[kKeys + W], *v_groups[kKeys + W];  // scales of what is grouped
  };
  void find(Rows& rows, int64_t b, int64_t g, int64_t first, int64_t count) const {
    int64_t order = first / s.positions, slot = first - order * s.positions;
    for (int64_t i = 0; i < count; ++order, slot = 0) {
      const int64_t page = table ? table[b * s.most + order] : b, end = std::min(count, i + s.positions - slot);
      const C *from_k = k.data + page * k.page + slot * k.slot + g * k.head, *from_v = v.data + page * v.page + slot * v.slot + g * v.head;
      const int64_t at = (page * s.positions + slot) * s.groups + g - i * s.groups;
      if (k.scales)
        for (int64_t n = i; n < end; ++n) rows.k_scale[n] = k.scales[at + n * s.groups];
      if (v.scales)
        for (int64_t n = i; n < end; ++n) rows.v_scale[n] = v.scales[at + n * s.groups];
      if constexpr (is_grouped<C>)
        for (int64_t n = i; n < end; ++n) {
          rows.k_groups[n] = k.of_columns + (at + n * s.groups) * k.count;
          rows.v_groups[n] = v.of_columns + (at + n * s.groups) * v.count;
        }
      for (; i < end; ++i, from_k += k.slot, from_v += v.slot) rows.k[i] = from_k, rows.v[i] = from_v;
    }
    for (int64_t i = count; i % W; ++i) {
      rows.k[i] = rows.k[count - 1], rows.v[i] = rows.v[count - 1];
      rows.k_scale[i] = rows.v_scale[i] = 0.0f;
      if constexpr (is_grouped<C>) rows.k_groups[i] = rows.k_groups[count - 1];
    }
  }
  static KW_INLINE void ask(const C* row, int64_t columns) {
    if constexpr (is_grouped<C>) columns /= C::kOfByte;
    for (int64_t at = 0; at < columns; at += 64 / int64_t(sizeof(C))) prefetch(row + at);
  }
  // Column d of a row that is grouped, d a multiple of W, and what follows of its block.
  static KW_INLINE F grouped(const Cache<C>& cache, const C* row, const bfloat16* scales, int64_t d, int i) {
    const int64_t block = d / kBlock;
    return scaled(row + block * (kBlock / C::kOfByte), i, scale_at(scales + (block >> cache.shift)));
  }

  // Products of N queries and a chunk of keys, to [N][kKeys].
  template <int N> void dots(const Rows& rows, const float* q, int64_t count, float* to) const {
    constexpr int G = kAtOnce / N;
    F parts[N][W];
    for (int64_t n = 0; n < count; n += W) {
      for (int i = 0; i < W; i += G) {
        const C* row[G];
        F acc[G][N];
#pragma GCC unroll 8
        for (int g = 0; g < G; ++g) {
          row[g] = rows.k[n + i + g];
          if (asks && n + i + g + W < count) ask(rows.k[n + i + g + W], s.inner);
          if (asks) ask(rows.v[n + i + g], s.columns);
#pragma GCC unroll 8
          for (int r = 0; r < N; ++r) acc[g][r] = F{};
        }
        const auto add = [&](int64_t d, auto value) KW_INLINED {
          F x[G];
#pragma GCC unroll 8
          for (int g = 0; g < G; ++g) x[g] = value(g);
#pragma GCC unroll 8
          for (int r = 0; r < N; ++r) {
            const F y = load(q + r * s.depth() + d, Full{});
#pragma GCC unroll 8
            for (int g = 0; g < G; ++g) acc[g][r] = fma(x[g], y, acc[g][r]);
          }
        };
        if constexpr (is_grouped<C>) {
          for (int64_t d = 0; d < s.inner; d += kBlock)
#pragma GCC unroll 8
            for (int v = 0; v < int(kBlock / W); ++v)
              add(d + v * W, [&](int g) KW_INLINED { return grouped(k, row[g], rows.k_groups[n + i + g], d, v); });
        } else {
          over_lanes(s.inner, [&](int64_t d, auto lanes) KW_INLINED {
            add(d, [&](int g) KW_INLINED { return load(row[g] + d, lanes); });
          });
        }
#pragma GCC unroll 8
        for (int g = 0; g < G; ++g)
#pragma GCC unroll 8
          for (int r = 0; r < N; ++r) parts[r][i + g] = acc[g][r];
      }
#pragma GCC unroll 8
      for (int r = 0; r < N; ++r) {
        F x = sums_of_lanes(parts[r]);
        if (k.scales) x *= load(rows.k_scale + n, Full{});
        store(to + r * kKeys + n, x, Full{});
      }
    }
  }

  // sums[r] += the chunk's values, weighted, V vectors of columns at a time.
  template <int N, int V> void weighted(const Rows& rows, const float* weights, int64_t count, int64_t e, float* sums) const {
    for (; V > 1 ? e + V * W <= s.columns : e < s.columns; e += V * W) {
      F acc[N][V];
#pragma GCC unroll 8
      for (int r = 0; r < N; ++r)
#pragma GCC unroll 8
        for (int i = 0; i < V; ++i) acc[r][i] = load(sums + r * s.width() + e + i * W, Full{});
      const auto over = [&](auto lanes) KW_INLINED {
        for (int64_t n = 0; n < count; ++n) {
          F x[V];
#pragma GCC unroll 8
          for (int i = 0; i < V; ++i) {
            if constexpr (!is_grouped<C>) x[i] = load(rows.v[n] + e + i * W, lanes);
            else if constexpr (V * W % kBlock == 0)
              x[i] = grouped(v, rows.v[n], rows.v_groups[n], e + i * W, i % int(kBlock / W));
            else x[i] = grouped(v, rows.v[n], rows.v_groups[n], e + i * W, int((e + i * W) % kBlock / W));
          }
#pragma GCC unroll 8
          for (int r = 0; r < N; ++r) {
            const F w = splat(weights[r * kKeys + n]);
#pragma GCC unroll 8
            for (int i = 0; i < V; ++i) acc[r][i] = fma(w, x[i], acc[r][i]);
          }
        }
      };
      if (V > 1 || e + W <= s.columns) over(Full{});
      else over(Part{static_cast<int>(s.columns - e)});
#pragma GCC unroll 8
      for (int r = 0; r < N; ++r)
#pragma GCC unroll 8
        for (int i = 0; i < V; ++i) store(sums + r * s.width() + e + i * W, acc[r][i], Full{});
    }
    if constexpr (V > 1) weighted<N, V / 2>(rows, weights, count, e, sums);
  }

  // Keys first to last for N heads from h on.
  template <int N> void share(Rows& rows, int64_t b, int64_t g, int64_t h, int64_t first, int64_t last, float* sums,
                              Softmax* states, const float* q) const {
    alignas(64) float scores[N * kKeys];
    for (int64_t n = first; n < last; n += kKeys) {
      const int64_t count = std::min(kKeys, last - n);
      find(rows, b, g, n, count);
      dots<N>(rows, q, count, scores);
      for (int r = 0; r < N; ++r) {
        const float shrunk = weigh(states[r], scores + r * kKeys, v.scales ? rows.v_scale : nullptr, h + r, lengths[b] - 1, n, count);
        if (shrunk != 1.0f)
          for (int64_t e = 0; e < s.width(); e += W)
            store(sums + r * s.width() + e, load(sums + r * s.width() + e, Full{}) * shrunk, Full{});
      }
      weighted<N, (N > 4 ? 2 : N > 1 ? 4 : 8)>(rows, scores, count, 0, sums);
    }
  }

  // Heads of a group by eights, fours, twos and ones; `each` calls with the number, a constant.
  template <class Each> void slices(Each each) const {
    int64_t at = 0;
    const auto all = [&](auto count) {
      for (; at + count.value <= s.each(); at += count.value) each(count, at);
    };
    all(std::integral_constant<int, 8>{});
    all(std::integral_constant<int, 4>{});
    all(std::integral_constant<int, 2>{});
    all(std::integral_constant<int, 1>{});
  }

  void run() {
    int64_t longest = 0, all = 0;
    for (int64_t b = 0; b < s.batch; ++b) longest = std::max<int64_t>(longest, lengths[b]), all += lengths[b];
    if (window) longest = std::min(longest, window);
    int64_t of_byte = 1;
    if constexpr (is_grouped<C>) of_byte = C::kOfByte;
    asks = k.slot != s.inner / of_byte || v.slot != s.columns / of_byte ||
           all * s.groups * (s.inner + s.columns) * int64_t(sizeof(C)) / of_byte > kFromMemory;
    const int64_t shares = std::clamp<int64_t>(longest / kShare, 1, kShares), items = s.batch * s.groups, each = s.each();
    const Temporary<float> sums(items * shares * each * s.width());
    const Temporary<Softmax> states(items * shares * each);
    const int64_t threads = omp_in_parallel() || all * s.heads * s.inner < kSerialProducts ? 1 : omp_get_max_threads();
#pragma omp parallel num_threads(threads)
    {
      Rows rows;
#pragma omp for schedule(dynamic, 1)
      for (int64_t i = 0; i < items * shares; ++i) {
        const int64_t item = i / shares, at = i % shares, b = item / s.groups, g = item % s.groups;
        const int64_t begin = window ? std::max<int64_t>(0, lengths[b] - window) : 0, count = lengths[b] - begin;
        float* to = sums.data + i * each * s.width();
        std::fill_n(to, each * s.width(), 0.0f);
        std::fill_n(states.data + i * each, each, Softmax{});
        slices([&](auto heads, int64_t r) {
          share<heads.value>(rows, b, g, g * each + r, begin + count * at / shares, begin + count * (at + 1) / shares,
                             to + r * s.width(), states.data + i * each + r, queries + (b * s.heads + g * each + r) * s.depth());
        });
      }
#pragma omp for schedule(static)
      for (int64_t i = 0; i < s.batch * s.heads; ++i) {
        const int64_t b = i / s.heads, h = i % s.heads, item = b * s.groups + h / each;
        joined(sums.data, states.data, (item * shares) * each + h % each, shares, h);
        const int64_t first = item * shares * each + h % each;
        done(b, h, sums.data + first * s.width(), states.data[first]);
      }
    }
  }
};

}  // namespace kw
