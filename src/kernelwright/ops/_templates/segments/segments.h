// Keys to segments: an order in which equal keys lie together, first ones first, and where each key's segment begins.
#pragma once
#include <omp.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <type_traits>

#include "kernelwright.h"
#include "tuned.h"

namespace kw {

// Stops with a ValueError where the offsets of segments do not ascend within the entries.
template <class I> void check_offsets(const char* what, const I* offsets, int64_t segments, int64_t entries) {
  typedef typename std::make_unsigned<I>::type Unsigned;
  Unsigned signs = static_cast<Unsigned>(offsets[0]);  // of offsets and, where none is below 0, of what they grow by
  for (int64_t s = 0; s < segments; ++s) {
    const Unsigned next = static_cast<Unsigned>(offsets[s + 1]);
    signs |= next | (next - static_cast<Unsigned>(offsets[s]));
  }
  if (static_cast<I>(signs) >= 0 && offsets[segments] <= entries) return;
  char text[96];
  snprintf(text, sizeof text, "%s is no row of offsets; expected them to ascend from 0 to %lld", what,
           static_cast<long long>(entries));
  raise("ValueError", "", text);
}

// Rows [offsets[g], offsets[g + 1]) of something that is sorted by group.
struct Segments {
  const int64_t* offsets;
  int64_t groups;

  int64_t rows() const { return offsets[groups]; }
};

constexpr int64_t kShareKeys = 1 << 16;    // keys below which a share is not worth its thread
constexpr int64_t kShareGroups = 1 << 16;  // groups above which the counts of each share would not stay in cache

// Shares of the keys for the threads there are; one where it would not pay.
inline int64_t segment_shares(int64_t n, int64_t groups) {
  const int64_t threads = omp_in_parallel() || groups > kShareGroups ? 1 : omp_get_max_threads();
  return std::max<int64_t>(1, std::min(threads, n / kShareKeys));
}

// The plan by shares of the keys, each counted and then placed by a thread: behind what the shares before it have of a
// group, so that the order is the same for any number of shares.
inline void segment_plan_shared(const int64_t* keys, int64_t n, int64_t groups, int64_t shares, int64_t* order,
                                int64_t* offsets) {
  const int64_t bins = groups + 1;  // the last one: keys that are no group's
  const std::unique_ptr<int64_t[]> places(new int64_t[static_cast<size_t>(shares * bins)]());
  const auto bin = [&](int64_t i) { return keys[i] >= 0 && keys[i] < groups ? keys[i] : groups; };
#pragma omp parallel for schedule(static)
  for (int64_t s = 0; s < shares; ++s)
    for (int64_t i = n * s / shares; i < n * (s + 1) / shares; ++i) ++places[s * bins + bin(i)];
  int64_t at = 0;
  for (int64_t g = 0; g < bins; ++g) {
    offsets[g] = at;
    for (int64_t s = 0; s < shares; ++s) {
      const int64_t count = places[s * bins + g];
      places[s * bins + g] = at, at += count;
    }
  }
#pragma omp parallel for schedule(static)
  for (int64_t s = 0; s < shares; ++s)
    for (int64_t i = n * s / shares; i < n * (s + 1) / shares; ++i) order[places[s * bins + bin(i)]++] = i;
}

// keys [n] to order [n] and offsets [groups + 1]. Keys that are no group's come last, beyond every segment.
inline void segment_plan(const int64_t* keys, int64_t n, int64_t groups, int64_t* order, int64_t* offsets,
                         int64_t shares = 1) {
  if (shares > 1) return segment_plan_shared(keys, n, groups, shares, order, offsets);
  const auto valid = [&](int64_t i) { return keys[i] >= 0 && keys[i] < groups; };
  for (int64_t g = 0; g <= groups; ++g) offsets[g] = 0;
  for (int64_t i = 0; i < n; ++i)
    if (valid(i)) ++offsets[keys[i] + 1];
  for (int64_t g = 0; g < groups; ++g) offsets[g + 1] += offsets[g];
  int64_t rest = offsets[groups];
  for (int64_t i = 0; i < n; ++i) {
    if (valid(i)) order[offsets[keys[i]]++] = i;
    else order[rest++] = i;
  }
  for (int64_t g = groups; g > 0; --g) offsets[g] = offsets[g - 1];
  offsets[0] = 0;
}

}  // namespace kw
