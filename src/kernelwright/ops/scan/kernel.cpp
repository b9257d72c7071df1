// Scans: the selective scan of Mamba, linear attention with decay (which Mamba-2 is), and the gated delta rule.
#include "vector.h"
#include "chunks_gradient.h"
#include "selective_gradient.h"

namespace kw {
namespace {

template <class T> const T* maybe(const Args& args, int i) { return args.is_none(i) ? nullptr : args.tensor<const T>(i).data(); }

// Calls body(T{}) for the type of argument 0, once for every task, on torch's threads.
template <class Body> void typed(const Args& args, const Body& body) {
  if (args.is<float>(0)) body(float{});
  else body(bfloat16{});
}
template <class Body> void tasks(int64_t count, const Body& body) {
#pragma omp parallel for schedule(dynamic) if (count > 1)
  for (int64_t i = 0; i < count; ++i) body(i);
}

SelectiveShape selective_shape(const Args& args) {
  const DLTensor *u = args.any_tensor(0), *a = args.any_tensor(2);
  return {u->shape[0], u->shape[1], u->shape[2], a->shape[1]};
}

// q and k: (batch, groups, length, inner); v: (batch, heads, length, columns).
LinearShape linear_shape(const Args& args, int scale) {
  const DLTensor *q = args.any_tensor(0), *v = args.any_tensor(2);
  return {q->shape[0], v->shape[1], q->shape[1], q->shape[2], q->shape[3], v->shape[3], static_cast<float>(args.real(scale))};
}

template <class T> HeadRows<T> head_rows(const Args& args, const LinearShape& s, int64_t task, int decay, int beta) {
  const int64_t shared = (task / s.heads * s.groups + s.group_of(task % s.heads)) * s.length * s.inner;
  const float *g = maybe<float>(args, decay), *b = beta < 0 ? nullptr : maybe<float>(args, beta);
  return {args.tensor<const T>(0).data() + shared, args.tensor<const T>(1).data() + shared,
          args.tensor<const T>(2).data() + task * s.length * s.columns, g ? g + task * s.length : nullptr,
          b ? b + task * s.length : nullptr};
}

void forward_linear(const Args& args, int decay, int beta, int state, int scale) {
  const LinearShape s = linear_shape(args, scale);
  const float* before = maybe<float>(args, state);
  const int64_t size = s.inner * s.columns;
  typed(args, [&](auto type) {
    using T = decltype(type);
    T* out = args.tensor<T>(scale + 1).data();
    float* after = args.tensor<float>(scale + 2).data();
    tasks(s.batch * s.heads, [&](int64_t i) {
      forward_head(s, head_rows<T>(args, s, i, decay, beta), before ? before + i * size : nullptr,
                   out + i * s.length * s.columns, after + i * size);
    });
  });
}

}  // namespace
}  // namespace kw

// u, delta, a, b, c, d, state; y, the state after
KW_KERNEL(scan_selective) {
  const auto s = kw::selective_shape(args);
  kw::typed(args, [&](auto type) {
    using T = decltype(type);
    const auto at = [&](int i) { return args.tensor<const T>(i).data(); };
    const float *a = args.tensor<const float>(2).data(), *d = kw::maybe<float>(args, 5), *before = kw::maybe<float>(args, 6);
    T* y = args.tensor<T>(7).data();
    float* after = args.tensor<float>(8).data();
    kw::tasks(s.batch * s.groups(), [&](int64_t i) {
      kw::Selective<T>(s, at(0), at(1), a, at(3), at(4), d, before, i).forward(y, after);
    });
  });
}

// u, delta, a, b, c, d, state, gradients of y and of the state after or none; gradients of u, delta, a, b, c, d and the state
KW_KERNEL(scan_selective_backward) {
  const auto s = kw::selective_shape(args);
  kw::typed(args, [&](auto type) {
    using T = decltype(type);
    const auto at = [&](int i) { return args.tensor<const T>(i).data(); };
    const float *a = args.tensor<const float>(2).data(), *d = kw::maybe<float>(args, 5), *before = kw::maybe<float>(args, 6);
    const float* after = kw::maybe<float>(args, 8);
    const int64_t of_a = s.channels * s.states, of_b = s.batch * s.length * s.states;
    std::vector<float> as(static_cast<size_t>(s.batch * of_a)), ds(static_cast<size_t>(s.batch * s.channels));
    std::vector<float> bs(static_cast<size_t>(s.groups() * of_b)), cs(bs.size());
    const kw::SelectiveGradients<T> to{args.tensor<T>(9).data(), args.tensor<T>(10).data(), args.tensor<float>(15).data(),
                                       as.data(), ds.data(), bs.data(), cs.data()};
    kw::tasks(s.batch * s.groups(), [&](int64_t i) {
      kw::SelectiveBack<T>(at(7), to, s, at(0), at(1), a, at(3), at(4), d, before, i).run(after);
    });
    const auto sum = [&](const std::vector<float>& parts, int64_t size, auto* out) {
      for (int64_t i = 0; i < size; ++i) {
        double total = 0;
        for (size_t p = static_cast<size_t>(i); p < parts.size(); p += static_cast<size_t>(size)) total += parts[p];
        out[i] = static_cast<float>(total);
      }
    };
    sum(as, of_a, args.tensor<float>(11).data()), sum(ds, s.channels, args.tensor<float>(14).data());
    sum(bs, of_b, args.tensor<T>(12).data()), sum(cs, of_b, args.tensor<T>(13).data());
  });
}

// q, k, v, decay, state, scale; the results, the state after
KW_KERNEL(scan_linear) { kw::forward_linear(args, 3, -1, 4, 5); }

// q, k, v, beta, decay, state, scale; the results, the state after
KW_KERNEL(scan_delta) { kw::forward_linear(args, 4, 3, 5, 6); }

// q, k, v, decay, state, scale, gradients of the results and of the state after or none; gradients of q and k (of each head),
// v, decay (empty without one) and the state
KW_KERNEL(scan_linear_backward) {
  const auto s = kw::linear_shape(args, 5);
  const float *before = kw::maybe<float>(args, 4), *change = kw::maybe<float>(args, 7);
  const int64_t size = s.inner * s.columns;
  const bool decays = !args.is_none(3);
  kw::typed(args, [&](auto type) {
    using T = decltype(type);
    const T* slope = args.tensor<const T>(6).data();
    const auto to = [&](int i) { return args.tensor<T>(i).data(); };
    kw::tasks(s.batch * s.heads, [&](int64_t i) {
      const int64_t row = i * s.length;
      const kw::HeadGradients<T> gradients{to(8) + row * s.inner, to(9) + row * s.inner, to(10) + row * s.columns,
                                           decays ? args.tensor<float>(11).data() + row : nullptr,
                                           args.tensor<float>(12).data() + i * size};
      kw::backward_head(s, kw::head_rows<T>(args, s, i, 3, -1), before ? before + i * size : nullptr, slope + row * s.columns,
                        change ? change + i * size : nullptr, gradients);
    });
  });
}
