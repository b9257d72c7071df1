// Products with structured matrices of two factors of blocks: rows times a first factor, what lies between in the second
// cache, times a second factor. No permutation is stored: columns of the first factor are packed in the order in which the
// second reads them.
#include "vector.h"
#include "gemm.h"

namespace kw {
namespace {

typedef Packed<0, 2> Tile;
constexpr int64_t kRun = 32;                      // columns of a panel
constexpr int64_t kBlockBytes = int64_t(3) << 17;  // of rows, and of what is made of them, that are multiplied at once

int64_t padded(int64_t columns) { return (columns + kRun - 1) / kRun * kRun; }
int64_t line(int64_t elements) { return (elements + W - 1) / W * W; }

// A factor: panels [groups][columns / 32][inner][32].
struct Factor {
  const float* panels;
  int64_t groups, columns, inner;

  Shape shape() const { return {groups, 0, padded(columns), inner, kRun}; }
};

// Groups times tiles of a factor, one after another; put(sum, row, column of the group, group).
template <class Put>
void multiplied(const Factor& f, const InPlace<float>& rows, int64_t count, int64_t first, int64_t last, Put put) {
  const Shape s = f.shape();
  const PackedProduct<Tile, float, float> product{s, f.panels};
  const int64_t tiles = product.tiles();
  for (int64_t i = first; i < last;) {
    const int64_t group = i / tiles, end = std::min(last, (group + 1) * tiles);
    product.block(rows, group, 0, count, i - group * tiles, end - group * tiles,
                  [&](F sum, int64_t b, int64_t m, int64_t n, auto) KW_INLINED { put(sum, m, n, b); });
    i = end;
  }
}
int64_t tiles_of(const Factor& f) {
  const Shape s = f.shape();
  return f.groups * PackedProduct<Tile, float, float>{s, f.panels}.tiles();
}

// Where what lies between begins in a row, and how it is stored: lanes beyond a run's last are not its own.
KW_INLINE void store_some(float* to, F x, int64_t left) {
  if (left >= W) store(to, x, Full{});
  else if (left > 0) store(to, x, Part{static_cast<int>(left)});
}

// Monarch: the first factor's columns are [groups of the second][rank]; a group reads [blocks][rank].
struct Monarch {
  Factor first, second;
  int64_t rank;

  int64_t between() const { return second.groups * second.inner; }
  KW_INLINE void put(F sum, float* row, int64_t n, int64_t block) const {
    int64_t group = n / rank, at = n % rank;
    const int64_t left = std::min<int64_t>(W, first.columns - n);
    float* const to = row + block * rank;
    if (rank - at >= left) return store_some(to + group * second.inner + at, sum, left);
    for (int64_t i = 0; i < left; ++group, at = 0)
      for (const int64_t end = std::min(left, i + rank - at); i < end; ++i, ++at) to[group * second.inner + at] = sum[i];
  }
};

// BLAST: what a group of the second factor reads is the sum over blocks of scale times what the block made.
struct Blast {
  Factor first, second;
  const float* scale;  // [groups][blocks][rank]

