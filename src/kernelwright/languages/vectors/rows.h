// Row programs: passes over rows (or over blocks of columns) that reduce, then write; split over threads.
//
// A kernel walks `items` rows. Each pass over a row reads its inputs and either folds them into accumulators
// or writes outputs; later passes use what earlier ones folded. A row that fits in the cache is read from
// memory once. A `Solo` team walks whole rows, each thread its own; a `Crew` splits every row over all
// threads and merges their accumulators, for few long rows.
// precompile: parsing what it includes takes longer than many a kernel.
#pragma once
#include <omp.h>

#include <algorithm>
#include <array>
#include <memory>
#include <type_traits>
#include <utility>

#include "vector.h"

namespace kw {

// Accumulators: WIDE vectors each. `Rows` are folded over lanes too, so `value` is the same in every lane;
// columns keep one result a lane. Sums flush short float32 runs into float64, so long sums stay accurate.

template <int WIDE, bool ROWS>
struct Sum {
  static constexpr int kTotals = ROWS ? 1 : WIDE;
  F run[WIDE]{};
  D total[kTotals]{};

  template <class Lanes> KW_INLINE void add(int w, F x, Lanes lanes) {
    if constexpr (std::is_same_v<Lanes, Full>) run[w] += x;
    else run[w] += select(lanes_mask(lanes), x, F{});
  }
  KW_INLINE void flush() {
    if constexpr (ROWS) {
      for (int step = 1; step < WIDE; step *= 2)
        for (int w = 0; w + step < WIDE; w += 2 * step) run[w] += run[w + step];
      total[0] += __builtin_convertvector(run[0], D);
    } else {
      for (int w = 0; w < WIDE; ++w) total[w] += __builtin_convertvector(run[w], D);
    }
    for (F& r : run) r = F{};
  }
  void merge(const Sum& other) {
    for (int t = 0; t < kTotals; ++t) total[t] += other.total[t];
  }
  KW_INLINE F value(int w) const {
    if constexpr (!ROWS) return __builtin_convertvector(total[w], F);
    return splat(static_cast<float>(sum_lanes(total[0])));
  }
};

struct MaxOf {
  static constexpr float kFirst = -kInf;
  KW_INLINE F operator()(F a, F b) const { return maximum(a, b); }
};
struct MinOf {
  static constexpr float kFirst = kInf;
  KW_INLINE F operator()(F a, F b) const { return minimum(a, b); }
};
struct ProductOf {
  static constexpr float kFirst = 1.0f;
  KW_INLINE F operator()(F a, F b) const { return a * b; }
};

template <class Op, int WIDE, bool ROWS>
struct Fold {
  F best[WIDE];
  Fold() {
    for (F& b : best) b = splat(Op::kFirst);
  }
  template <class Lanes> KW_INLINE void add(int w, F x, Lanes lanes) {
    if constexpr (!std::is_same_v<Lanes, Full>) x = select(lanes_mask(lanes), x, splat(Op::kFirst));
    best[w] = Op{}(x, best[w]);
  }
  KW_INLINE void flush() {}
  void merge(const Fold& other) {
    for (int w = 0; w < WIDE; ++w) best[w] = Op{}(other.best[w], best[w]);
  }
  KW_INLINE F value(int w) const {
    if constexpr (!ROWS) return best[w];
    F all = best[0];
    for (int v = 1; v < WIDE; ++v) all = Op{}(best[v], all);
    return fold_lanes(all, Op{});
  }
};
template <int WIDE, bool ROWS> using Max = Fold<MaxOf, WIDE, ROWS>;
template <int WIDE, bool ROWS> using Min = Fold<MinOf, WIDE, ROWS>;
template <int WIDE, bool ROWS> using Product = Fold<ProductOf, WIDE, ROWS>;

// Best value and where it first stands; NaN is best of all, as in torch.
template <int WIDE, bool ROWS, bool LARGEST>
struct ArgBest {
  F best[WIDE];
  M where[WIDE];
  ArgBest() {
    for (F& b : best) b = splat(LARGEST ? -kInf : kInf);
    for (M& m : where) m = M{} + kNowhere;
  }
  static constexpr int32_t kNowhere = INT32_MAX;  // nothing was better than the start: all elements equal it
  static KW_INLINE M better(F x, M at, F y, M held) {
    const M beyond = LARGEST ? (x > y) : (x < y);
    const M nan = (x != x) & (y == y);
    const M tie = ((x == y) | ((x != x) & (y != y))) & (at < held);
    return beyond | nan | tie;
  }
  template <class Lanes> KW_INLINE void add(int w, F x, M at, Lanes lanes) {
    // A lane meets its places in order, so what is equal to the best so far never counts.
    M wins = (LARGEST ? (x > best[w]) : (x < best[w])) | ((x != x) & (best[w] == best[w]));
    if constexpr (!std::is_same_v<Lanes, Full>) wins &= lanes_mask(lanes);
    take(w, wins, x, at);
  }
  KW_INLINE void flush() {}
  void merge(const ArgBest& other) {
    for (int w = 0; w < WIDE; ++w)
      take(w, better(other.best[w], other.where[w], best[w], where[w]), other.best[w], other.where[w]);
  }
  KW_INLINE void fold(F& value, M& at) const {
    value = best[0], at = where[0];
    auto meet = [&](F x, M m) {
      const M wins = better(x, m, value, at);
      value = select(wins, x, value), at = wins ? m : at;
    };
    for (int v = 1; v < WIDE; ++v) meet(best[v], where[v]);
    const F lanes = value;
    const M places = at;
    value = splat(lanes[0]), at = M{} + places[0];
    for (int i = 1; i < W; ++i) meet(splat(lanes[i]), M{} + places[i]);
  }
  KW_INLINE F value(int w) const {
    if constexpr (!ROWS) return best[w];
    F v; M at;
    fold(v, at);
    return v;
  }
  KW_INLINE M index(int w) const {
    if constexpr (!ROWS) return known(where[w]);
    F v; M at;
    fold(v, at);
    return known(at);
  }

