// Linear attention by chunks of rows: the state of a head, a matrix of (inner, columns), is read and written once a chunk,
// and what rows of a chunk give each other is three products of small matrices.
//   state[t] = a[t] * state[t - 1] + k[t] (x) u[t],  out[t] = scale * q[t] . state[t],  a[t] = exp(decay[t])
// u is v, or under the delta rule u[t] = beta[t] * (v[t] - a[t] * k[t] . state[t - 1]), a triangular system in a chunk.
// Sources: Dao and Gu, Transformers are SSMs (2024), section 6; Yang et al., Gated delta networks (2025), section 3.3.
#pragma once
#include "gemm.h"
#include "stream_map.h"

namespace kw {
namespace {

constexpr int64_t kChunk = 64;   // rows of a chunk
constexpr int64_t kFewRows = 8;  // rows up to which the state is updated row by row
static_assert(kChunk % W == 0, "chunks are whole vectors");

inline int64_t whole(int64_t n) { return (n + W - 1) / W * W; }

struct LinearShape {
  int64_t batch, heads, groups, length, inner, columns;
  float scale;
  int64_t depth() const { return whole(inner); }
  int64_t width() const { return whole(columns); }
  int64_t group_of(int64_t head) const { return head / (heads / groups); }
};

// Where a product has its triangle: of the left factor's columns, or of the result's, those up to a row's own count; or of
// the left factor those from a row's own on. The left factor is then square.
enum class Triangle { kNone, kDepth, kResult, kDepthFrom };

// c[r] += a[r, d] . b[d] over d up to r, or from r on, of a few rows: what is beyond is no factor, be it infinite.
template <int V>
void product_corner(int64_t rows, const float* a, int64_t a_row, const float* b, int64_t b_row, float* c, int64_t c_row,
                    bool from) {
  for (int64_t r = 0; r < rows; ++r)
    for (int v = 0; v < V; ++v) {
      F sum = load(c + r * c_row + v * W, Full{});
      for (int64_t d = from ? r : 0; d < (from ? rows : r + 1); ++d)
        sum = fma(load(b + d * b_row + v * W, Full{}), a[r * a_row + d], sum);
      store(c + r * c_row + v * W, sum, Full{});
    }
}

template <int V>
void product_columns(int64_t m, int64_t depth, const float* a, int64_t a_row, const float* b, int64_t b_row, float* c,
                     int64_t c_row, bool add, Triangle triangle, int64_t column) {
  constexpr int R = kTileRows;
  for (int64_t i = 0; i < m; i += R) {
    const int64_t rows = std::min<int64_t>(R, m - i), from = triangle == Triangle::kDepthFrom ? i + rows : 0;
    if (triangle == Triangle::kResult && column >= i + rows) continue;
    const int64_t to = triangle == Triangle::kDepth ? i : depth;
    packed_rows<R, V>(rows, a + i * a_row + from, a_row, b + from * b_row, b_row, int64_t{W}, to - from, c + i * c_row, c_row,
                      add, Full{});
    if (triangle == Triangle::kDepth || triangle == Triangle::kDepthFrom)
      product_corner<V>(rows, a + i * a_row + i, a_row, b + i * b_row, b_row, c + i * c_row, c_row,
                        triangle == Triangle::kDepthFrom);
  }
}

// c (+)= a . b; rows of b and c are whole vectors.
inline void product(int64_t m, int64_t n, int64_t depth, const float* a, int64_t a_row, const float* b, int64_t b_row, float* c,
                    int64_t c_row, bool add, Triangle triangle = Triangle::kNone) {
  int64_t j = 0;
  for (; j + W < n; j += 2 * W) product_columns<2>(m, depth, a, a_row, b + j, b_row, c + j, c_row, add, triangle, j);
  if (j < n) product_columns<1>(m, depth, a, a_row, b + j, b_row, c + j, c_row, add, triangle, j);
}

// to[c, r] = from[r, c], rows and columns rounded up to whole vectors; what is beyond `rows` becomes zero.
inline void transpose(const float* from, int64_t rows, int64_t columns, int64_t from_row, float* to, int64_t to_row) {
  for (int64_t i = 0; i < whole(rows); i += W)
    for (int64_t j = 0; j < columns; j += W) {
      F block[W];
      for (int64_t r = 0; r < W; ++r) block[r] = i + r < rows ? load(from + (i + r) * from_row + j, Full{}) : F{};
      transpose_lanes(block);
      for (int64_t r = 0; r < W; ++r) store(to + (j + r) * to_row + i, block[r], Full{});
    }
}

// Copies rows to floats, whole vectors each, zeros beyond the columns; times the factor of a row.
template <class T, class Factor>
void copy_rows(const T* from, int64_t rows, int64_t columns, float* to, int64_t to_row, Factor factor) {
  for (int64_t r = 0; r < rows; ++r) {
    const float by = factor(r);
    sweep<1>(0, columns, [&](int64_t i, auto lanes, int) KW_INLINED {
      store(to + r * to_row + i, load(from + r * columns + i, lanes) * by, Full{});
    });
  }
}
template <class T> void copy_rows(const T* from, int64_t rows, int64_t columns, float* to, int64_t to_row) {
  copy_rows(from, rows, columns, to, to_row, [](int64_t) { return 1.0f; });
}
template <class T> void put_rows(const float* from, int64_t rows, int64_t columns, int64_t from_row, T* to) {
  for (int64_t r = 0; r < rows; ++r)
    sweep<1>(0, columns, [&](int64_t i, auto lanes, int) KW_INLINED {
      store(to + r * columns + i, load(from + r * from_row + i, Full{}), lanes);
    });
}
inline void scale_rows(float* x, int64_t rows, int64_t columns, int64_t row, const float* by) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < columns; i += W) store(x + r * row + i, load(x + r * row + i, Full{}) * by[r], Full{});
}
// Every row times by[column].
inline void scale_columns(float* x, int64_t rows, int64_t columns, int64_t row, const float* by) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < columns; i += W)
      store(x + r * row + i, load(x + r * row + i, Full{}) * load(by + i, Full{}), Full{});
}