  int64_t between() const { return first.groups * first.columns; }
  KW_INLINE void put(F sum, float* row, int64_t n, int64_t block) const {
    store_some(row + block * first.columns + n, sum, first.columns - n);
  }
  void mix(const float* row, float* to) const {
    const int64_t rank = first.columns, blocks = first.groups;
    for (int64_t i = 0; i < second.groups; ++i) {
      const float* of_group = scale + i * blocks * rank;
      const auto summed = [&](int64_t r, auto lanes) KW_INLINED {
        F sum{};
        for (int64_t j = 0; j < blocks; ++j)
          sum = fma(load(row + j * rank + r, lanes), load(of_group + j * rank + r, lanes), sum);
        store(to + i * rank + r, sum, lanes);
      };
      int64_t r = 0;
      for (; r + W <= rank; r += W) summed(r, Full{});
      if (r < rank) summed(r, Part{static_cast<int>(rank - r)});
    }
  }
};

// to[s * L + l] = from[l * each + s]: L vectors are dealt out in rounds of pairs.
template <int L> void deal(const float* from, int64_t each, float* to) {
  M low, high;
  for (int i = 0; i < W; ++i) low[i] = i / 2 + i % 2 * W, high[i] = W / 2 + i / 2 + i % 2 * W;
  int64_t s = 0;
  for (; s + W <= each; s += W) {
    F v[L], next[L];
#pragma GCC unroll 16
    for (int l = 0; l < L; ++l) v[l] = load(from + l * each + s, Full{});
#pragma GCC unroll 4
    for (int step = 1; step < L; step *= 2) {
#pragma GCC unroll 8
      for (int l = 0; l < L / 2; ++l) {
        next[2 * l] = shuffle(v[l], v[l + L / 2], low);
        next[2 * l + 1] = shuffle(v[l], v[l + L / 2], high);
      }
#pragma GCC unroll 16
      for (int l = 0; l < L; ++l) v[l] = next[l];
    }
#pragma GCC unroll 16
    for (int l = 0; l < L; ++l) store(to + s * L + l * W, v[l], Full{});
  }
  for (; s < each; ++s)
    for (int l = 0; l < L; ++l) to[s * L + l] = from[l * each + s];
}
void dealt(const float* from, int64_t groups, int64_t each, float* to) {
  if (groups == 2) return deal<2>(from, each, to);
  if (groups == 4) return deal<4>(from, each, to);
  if (groups == 8) return deal<8>(from, each, to);
  if (groups == 16) return deal<16>(from, each, to);
  for (int64_t s = 0; s < each; ++s)
    for (int64_t l = 0; l < groups; ++l) to[s * groups + l] = from[l * each + s];
}

template <class Kind> constexpr bool kDeals = std::is_same_v<Kind, Monarch>;

// Rooms of a block of rows, a line more than a power of two apart.
struct Rooms {
  float *x, *between, *mixed, *out;
  int64_t x_row, between_row, mixed_row, out_row;
};

// One block of rows, by one thread or by a team that shares each step's tiles.
template <class Kind, class Share>
void block_of(const Kind& kind, const float* x, int64_t x_row, float* out, int64_t count, const Rooms& room, Share share) {
  const Factor &first = kind.first, &second = kind.second;
  const int64_t inputs = first.groups * first.inner, outputs = second.groups * second.columns;
  const bool copies = count > 4 && x_row * int64_t(sizeof(float)) % 4096 == 0;
  if (copies)
    share(count, [&](int64_t m, int64_t last) {
      for (; m < last; ++m) std::memcpy(room.x + m * room.x_row, x + m * x_row, static_cast<size_t>(inputs) * sizeof(float));
    });
  const InPlace rows{copies ? room.x : x, first.inner, copies ? room.x_row : x_row};
  share(tiles_of(first), [&](int64_t from, int64_t to) {
    multiplied(first, rows, count, from, to, [&](F sum, int64_t m, int64_t n, int64_t b) KW_INLINED {
      kind.put(sum, room.between + m * room.between_row, n, b);
    });
  });
  InPlace between{room.between, second.inner, room.between_row};
  if constexpr (!kDeals<Kind>) {
    share(count, [&](int64_t m, int64_t last) {
      for (; m < last; ++m) kind.mix(room.between + m * room.between_row, room.mixed + m * room.mixed_row);
    });
    between.data = room.mixed, between.row = room.mixed_row;
  }
  float* to = kDeals<Kind> ? room.out : out;
  const int64_t to_row = kDeals<Kind> ? room.out_row : outputs;
  share(tiles_of(second), [&](int64_t from, int64_t last) {
    multiplied(second, between, count, from, last, [&](F sum, int64_t m, int64_t n, int64_t b) KW_INLINED {
      store_some(to + m * to_row + b * second.columns + n, sum, second.columns - n);
    });
  });
  if constexpr (kDeals<Kind>)
    share(count, [&](int64_t m, int64_t last) {
      for (; m < last; ++m) dealt(room.out + m * room.out_row, second.groups, second.columns, out + m * outputs);
    });
}

template <class Kind> void product(const Kind& kind, const Tensor<const float>& x, float* out) {
  const int64_t rows = x.shape(0), x_row = x.stride(0);
  const int64_t inputs = kind.first.groups * kind.first.inner, outputs = kind.second.groups * kind.second.columns;
  const int64_t mixed = kDeals<Kind> ? 0 : kind.second.groups * kind.second.inner;
  if (rows * outputs == 0) return;
  Rooms room{nullptr, nullptr, nullptr, nullptr, line(inputs) + W, line(kind.between()) + W, line(mixed) + W,
             line(outputs) + W};
  const int64_t all = room.x_row + room.between_row + room.mixed_row + (kDeals<Kind> ? room.out_row : 0);
  const int64_t fits = kBlockBytes / int64_t(sizeof(float)) / all / kTileRows * kTileRows;
  const int64_t threads = omp_in_parallel() ? 1 : omp_get_max_threads();
  const int64_t share = (rows + threads - 1) / threads;  // no more than leaves some for each thread
  const int64_t high = std::min(rows, std::max<int64_t>(kTileRows, std::min({fits, int64_t(192), share})));
  const int64_t blocks = (rows + high - 1) / high;
  const auto placed = [&](float* at) {
    Rooms own = room;
    own.x = at, own.between = own.x + high * room.x_row, own.mixed = own.between + high * room.between_row;
    own.out = own.mixed + high * room.mixed_row;
    return own;
  };
  const bool alone = threads == 1 || rows * (inputs + outputs) * 64 < kSerialProducts;
  if (blocks >= threads || alone) {
#pragma omp parallel num_threads(alone ? 1 : threads)
    {
      const Temporary<float> own(high * all);
      const Rooms here = placed(own.data);
#pragma omp for schedule(dynamic, 1)
      for (int64_t i = 0; i < blocks; ++i) {
        const int64_t m = rows * i / blocks, end = rows * (i + 1) / blocks;
        block_of(kind, x.data() + m * x_row, x_row, out + m * outputs, end - m, here,
                 [](int64_t n, auto body) { body(0, n); });
      }
    }
    return;
  }
  const Temporary<float> own(high * all);
  const Rooms here = placed(own.data);
#pragma omp parallel num_threads(threads)
  for (int64_t i = 0; i < blocks; ++i) {
    const int64_t m = rows * i / blocks, end = rows * (i + 1) / blocks;
    block_of(kind, x.data() + m * x_row, x_row, out + m * outputs, end - m, here, [&](int64_t n, auto body) {
      const int64_t parts = std::min(n, 4 * threads);
#pragma omp for schedule(dynamic, 1)
      for (int64_t part = 0; part < parts; ++part) body(n * part / parts, n * (part + 1) / parts);
    });
  }
}

Factor factor_of(const Tensor<const float>& panels, int64_t columns) {
  return {panels.data(), panels.shape(0), columns, panels.shape(2)};
}

}  // namespace
}  // namespace kw

// x [rows, K * p], first [K, panels, p, 32], second [L, panels, K * rank, 32], rank, columns of a group; out [rows, S * L]
KW_KERNEL(blr_monarch) {
  using namespace kw;
  const auto second = args.tensor<const float>(2);
  const int64_t rank = args.integer(3);
  const Monarch kind{factor_of(args.tensor<const float>(1), second.shape(0) * rank),
                     factor_of(second, args.integer(4)), rank};
  product(kind, args.tensor<const float>(0), args.tensor<float>(5).data());
}

// x [rows, K * p], right [K, panels, p, 32], scale [L, K, rank], left [L, panels, rank, 32], rows of a block; out
KW_KERNEL(blr_blast) {
  using namespace kw;
  const auto scale = args.tensor<const float>(2);
  const Blast kind{factor_of(args.tensor<const float>(1), scale.shape(2)),
                   factor_of(args.tensor<const float>(3), args.integer(4)), scale.data()};
  product(kind, args.tensor<const float>(0), args.tensor<float>(5).data());
}
