// Keys to segments: an order in which equal keys lie together, first ones first, and where each key's segment begins.
#pragma once
#include <cstdint>
#include <cstdio>

#include "kernelwright.h"

namespace kw {

// Stops with a ValueError where the offsets of segments do not ascend within the entries.
template <class I> void check_offsets(const char* what, const I* offsets, int64_t segments, int64_t entries) {
  bool good = offsets[0] >= 0 && offsets[segments] <= entries;
  for (int64_t s = 0; s < segments; ++s) good &= offsets[s] <= offsets[s + 1];
  if (good) return;
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

// keys [n] to order [n] and offsets [groups + 1]. Keys that are no group's come last, beyond every segment.
inline void segment_plan(const int64_t* keys, int64_t n, int64_t groups, int64_t* order, int64_t* offsets) {
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