// Decays within a chunk: sum[i] + rest[i] of the logarithms up to row i, from[i] = exp(sum[i]), to[i] = exp(sum[last] - sum[i]).
// A sum is held in two parts, so that of neighbours' difference nothing is lost, however far both have come; what leaves
// nothing of a float, minus infinity too, counts as kGone. An infinite decay leaves no number, neither of what was nor of
// what comes: sums of logarithms cannot tell which infinity a recurrence would have.
constexpr float kGone = -1000.0f;
inline float without_infinity(float logarithm) { return logarithm < kGone ? kGone : logarithm + (logarithm - logarithm); }

struct Decays {
  alignas(64) float sum[kChunk], rest[kChunk], from[kChunk], to[kChunk], lost[kChunk];  // lost: how many NaN up to a row
  float all = 1;
  bool any = false, loses = false;

  void set(const float* logarithms, int64_t rows) {
    any = logarithms != nullptr, loses = false;
    double total = 0;
    float nans = 0;
    for (int64_t i = 0; i < kChunk; ++i) {
      const float x = any && i < rows ? without_infinity(logarithms[i]) : 0.0f;
      if (x != x) nans += 1, loses = true;
      else total += x;
      sum[i] = static_cast<float>(total);
      rest[i] = static_cast<float>(total - sum[i]);
      lost[i] = nans;
    }
    for (int64_t i = 0; i < kChunk; i += W) {
      store(from + i, select(load(lost + i, Full{}) == 0.0f, exp(load(sum + i, Full{})), splat(kNaN)), Full{});
      store(to + i, exp(between(kChunk - 1, i)), Full{});
    }
    all = loses ? kNaN : std::exp(sum[kChunk - 1]);
  }
  // What lies between a row and each of a vector of earlier ones: a NaN before both does not.
  KW_INLINE F between(int64_t i, int64_t j) const {
    const F apart = (sum[i] - load(sum + j, Full{})) + (rest[i] - load(rest + j, Full{}));
    return loses ? select(load(lost + j, Full{}) == lost[i], apart, splat(kNaN)) : apart;
  }
  // scores[i, j] *= by(i) * exp(sum[i] - sum[j]) for j <= i (j < i if `strict`), and are zero elsewhere.
  template <class By> void mask(float* scores, int64_t rows, bool strict, By by) const {
    for (int64_t i = 0; i < rows; ++i) {
      const float factor = by(i);
      for (int64_t j = 0; j < kChunk; j += W) {
        float* at = scores + i * kChunk + j;
        if (j > i) {
          store(at, F{}, Full{});
          continue;
        }
        F x = load(at, Full{}) * factor;
        if (any) x *= exp(between(i, j));
        store(at, select(iota() + static_cast<int32_t>(j) < static_cast<int32_t>(i) + !strict, x, F{}), Full{});
      }
    }
  }
};

