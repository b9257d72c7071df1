// Gradients of linear attention by chunks, from the last to the first: states at the chunks' beginnings are computed again,
// the gradient of the state goes back as the state went forward. A decay's gradient needs no product of its own: what
// `q[t] . dq[t] - k[t] . dk[t]` sums from t on is the gradient of the logarithm at t.
// Source: Yang et al., Gated linear attention transformers (2024), section 4 and appendix C.
#pragma once
#include <vector>

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

// One chunk; room.change is the gradient of the state after it, and then of the state before it.
template <class T>
void backward_chunk(const LinearShape& s, const HeadRows<T>& at, const T* slope, const float* state, int64_t first, int64_t rows,
                    GradientRoom& room, const HeadGradients<T>& to, double* steps) {
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
  decays.mask(scores, rows, false, one), decays.mask(slopes, rows, false, one);
  // Within the chunk, then through the states at its two ends.
  transpose(scores, rows, kChunk, kChunk, turned, kChunk);
  product(rows, m, rows, turned, kChunk, room.out.data, width, room.dv.data, width, false, Triangle::kDepthFrom);
  product(rows, n, rows, slopes, kChunk, room.k.data, depth, room.dq.data, depth, false, Triangle::kDepth);
  transpose(slopes, rows, kChunk, kChunk, turned, kChunk);
  product(rows, n, rows, turned, kChunk, room.q.data, depth, room.dk.data, depth, false, Triangle::kDepthFrom);
  if (decays.any) {
    scale_rows(room.k.data, rows, depth, depth, decays.to), scale_rows(room.v.data, rows, width, width, decays.to);
  }
  product(rows, m, n, room.k.data, depth, room.change.data, width, room.dv.data, width, true);
  product(rows, n, m, room.v.data, width, room.change_t.data, depth, room.dk.data, depth, true);
  if (decays.any) scale_rows(room.out.data, rows, width, width, decays.from);
  product(rows, n, m, room.out.data, width, room.state_t.data, depth, room.dq.data, depth, true);
  if (decays.any)
    for (int64_t i = 0; i < n * width; i += W)
      store(room.change.data + i, load(room.change.data + i, Full{}) * decays.all, Full{});
  product(n, m, rows, room.q_t.data, kChunk, room.out.data, width, room.change.data, width, true);
  put_rows(room.dq.data, rows, n, depth, to.q + first * n);
  put_rows(room.dk.data, rows, n, depth, to.k + first * n);
  put_rows(room.dv.data, rows, m, width, to.v + first * m);
  if (!to.decay) return;
  copy_rows(at.q + first * n, rows, n, room.q.data, depth);
  copy_rows(at.k + first * n, rows, n, room.k.data, depth);
  for (int64_t i = 0; i < rows; ++i)
    steps[first + i] = double(dot(room.q.data + i * depth, room.dq.data + i * depth, depth)) -
                       double(dot(room.k.data + i * depth, room.dk.data + i * depth, depth));
}

// slope: the gradient of the head's results; change: of the state after, or none.
template <class T>
void backward_head(const LinearShape& s, const HeadRows<T>& at, const float* before, const T* slope, const float* change,
                   const HeadGradients<T>& to) {
  const int64_t chunks = (s.length + kChunk - 1) / kChunk, size = s.inner * s.width();
  Temporary<float> states((chunks + 1) * size);
  if (before) copy_rows(before, s.inner, s.columns, states.data, s.width());
  else std::fill_n(states.data, size, 0.0f);
  {
    ChunkRoom room(s);
    for (int64_t c = 0; c < chunks; ++c) {
      float* next = states.data + (c + 1) * size;
      std::memcpy(next, next - size, static_cast<size_t>(size) * sizeof(float));
      forward_chunk<T>(s, at, c * kChunk, std::min(kChunk, s.length - c * kChunk), next, room, nullptr);
    }
  }
  GradientRoom room(s);
  if (change) copy_rows(change, s.inner, s.columns, room.change.data, s.width());
  else std::fill_n(room.change.data, size, 0.0f);
  double later = dot(room.change.data, states.data + chunks * size, size);
  std::vector<double> steps(static_cast<size_t>(s.length));
  for (int64_t c = chunks - 1; c >= 0; --c)
    backward_chunk(s, at, slope, states.data + c * size, c * kChunk, std::min(kChunk, s.length - c * kChunk), room, to, steps.data());
  put_rows(room.change.data, s.inner, s.columns, s.width(), to.state);
  if (to.decay)
    for (int64_t t = s.length - 1; t >= 0; --t) to.decay[t] = static_cast<float>(later += steps[static_cast<size_t>(t)]);
}

}  // namespace
}  // namespace kw
