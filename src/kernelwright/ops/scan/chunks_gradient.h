// Gradients of linear attention by chunks, from the last to the first: states at the chunks' beginnings are computed again,
// the gradient of the state goes back as the state went forward. A decay's gradient is the sum over the pairs of a key before
// it and a query from it on: within the chunk each pair's score times its slope, then of what a state at an end gives or takes.
// (Sums of `q[t] . dq[t] - k[t] . dk[t]` are the same number and cost less, but pairs that are no part of it must cancel.)
// Source: Yang et al., Gated linear attention transformers (2024), section 4 and appendix C.
#pragma once
#include <algorithm>

#include "chunks.h"

namespace kw {
namespace {

template <class T> struct HeadGradients {
  T *q, *k, *v;
  float *decay, *state;  // decay: or none
};

inline float dot(const float* a, const float* b, int64_t n) {
  F sum{};
  for (int64_t i = 0; i < n; i += W) sum = fma(load(a + i, Full{}), load(b + i, Full{}), sum);
  return static_cast<float>(sum_lanes(__builtin_convertvector(sum, D)));
}

// Memory of a head's way back. Suffix `_t`: transposed.
struct GradientRoom {
  Temporary<float> q, k, v, out, q_t, k_t, v_t, scores, slopes, turned, dq, dk, dv, state_t, change, change_t;
  explicit GradientRoom(const LinearShape& s)
      : q(kChunk * s.depth()), k(kChunk * s.depth()), v(kChunk * s.width()), out(kChunk * s.width()), q_t(s.depth() * kChunk),
        k_t(s.depth() * kChunk), v_t(s.width() * kChunk), scores(kChunk * kChunk), slopes(kChunk * kChunk),
        turned(kChunk * kChunk), dq(kChunk * s.depth()), dk(kChunk * s.depth()), dv(kChunk * s.width()),
        state_t(s.width() * s.depth()), change(s.depth() * s.width()), change_t(s.width() * s.depth()) {}
};

// into[t] += what pairs of rows give, the key before t and the query from t on; of each pair the score, faded, and its slope.
inline void add_pairs(const float* scores, const float* slopes, int64_t rows, double* into) {
  for (int64_t i = 0; i < rows; ++i) {
    double before = 0;
    for (int64_t t = 0; t <= i; ++t) {
      into[t] += before;
      before += double(scores[i * kChunk + t]) * double(slopes[i * kChunk + t]);
    }
  }
}

// into[t] += of rows from t on what they take of the state before the chunk, of rows before t what they give the one after,
// and what the one gives the other.
inline void add_ends(const double* taken, const double* given, double through, int64_t rows, double* into) {
  for (int64_t t = 0; t < rows; ++t) into[t] += through, through += given[t];
  double later = 0;
  for (int64_t t = rows - 1; t >= 0; --t) into[t] += later += taken[t];
}

// One chunk; room.change is the gradient of the state after it, and then of the state before it.
template <class T>
void backward_chunk(const LinearShape& s, const HeadRows<T>& at, const T* slope, const float* state, int64_t first, int64_t rows,
                    GradientRoom& room, const HeadGradients<T>& to) {
  const int64_t depth = s.depth(), width = s.width(), n = s.inner, m = s.columns;
  Decays decays;
  decays.set(at.decay ? at.decay + first : nullptr, rows);
  copy_rows(at.q + first * n, rows, n, room.q.data, depth);
  copy_rows(at.k + first * n, rows, n, room.k.data, depth);
  copy_rows(at.v + first * m, rows, m, room.v.data, width);
  copy_rows(slope + first * m, rows, m, room.out.data, width, [&](int64_t) { return s.scale; });
  transpose(room.k.data, rows, n, depth, room.k_t.data, kChunk);
  transpose(room.v.data, rows, m, width, room.v_t.data, kChunk);
  transpose(room.q.data, rows, n, depth, room.q_t.data, kChunk);
  transpose(state, n, m, width, room.state_t.data, depth);
  transpose(room.change.data, n, m, width, room.change_t.data, depth);
  const auto one = [](int64_t) { return 1.0f; };
  float *scores = room.scores.data, *slopes = room.slopes.data, *turned = room.turned.data;
  product(rows, rows, n, room.q.data, depth, room.k_t.data, kChunk, scores, kChunk, false, Triangle::kResult);
  product(rows, rows, m, room.out.data, width, room.v_t.data, kChunk, slopes, kChunk, false, Triangle::kResult);
  double own[kChunk] = {}, taken[kChunk], given[kChunk];
  decays.mask(scores, rows, false, one);
  if (to.decay) add_pairs(scores, slopes, rows, own);
  decays.mask(slopes, rows, false, one);
  // Through the states at the chunk's two ends, and within it.
  transpose(scores, rows, kChunk, kChunk, turned, kChunk);
  product(rows, m, rows, turned, kChunk, room.out.data, width, room.dv.data, width, false, Triangle::kDepthFrom);
  if (decays.any) {
    scale_rows(room.v.data, rows, width, width, decays.to), scale_rows(room.out.data, rows, width, width, decays.from);
  }
  product(rows, n, m, room.v.data, width, room.change_t.data, depth, room.dk.data, depth, false);
  product(rows, n, m, room.out.data, width, room.state_t.data, depth, room.dq.data, depth, false);
  for (int64_t i = 0; i < rows && to.decay; ++i) {
    taken[i] = dot(room.q.data + i * depth, room.dq.data + i * depth, depth);
    given[i] = dot(room.k.data + i * depth, room.dk.data + i * depth, depth);
  }
  product(rows, n, rows, slopes, kChunk, room.k.data, depth, room.dq.data, depth, true, Triangle::kDepth);
  transpose(slopes, rows, kChunk, kChunk, turned, kChunk);
  product(rows, n, rows, turned, kChunk, room.q.data, depth, room.dk.data, depth, true, Triangle::kDepthFrom);
  if (decays.any) scale_rows(room.k.data, rows, depth, depth, decays.to);
  product(rows, m, n, room.k.data, depth, room.change.data, width, room.dv.data, width, true);
  if (decays.any)
    for (int64_t i = 0; i < n * width; i += W)
      store(room.change.data + i, load(room.change.data + i, Full{}) * decays.all, Full{});
  if (to.decay) {
    add_ends(taken, given, dot(room.change.data, state, n * width), rows, own);
    std::copy_n(own, rows, to.decay + first);
  }
  product(n, m, rows, room.q_t.data, kChunk, room.out.data, width, room.change.data, width, true);
  put_rows(room.dq.data, rows, n, depth, to.q + first * n);
  put_rows(room.dk.data, rows, n, depth, to.k + first * n);
  put_rows(room.dv.data, rows, m, width, to.v + first * m);
}

// slope: the gradient of the head's results; change: of the state after, or none.
template <class T>
void backward_head(const LinearShape& s, const HeadRows<T>& at, const float* before, const T* slope, const float* change,
                   const HeadGradients<T>& to) {
  const int64_t chunks = (s.length + kChunk - 1) / kChunk, size = s.inner * s.width();
  Temporary<float> states(std::max<int64_t>(chunks, 1) * size);
  if (before) copy_rows(before, s.inner, s.columns, states.data, s.width());
  else std::fill_n(states.data, size, 0.0f);
  {
    ChunkRoom room(s);
    for (int64_t c = 0; c + 1 < chunks; ++c) {
      float* next = states.data + (c + 1) * size;
      std::memcpy(next, next - size, static_cast<size_t>(size) * sizeof(float));
      forward_chunk<T>(s, at, c * kChunk, kChunk, next, room, nullptr);
    }
  }
  GradientRoom room(s);
  if (change) copy_rows(change, s.inner, s.columns, room.change.data, s.width());
  else std::fill_n(room.change.data, size, 0.0f);
  for (int64_t c = chunks - 1; c >= 0; --c)
    backward_chunk(s, at, slope, states.data + c * size, c * kChunk, std::min(kChunk, s.length - c * kChunk), room, to);
  put_rows(room.change.data, s.inner, s.columns, s.width(), to.state);
}

}  // namespace
}  // namespace kw