// Rows of u: u[i] -= sum over j < i of a[i, j] * u[j], where a is strictly lower triangular.
inline void substitute(const float* a, int64_t rows, float* u, int64_t columns, int64_t u_row) {
  constexpr int64_t kBlock = 8;
  Temporary<float> sums(kBlock * u_row);
  for (int64_t i = 0; i < rows; i += kBlock) {
    const int64_t many = std::min(kBlock, rows - i);
    if (i) product(many, columns, i, a + i * kChunk, kChunk, u, u_row, sums.data, u_row, false);
    for (int64_t c = 0; c < columns; c += W) {
      F own[kBlock];
      for (int64_t r = 0; r < many; ++r) {
        F x = load(u + (i + r) * u_row + c, Full{});
        if (i) x -= load(sums.data + r * u_row + c, Full{});
        for (int64_t s = 0; s < r; ++s) x = fma(own[s], -a[(i + r) * kChunk + i + s], x);
        own[r] = x;
        store(u + (i + r) * u_row + c, x, Full{});
      }
    }
  }
}

// What a head's rows are: pointers to its first.
template <class T> struct HeadRows {
  const T *q, *k, *v;
  const float *decay, *beta;  // or none
};

// A task's memory for one chunk after another.
struct ChunkRoom {
  Temporary<float> q, k, keys, u, scores, mixed, out;
  explicit ChunkRoom(const LinearShape& s)
      : q(kChunk * s.depth()), k(kChunk * s.depth()), keys(s.depth() * kChunk), u(kChunk * s.width()), scores(kChunk * kChunk),
        mixed(kChunk * kChunk), out(kChunk * s.width()) {}
};

// One chunk: writes `rows` rows of out, moves the state on. `keys` ends as k, transposed and decayed to the chunk's end.
template <class T>
void forward_chunk(const LinearShape& s, const HeadRows<T>& at, int64_t first, int64_t rows, float* state, ChunkRoom& room,
                   T* out) {
  const int64_t depth = s.depth(), width = s.width();
  Decays decays;
  decays.set(at.decay ? at.decay + first : nullptr, rows);
  copy_rows(at.k + first * s.inner, rows, s.inner, room.k.data, depth);
  copy_rows(at.v + first * s.columns, rows, s.columns, room.u.data, width);
  transpose(room.k.data, rows, s.inner, depth, room.keys.data, kChunk);
  if (at.beta) {
    const float* beta = at.beta + first;
    product(rows, rows, s.inner, room.k.data, depth, room.keys.data, kChunk, room.mixed.data, kChunk, false, Triangle::kResult);
    decays.mask(room.mixed.data, rows, true, [&](int64_t i) { return beta[i]; });
    product(rows, s.columns, s.inner, room.k.data, depth, state, width, room.out.data, width, false);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t c = 0; c < width; c += W) {
        float* u = room.u.data + i * width + c;
        store(u, (load(u, Full{}) - load(room.out.data + i * width + c, Full{}) * decays.from[i]) * beta[i], Full{});
      }
    substitute(room.mixed.data, rows, room.u.data, s.columns, width);
  }
  if (out) {
    copy_rows(at.q + first * s.inner, rows, s.inner, room.q.data, depth);
    product(rows, rows, s.inner, room.q.data, depth, room.keys.data, kChunk, room.scores.data, kChunk, false, Triangle::kResult);
    decays.mask(room.scores.data, rows, false, [&](int64_t) { return s.scale; });
    product(rows, s.columns, rows, room.scores.data, kChunk, room.u.data, width, room.out.data, width, false, Triangle::kDepth);
    for (float& x : decays.from) x *= s.scale;
    scale_rows(room.q.data, rows, s.inner, depth, decays.from);
    product(rows, s.columns, s.inner, room.q.data, depth, state, width, room.out.data, width, true);
    put_rows(room.out.data, rows, s.columns, width, out + first * s.columns);
  }
  if (decays.any) {
    scale_columns(room.keys.data, s.inner, kChunk, kChunk, decays.to);
    for (int64_t i = 0; i < s.inner * width; i += W) store(state + i, load(state + i, Full{}) * decays.all, Full{});
  }
  product(s.inner, s.columns, rows, room.keys.data, kChunk, room.u.data, width, state, width, true);
}

