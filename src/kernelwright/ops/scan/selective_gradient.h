// Gradients of the selective scan, from the last times to the first: states of a chunk are computed again from the one at
// its beginning, which the way forward keeps. What channels add to the gradients of b and c is summed lane by lane over a
// task, then over lanes, then over tasks in their order.
#pragma once
#include "selective.h"

namespace kw {
namespace {

template <class T> struct SelectiveGradients {
  T *u, *delta;
  float *state, *a, *d;        // a and d: of an item each
  float *b, *c;                // of a group of channels each
};

template <class T> struct SelectiveBack : Selective<T> {
  using Base = Selective<T>;
  using Base::s;
  const T* slope;               // of y
  const SelectiveGradients<T>& to;
  Temporary<float> kept, path, decays, change, rate_sums, skip_sums, b_sums, c_sums;

  template <class... Given>
  SelectiveBack(const T* slope, const SelectiveGradients<T>& to, const SelectiveShape& shape, Given... given)
      : Base(shape, given...), slope(slope), to(to), kept((shape.length / kTimes + 1) * kBlocks * shape.states * W),
        path((kTimes + 1) * shape.states * W), decays(kTimes * shape.states * W), change(kBlocks * shape.states * W),
        rate_sums(kBlocks * shape.states * W), skip_sums(kBlocks * W), b_sums(kTimes * shape.states * W),
        c_sums(kTimes * shape.states * W) {}

  // States of a chunk's times after the one in `path`; their decays.
  template <class Lanes> void follow(int64_t block, int64_t t, int64_t times, Lanes lanes) {
    const int64_t size = s.states * W;
    const float* rate = this->rates.data + block * size;
    for (int64_t i = 0; i < times; ++i) {
      const int64_t at = this->row(t + i) * s.channels + this->channel(block);
      const F step = load(this->delta + at, lanes), in = step * load(this->u + at, lanes);
      for (int64_t n = 0; n < s.states; ++n) {
        const F decay = exp2(step * load(rate + n * W, Full{}));
        store(decays.data + i * size + n * W, decay, Full{});
        store(path.data + (i + 1) * size + n * W,
              fma(load(path.data + i * size + n * W, Full{}), decay, in * this->inputs.data[i * s.states + n]), Full{});
      }
    }
  }
  template <class Lanes> void back(int64_t block, int64_t t, int64_t times, Lanes lanes) {
    const int64_t size = s.states * W;
    const float* rate = this->rates.data + block * size;
    float *dh = change.data + block * size, *da = rate_sums.data + block * size;
    const F skip = this->d ? load(this->d + this->channel(block), lanes) : F{};
    F skips = load(skip_sums.data + block * W, Full{});
    for (int64_t i = times - 1; i >= 0; --i) {
      const int64_t at = this->row(t + i) * s.channels + this->channel(block);
      const F step = load(this->delta + at, lanes), x = load(this->u + at, lanes), dy = load(slope + at, lanes), in = step * x;
      F through{}, decayed{};
      for (int64_t n = 0; n < s.states; ++n) {
        float *b_sum = b_sums.data + i * size + n * W, *c_sum = c_sums.data + i * size + n * W;
        const F now = load(path.data + (i + 1) * size + n * W, Full{}), past = load(path.data + i * size + n * W, Full{});
        const F decay = load(decays.data + i * size + n * W, Full{});
        const F d = fma(dy, splat(this->outputs.data[i * s.states + n]), load(dh + n * W, Full{}));
        store(c_sum, fma(dy, now, load(c_sum, Full{})), Full{});
        store(b_sum, fma(d, in, load(b_sum, Full{})), Full{});
        const F moved = d * decay, by = moved * past;
        through = fma(d, splat(this->inputs.data[i * s.states + n]), through);
        decayed = fma(by, load(rate + n * W, Full{}), decayed);
        store(da + n * W, fma(by, step, load(da + n * W, Full{})), Full{});
        store(dh + n * W, moved, Full{});
      }
      skips = fma(dy, x, skips);
      store(to.u + at, fma(through, step, skip * dy), lanes);
      store(to.delta + at, fma(through, x, decayed * Base::kLn2), lanes);
    }
    store(skip_sums.data + block * W, skips, Full{});
  }
  void run(const float* after) {
    const int64_t size = s.states * W, all = this->blocks * size, group = this->first / (kBlocks * W);
    for (int64_t t = 0; t < s.length; t += kTimes) {
      std::memcpy(kept.data + t / kTimes * all, this->states.data, static_cast<size_t>(all) * sizeof(float));
      const int64_t times = std::min(kTimes, s.length - t);
      this->share_times(t, times);
      for (int64_t k = 0; k < this->blocks; ++k)
        this->on_block(k, [&](auto lanes) {
          std::memcpy(path.data, this->states.data + k * size, static_cast<size_t>(size) * sizeof(float));
          follow(k, t, times, lanes);
          std::memcpy(this->states.data + k * size, path.data + times * size, static_cast<size_t>(size) * sizeof(float));
        });
    }
    std::fill_n(rate_sums.data, all, 0.0f), std::fill_n(skip_sums.data, this->blocks * W, 0.0f);
    for (int64_t k = 0; k < this->blocks; ++k) {
      if (after) read_states(this->state_at(after, k), s.states, this->count(k), change.data + k * size);
      else std::fill_n(change.data + k * size, size, 0.0f);
    }
    for (int64_t t = (s.length - 1) / kTimes * kTimes; t >= 0 && s.length; t -= kTimes) {
      const int64_t times = std::min(kTimes, s.length - t);
      this->share_times(t, times);
      std::fill_n(b_sums.data, times * size, 0.0f), std::fill_n(c_sums.data, times * size, 0.0f);
      for (int64_t k = 0; k < this->blocks; ++k)
        this->on_block(k, [&](auto lanes) {
          std::memcpy(path.data, kept.data + t / kTimes * all + k * size, static_cast<size_t>(size) * sizeof(float));
          follow(k, t, times, lanes);
          back(k, t, times, lanes);
        });
      const int64_t at = (group * s.batch * s.length + this->row(t)) * s.states;
      for (int64_t i = 0; i < times * s.states; ++i) {
        to.b[at + i] = summed(b_sums.data + i * W), to.c[at + i] = summed(c_sums.data + i * W);
      }
    }
    for (int64_t k = 0; k < this->blocks; ++k) {
      write_states(change.data + k * size, s.states, this->count(k), this->state_at(to.state, k));
      write_states(rate_sums.data + k * size, s.states, this->count(k), this->state_at(to.a, k));
      store(to.d + this->item * s.channels + this->channel(k), load(skip_sums.data + k * W, Full{}), Part{this->count(k)});
    }
  }
  static float summed(const float* lanes) {
    return static_cast<float>(sum_lanes(__builtin_convertvector(load(lanes, Full{}), D)));
  }
};

}  // namespace
}  // namespace kw
