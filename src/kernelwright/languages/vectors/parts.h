// The two parts of a row that a rotary embedding turns: its even and its odd elements, or its two halves.
#pragma once
#include "vector.h"

namespace kw {

// W elements from j of the first (0) or the second (1) part of a row whose parts have `half` elements.
template <bool kNeighbours, class T, class Lanes>
KW_INLINE F load_part(const T* row, int which, int64_t j, int64_t half, Lanes lanes) {
  if constexpr (!kNeighbours) {
    return load(row + which * half + j, lanes);
  } else if constexpr (std::is_same_v<Lanes, Full>) {
    return shuffle(load(row + 2 * j, lanes), load(row + 2 * j + W, lanes), iota() * 2 + which);
  } else {
    F v{};
    for (int i = 0; i < lanes.count; ++i) v[i] = to_scalar(row[2 * (j + i) + which]);
    return v;
  }
}

template <bool kNeighbours, class T, class Lanes>
KW_INLINE void store_parts(T* row, int64_t j, int64_t half, F first, F second, Lanes lanes) {
  if constexpr (!kNeighbours) {
    store(row + j, first, lanes), store(row + half + j, second, lanes);
  } else if constexpr (std::is_same_v<Lanes, Full>) {
    const M low = iota() / 2 + (iota() & 1) * W;
    store(row + 2 * j, shuffle(first, second, low), lanes);
    store(row + 2 * j + W, shuffle(first, second, low + W / 2), lanes);
  } else {
    for (int i = 0; i < lanes.count; ++i) {
      row[2 * (j + i)] = from_scalar<T>(first[i]), row[2 * (j + i) + 1] = from_scalar<T>(second[i]);
    }
  }
}

}  // namespace kw