// A row: the state is read and written once, where it lies.
template <class T>
void forward_row(const LinearShape& s, const HeadRows<T>& at, int64_t t, const float* state, float* next, T* out) {
  constexpr int V = 4;
  const T *q = at.q + t * s.inner, *k = at.k + t * s.inner, *v = at.v + t * s.columns;
  const float a = at.decay ? std::exp(without_infinity(at.decay[t])) : 1.0f;
  const auto columns = [&](int64_t c, auto vectors, auto lanes) KW_INLINED {
    constexpr int N = decltype(vectors)::value;
    F u[N], sum[N]{};
    for (int i = 0; i < N; ++i) u[i] = load(v + c + i * W, lanes);
    if (at.beta) {
      F seen[N]{};
      for (int64_t r = 0; r < s.inner; ++r)
        for (int i = 0; i < N; ++i) seen[i] = fma(load(state + r * s.columns + c + i * W, lanes), to_scalar(k[r]), seen[i]);
      for (int i = 0; i < N; ++i) u[i] = (u[i] - seen[i] * a) * at.beta[t];
    }
    for (int64_t r = 0; r < s.inner; ++r)
      for (int i = 0; i < N; ++i) {
        const int64_t to = r * s.columns + c + i * W;
        const F x = fma(u[i], to_scalar(k[r]), load(state + to, lanes) * a);
        store(next + to, x, lanes);
        sum[i] = fma(x, to_scalar(q[r]), sum[i]);
      }
    for (int i = 0; i < N; ++i) store(out + t * s.columns + c + i * W, sum[i] * s.scale, lanes);
  };
  int64_t c = 0;
  for (; c + V * W <= s.columns; c += V * W) columns(c, std::integral_constant<int, V>{}, Full{});
  for (; c + W <= s.columns; c += W) columns(c, std::integral_constant<int, 1>{}, Full{});
  if (c < s.columns) columns(c, std::integral_constant<int, 1>{}, Part{static_cast<int>(s.columns - c)});
}

// All rows of a head, from the state before (zeros if none) to the state after.
template <class T>
void forward_head(const LinearShape& s, const HeadRows<T>& at, const float* before, T* out, float* after) {
  if (s.length <= kFewRows && s.length) {
    if (!before) std::fill_n(after, s.inner * s.columns, 0.0f);
    for (int64_t t = 0; t < s.length; ++t) forward_row(s, at, t, t || !before ? after : before, after, out);
    return;
  }
  Temporary<float> state(s.inner * s.width());
  if (before) copy_rows(before, s.inner, s.columns, state.data, s.width());
  else std::fill_n(state.data, s.inner * s.width(), 0.0f);
  ChunkRoom room(s);
  for (int64_t first = 0; first < s.length; first += kChunk)
    forward_chunk(s, at, first, std::min(kChunk, s.length - first), state.data, room, out);
  put_rows(state.data, s.inner, s.columns, s.width(), after);
}

}  // namespace
}  // namespace kw
