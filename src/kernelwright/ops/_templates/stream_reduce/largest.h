// The largest scores of each of a chunk of rows, and their places: what top-k keeps while scores stream past.
#pragma once
#include "vector.h"

namespace kw {

constexpr int64_t kChunk = 256;  // rows whose lists a thread holds at once

// The lanes of a mask as bits.
KW_INLINE unsigned lanes_set(M m) {
#if defined(__AVX512F__)
  return _mm512_test_epi32_mask((__m512i)m, (__m512i)m);
#elif defined(__AVX2__)
  return static_cast<unsigned>(_mm256_movemask_ps((__m256)m));
#else
  unsigned set = 0;
  for (int i = 0; i < W; ++i) set |= (m[i] ? 1u : 0u) << i;
  return set;
#endif
}

struct Best {
  float value;
  int32_t place;
};

// A row's list is in order: the largest first, of equals the first place that was inserted; NaN is larger than all.
struct Largest {
  alignas(64) float least[kChunk];  // of a full list the last value, which a score must be above
  int32_t filled[kChunk];
  Best* best;  // [kChunk][count]
  int64_t count;

  // Rows beyond the last are closed to all but NaN. `open`: what scores must be above before a list is full; NaN
  // lets all in.
  void clear(Best* room, int64_t wanted, int64_t rows, float open = kNaN) {
    best = room, count = wanted;
    for (int64_t i = 0; i < kChunk; ++i) least[i] = i < rows ? open : kInf, filled[i] = 0;
  }
  static bool above(float a, float b) { return a > b || (a != a && b == b); }
  void insert(int64_t row, float value, int32_t place) {
    Best* list = best + row * count;
    int64_t at = filled[row];
    if (at == count && !above(value, list[at - 1].value)) return;
    if (at < count) filled[row] = static_cast<int32_t>(at + 1);
    else --at;
    for (; at > 0 && above(value, list[at - 1].value); --at) list[at] = list[at - 1];
    list[at] = {value, place};
    if (filled[row] == count) least[row] = list[count - 1].value;
  }
  // Scores of one place, of W rows from `row` on.
  KW_INLINE void insert_some(int64_t row, F scores, M some, int32_t place) {
    alignas(64) float each[W];
    store(each, scores, Full{});
    for (unsigned left = lanes_set(some); left; left &= left - 1) {
      const int i = __builtin_ctz(left);
      insert(row + i, each[i], place);
    }
  }
  // Lists of shares in the order of their places, so that of equals the first stays first.
  void join(int64_t row, const Largest& other) {
    for (int64_t n = 0; n < other.filled[row]; ++n) {
      const Best one = other.best[row * count + n];
      insert(row, one.value, one.place);
    }
  }
};

}  // namespace kw
