// A product of two factors that are computed, of many rows and many columns: the right one is cut into panels of a tile's columns
// by all threads, then multiplied as weights are that were packed ahead of the call. The left one is laid out once in all,
// not once for every few tiles of columns. That is for register tiles of six rows; larger ones want no such layout.
#pragma once
#include "gemm.h"

namespace kw {

// T: the tiling by which `contract` would multiply.
template <class T, class Left, class Right, class Finish>
void multiply_computed(const Shape& s, Left left, Right right, Finish finish) {
  if constexpr (!kDeepTiles) {
    contract<T>(s, left, right, finish);
  } else {
    using P = Cut<Packed<T::rows == kTileRows ? 0 : T::rows, T::vectors>>;
    using Product = PackedProduct<P, float, float>;
    if (s.batch * s.rows * s.columns == 0) return;
    const Product unpacked{s, nullptr};
    const int64_t tiles = unpacked.tiles(), of_run = unpacked.tiles_of_run();
    const Tasks tasks = tasks_of<P, float>(s, tiles);
    const Temporary<float> panels(s.batch * tiles * s.inner * P::columns), room(s.batch * s.rows * s.inner);
#pragma omp parallel for schedule(static) num_threads(tasks.threads)
    for (int64_t i = 0; i < s.batch * tiles; ++i) {
      const int64_t tile = i % tiles, at = tile % of_run * P::columns, n = tile / of_run * s.run + at;
      for (int64_t k = 0; k < s.inner; k += T::depth)
        pack_panel<T>(right, i / tiles, k, std::min(T::depth, s.inner - k), n, std::min(P::columns, s.run - at), 0,
                      panels.data + (i * s.inner + k) * P::columns);
    }
    multiply_deep(Product{s, panels.data}, left, room.data, tasks, finish);
  }
}

}  // namespace kw
