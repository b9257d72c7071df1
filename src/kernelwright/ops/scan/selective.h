// The selective scan: a recurrence of its own for each channel and state, whose decay and input depend on the time.
//   h[t] = exp(delta[t] * a) * h[t - 1] + delta[t] * u[t] * b[t],  y[t] = sum over states of c[t] * h[t] + d * u[t]
// Lanes run along channels. A block of channels goes through a few times before the next does, so that what they share
// stays in the first cache, and states in the second.
// Source: Gu and Dao, Mamba: linear-time sequence modeling with selective state spaces (2023), algorithm 2.
#pragma once
#include <vector>

#include "gemm.h"
#include "stream_map.h"

namespace kw {
namespace {

constexpr int64_t kTimes = 32;    // of a chunk
constexpr int64_t kBlocks = 8;    // vectors of channels of a task

struct SelectiveShape {
  int64_t batch, length, channels, states;
  int64_t groups() const { return (channels + kBlocks * W - 1) / (kBlocks * W); }
};

// Rows of `states` numbers of up to W channels, a vector for each state; and back.
inline void read_states(const float* from, int64_t states, int count, float* to) {
  for (int64_t n = 0; n < states; n += W) {
    const Part lanes{static_cast<int>(std::min<int64_t>(W, states - n))};
    F block[W];
    for (int i = 0; i < W; ++i) block[i] = i < count ? load(from + i * states + n, lanes) : F{};
    transpose_lanes(block);
    for (int k = 0; k < lanes.count; ++k) store(to + (n + k) * W, block[k], Full{});
  }
}
inline void write_states(const float* from, int64_t states, int count, float* to) {
  for (int64_t n = 0; n < states; n += W) {
    const Part lanes{static_cast<int>(std::min<int64_t>(W, states - n))};
    F block[W];
    for (int k = 0; k < W; ++k) block[k] = k < lanes.count ? load(from + (n + k) * W, Full{}) : F{};
    transpose_lanes(block);
    for (int i = 0; i < count; ++i) store(to + i * states + n, block[i], lanes);
  }
}

// A task: one item of the batch, some blocks of channels.
template <class T> struct Selective {
  static constexpr float kLog2E = 1.44269504088896341f, kLn2 = 0.693147180559945309f;
  SelectiveShape s;
  const T *u, *delta, *b, *c;
  const float *a, *d, *before;  // d and before: or none
  int64_t item, first, blocks;  // the task's; first: channel
  Temporary<float> rates, states, inputs, outputs;  // rates: a in powers of two

  Selective(const SelectiveShape& s, const T* u, const T* delta, const float* a, const T* b, const T* c, const float* d,
            const float* before, int64_t task)
      : s(s), u(u), delta(delta), b(b), c(c), a(a), d(d), before(before), item(task / s.groups()),
        first(task % s.groups() * kBlocks * W),
        blocks((std::min(s.channels - first, kBlocks * W) + W - 1) / W), rates(kBlocks * s.states * W),
        states(kBlocks * s.states * W), inputs(kTimes * s.states), outputs(kTimes * s.states) {
    for (int64_t k = 0; k < blocks; ++k) {
      float* to = rates.data + k * s.states * W;
      read_states(a + channel(k) * s.states, s.states, count(k), to);
      for (int64_t i = 0; i < s.states * W; ++i) to[i] *= kLog2E;
      if (before) read_states(state_at(before, k), s.states, count(k), states.data + k * s.states * W);
      else std::fill_n(states.data + k * s.states * W, s.states * W, 0.0f);
    }
  }
  int64_t channel(int64_t block) const { return first + block * W; }
  int count(int64_t block) const { return static_cast<int>(std::min<int64_t>(W, s.channels - channel(block))); }
  template <class P> P* state_at(P* data, int64_t block) const {
    return data + (item * s.channels + channel(block)) * s.states;
  }
  int64_t row(int64_t t) const { return item * s.length + t; }
  // What all channels share at the times from t on, as floats.
  void share_times(int64_t t, int64_t times) {
    const auto copy = [&](const T* from, float* to) {
      sweep<1>(0, times * s.states, [&](int64_t i, auto lanes, int) KW_INLINED {
        store(to + i, load(from + row(t) * s.states + i, lanes), lanes);
      });
    };
    copy(b, inputs.data), copy(c, outputs.data);
  }
  template <class Lanes> void times_of_block(int64_t block, int64_t t, int64_t times, T* y, Lanes lanes) {
    float* h = states.data + block * s.states * W;
    const float* rate = rates.data + block * s.states * W;
    const F skip = d ? load(d + channel(block), lanes) : F{};
    for (int64_t i = 0; i < times; ++i) {
      const int64_t at = row(t + i) * s.channels + channel(block);
      const F step = load(delta + at, lanes), x = load(u + at, lanes), in = step * x;
      const float *to = inputs.data + i * s.states, *from = outputs.data + i * s.states;
      F sum = skip * x, other{};
      int64_t n = 0;
      const auto state = [&](int64_t k) KW_INLINED {
        const F next = fma(load(h + k * W, Full{}), exp2(step * load(rate + k * W, Full{})), in * to[k]);
        store(h + k * W, next, Full{});
        return next * from[k];
      };
      for (; n + 2 <= s.states; n += 2) sum += state(n), other += state(n + 1);
      if (n < s.states) sum += state(n);
      store(y + at, sum + other, lanes);
    }
  }
  template <class Body> void on_block(int64_t block, const Body& body) {
    if (count(block) == W) body(Full{});
    else body(Part{count(block)});
  }
  void forward(T* y, float* after) {
    for (int64_t t = 0; t < s.length; t += kTimes) {
      const int64_t times = std::min(kTimes, s.length - t);
      share_times(t, times);
      for (int64_t k = 0; k < blocks; ++k) on_block(k, [&](auto lanes) { times_of_block(k, t, times, y, lanes); });
    }
    for (int64_t k = 0; k < blocks; ++k)
      write_states(states.data + k * s.states * W, s.states, count(k), state_at(after, k));
  }
};

}  // namespace
}  // namespace kw