 private:
  static KW_INLINE M known(M at) { return (at == kNowhere) ? M{} : at; }
  KW_INLINE void take(int w, M wins, F x, M at) {
    best[w] = select(wins, x, best[w]);
    where[w] = wins ? at : where[w];
  }
};

// What a sum of exponentials below one maximum counts below another; nothing where it has seen no number.
KW_INLINE F rescaled(F below, F top) {
  return select(below == -kInf, splat(0.0f), exp(finite(below) - finite(top)));
}

// Largest value and sum of exp(x - largest) in one pass. Of a row, a run is seen first and added while it is in
// the nearest cache, below the largest value up to then.
template <int WIDE, bool ROWS>
struct SumExp {
  Max<WIDE, true> seen;
  Sum<WIDE, true> sum;
  F top = splat(-kInf);

  template <class Lanes> KW_INLINE void see(int w, F x, Lanes lanes) { seen.add(w, x, lanes); }
  KW_INLINE void raise() { raise_to(seen.value(0)); }
  template <class Lanes> KW_INLINE void add(int w, F x, Lanes lanes) {
    sum.add(w, exp(x - finite(top)), lanes);
  }
  KW_INLINE void flush() { sum.flush(); }
  void merge(const SumExp& other) {
    const F before = other.top;
    raise_to(maximum(before, top));
    sum.total[0] += other.sum.total[0] * __builtin_convertvector(rescaled(before, top), D);
  }
  KW_INLINE F max(int) const { return top; }
  KW_INLINE F total(int) const { return sum.value(0); }  // sum of exp(x - finite(max))

 private:
  KW_INLINE void raise_to(F next) {
    sum.total[0] *= __builtin_convertvector(rescaled(top, next), D);
    top = next;
  }
};

// Of columns, a lane rescales its sum when its maximum grows.
template <int WIDE>
struct SumExp<WIDE, false> {
  F peak[WIDE];
  F sum[WIDE]{};
  SumExp() {
    for (F& p : peak) p = splat(-kInf);
  }
  template <class Lanes> KW_INLINE void add(int w, F x, Lanes lanes) {
    if constexpr (!std::is_same_v<Lanes, Full>) x = select(lanes_mask(lanes), x, splat(-kInf));
    const M grows = (x > peak[w]) | (x != x);
    if (any(grows)) {
      const F next = maximum(x, peak[w]);
      sum[w] *= rescaled(peak[w], next);
      peak[w] = next;
    }
    sum[w] += exp(x - finite(peak[w]));
  }
  KW_INLINE void flush() {}
  void merge(const SumExp& other) {
    for (int w = 0; w < WIDE; ++w) {
      const F next = maximum(other.peak[w], peak[w]);
      sum[w] = sum[w] * rescaled(peak[w], next) + other.sum[w] * rescaled(other.peak[w], next);
      peak[w] = next;
    }
  }
  KW_INLINE F max(int w) const { return peak[w]; }
  KW_INLINE F total(int w) const { return sum[w]; }  // sum of exp(x - finite(max))
};

// Loops -------------------------------------------------------------------------------------------------

constexpr int64_t kRun = 2048;  // elements of a row between two flushes: short float32 runs
constexpr int64_t kColumnRun = 64;  // the same for columns

template <int UNROLL, class Body>
KW_INLINE void unroll(Body body) {
#pragma GCC unroll 16
  for (int u = 0; u < UNROLL; ++u) body(u);
}

template <int WIDE, class Value>
KW_INLINE auto each(Value value) {
  std::array<decltype(value(0)), WIDE> r;
  for (int w = 0; w < WIDE; ++w) r[w] = value(w);
  return r;
}

// Calls body(i, lanes, u) for the vectors of [begin, end), UNROLL at a time.
template <int UNROLL, class Body>
KW_INLINE void sweep(int64_t begin, int64_t end, Body body) {
  int64_t i = begin;
  for (; i + UNROLL * W <= end; i += UNROLL * W) unroll<UNROLL>([&](int u) { body(i + u * W, Full{}, u); });
  for (; i + W <= end; i += W) body(i, Full{}, 0);
  if (i < end) body(i, Part{static_cast<int>(end - i)}, 0);
}

// The same after a part that brings `out + i` to a vector's boundary, so that streaming stores may be used.
template <bool STREAM, int UNROLL, class T, class Body>
KW_INLINE void sweep_aligned(const T* out, int64_t begin, int64_t end, Body body) {
  if constexpr (!STREAM || sizeof(T) != sizeof(float)) return sweep<UNROLL>(begin, end, body);
  const int64_t past = reinterpret_cast<uintptr_t>(out + begin) / sizeof(T) % W;
  const int64_t head = past ? std::min<int64_t>(W - past, end - begin) : 0;
  if (head > 0) body(begin, Part{static_cast<int>(head)}, 0);
  sweep<UNROLL>(begin + head, end, body);
}

template <bool STREAM, class T, class V, class Lanes>
KW_INLINE void put(T* p, V v, Lanes lanes) {
  if constexpr (STREAM) stream(p, v, lanes);
  else store(p, v, lanes);
}

// Teams -------------------------------------------------------------------------------------------------

struct Range {
  int64_t begin, end;
};

// Part `rank` of [0, n) in `parts`, in steps of `grain`.
KW_INLINE Range share(int64_t n, int rank, int parts, int64_t grain = 1) {
  const int64_t steps = (n + grain - 1) / grain;
  return {std::min(n, steps * rank / parts * grain), std::min(n, steps * (rank + 1) / parts * grain)};
}

struct Solo {
  KW_INLINE Range part(int64_t n, int64_t = 1) const { return {0, n}; }
  KW_INLINE bool leads() const { return true; }
  template <class... Accumulators> KW_INLINE void combine(Accumulators&...) const {}
};

struct Crew {
  static constexpr int64_t kSlot = 65536;
  int rank, size;
  char* slots;  // 2 x size slots: one set is written while the other may still be read
  mutable int turn = 0;

  Range part(int64_t n, int64_t grain = 1) const { return share(n, rank, size, grain); }
  bool leads() const { return rank == 0; }

  template <class... Accumulators> void combine(Accumulators&... mine) const {
    static_assert((sizeof(Accumulators) + ... + 0) <= kSlot, "accumulators exceed a slot");
    char* set = slots + turn * size * kSlot;
    turn ^= 1;
    int64_t at = rank * kSlot;
    ((std::memcpy(set + at, &mine, sizeof mine), at += sizeof mine), ...);
#pragma omp barrier
    int64_t offset = 0;
    (merge(set, offset, mine), ...);
  }

 private:
  template <class A> void merge(const char* set, int64_t& offset, A& mine) const {
    std::memcpy(&mine, set + offset, sizeof mine);
    for (int other = 1; other < size; ++other) {
      A theirs;
      std::memcpy(&theirs, set + other * kSlot + offset, sizeof theirs);
      mine.merge(theirs);
    }
    offset += sizeof mine;
  }
};

// Calls body(team, begin, end, rank): the items [begin, end) for a team. Serial below `threshold` elements of
// work; whole items for each thread where there are enough of them; else every item split over all threads.
template <class Body>
void distribute(int64_t items, int64_t work, int64_t threshold, Body body) {
  const int threads = work < threshold ? 1 : omp_get_max_threads();
  if (threads == 1) {
    body(Solo{}, int64_t{0}, items, 0);
    fence();
  } else if (items >= 8 * threads || (items >= threads && items % threads == 0)) {
#pragma omp parallel num_threads(threads)
    {
      const Range mine = share(items, omp_get_thread_num(), omp_get_num_threads());
      body(Solo{}, mine.begin, mine.end, omp_get_thread_num());
      fence();
    }
  } else {
    std::unique_ptr<char[]> slots(new char[2 * threads * Crew::kSlot]);
#pragma omp parallel num_threads(threads)
    {
      const Crew crew{omp_get_thread_num(), omp_get_num_threads(), slots.get()};
      body(crew, int64_t{0}, items, omp_get_thread_num());
      fence();
    }
  }
}

// One thread's shares of N sums over all items; alone on their cache lines.
template <int N>
struct alignas(128) Grand {
  double sums[N > 0 ? N : 1] = {};
};
KW_INLINE double sum_of(F v, int count) {
  double sum = 0;
  for (int i = 0; i < count; ++i) sum += v[i];
  return sum;
}
KW_INLINE double sum_of(M v, int count) { return sum_of(to_float(v), count); }

// Offset of element `index` of a grid with `sizes`, in a tensor with `strides`.
template <size_t N>
KW_INLINE int64_t offset(int64_t index, const std::array<int64_t, N>& sizes, const std::array<int64_t, N>& strides) {
  if constexpr (N == 0) return 0;
  else if constexpr (N == 1) return index * strides[0];
  else {
    int64_t at = 0;
    for (size_t d = N - 1; d > 0; --d) at += index % sizes[d] * strides[d], index /= sizes[d];
    return at + index * strides[0];
  }
}

}  // namespace kw
