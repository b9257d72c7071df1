// Activations and gated products, forward and backward: every byte is read once and written once.
#include "rows.h"
#include "stream_map.h"

namespace kw {
namespace {

constexpr int64_t kChunk = 1024;  // elements of a row that are computed, then leave together
constexpr int64_t kAsked = 4096;  // elements between what is read and what is asked for
constexpr int64_t kCost = 4;      // what an element with an exponential costs, in elements that are only moved

struct Curve {
  F value, slope;
};

struct Silu {
  static KW_INLINE F value(F x) { return silu(x); }
  static KW_INLINE Curve both(F x) {
    const F s = sigmoid(x);
    return {x * s, s * fma(x, 1.0f - s, splat(1.0f))};
  }
};
struct Gelu {
  static KW_INLINE F value(F x) { return gelu(x); }
  static KW_INLINE Curve both(F x) {
    F power;
    const F below = normal(x, power);
    return {x * below, fma(x * power, 0.3989422804014327f, below)};
  }
};
struct GeluTanh {
  static KW_INLINE F value(F x) { return gelu_tanh(x); }
  static KW_INLINE Curve both(F x) {
    const F near = within(x, -15.0f, 15.0f), square = near * near;
    const F s = sigmoid(1.5957691216057308f * near * fma(square, 0.044715f, splat(1.0f)));
    const F steep = 1.5957691216057308f * fma(square, 0.134145f, splat(1.0f));
    return {x * s, fma(near * s * (1.0f - s), steep, s)};
  }
};

// `rows` rows of n elements, each tensor's a stride of its own apart.
struct Grid {
  int64_t rows, n;
};
template <class T> struct Walk {
  T* data = nullptr;
  int64_t stride = 0;
  KW_INLINE T* at(int64_t row) const { return data + row * stride; }
};

// outs[..][row][i] = body(row, i, lanes) for all elements of a grid. Results that are larger than the caches are staged
// in the nearest one and leave chunk by chunk.
template <size_t N, class T, class Body> void walk(Grid grid, const std::array<Walk<T>, N>& outs, const Body& body) {
  const int64_t chunks = (grid.n + kChunk - 1) / kChunk;
  const auto run = [&](auto streamed) {
    constexpr bool kStaged = decltype(streamed)::value;
    in_shares(grid.rows * chunks, grid.rows * grid.n * kCost, 16, [&](int64_t first, int64_t last) {
      alignas(kLine) T stage[N][kStaged ? kChunk : 1];
      for (int64_t c = first; c < last; ++c) {
        const int64_t row = c / chunks, begin = c % chunks * kChunk, n = std::min(kChunk, grid.n - begin);
        T* to[N];
        for (size_t k = 0; k < N; ++k) to[k] = kStaged ? stage[k] : outs[k].at(row) + begin;
        sweep<4>(0, n, [&](int64_t i, auto lanes, int) KW_INLINED {
          const std::array<F, N> values = body(row, begin + i, lanes);
          for (size_t k = 0; k < N; ++k) store(to[k] + i, values[k], lanes);
        });
        if constexpr (kStaged)
          for (size_t k = 0; k < N; ++k) stream_bytes(outs[k].at(row) + begin, stage[k], n * int64_t(sizeof(T)));
      }
    });
  };
  if (streams(grid.rows * grid.n, outs[0].data)) run(std::true_type{});
  else run(std::false_type{});
}

// Loads, and asks for what comes a few chunks later.
template <class T, class Lanes> KW_INLINE F take(const T* p, Lanes lanes) {
  ask(p, kAsked);
  return load(p, lanes);
}

template <class T> Walk<const T> input(const Args& args, int i, Grid grid) {
  const auto t = args.tensor<const T>(i);
  if (!t.contiguous()) KW_UNSUPPORTED("a tensor is not contiguous");
  return {t.data(), grid.n};
}
template <class T> Walk<T> output(const Args& args, int i, int64_t stride) {
  const auto t = args.tensor<T>(i);
  ask_large_pages(t.data(), t.numel() * int64_t(sizeof(T)));
  return {t.data(), stride};
}

// Calls body(curve, element) for the curve and the element type of argument i.
template <class Body> void chosen(const Args& args, int i, int64_t curve, const Body& body) {
  const auto typed = [&](auto shape) {
    if (args.is<float>(i)) body(shape, float{});
    else body(shape, bfloat16{});
  };
  if (curve == 0) typed(Silu{});
  else if (curve == 1) typed(Gelu{});
  else if (curve == 2) typed(GeluTanh{});
  else KW_UNSUPPORTED("a curve other than 0, 1 and 2");
}

template <class C, class T> void glu(Grid grid, Walk<const T> gate, Walk<const T> up, Walk<T> out) {
  walk(grid, std::array{out}, [&](int64_t row, int64_t i, auto lanes) KW_INLINED {
    return std::array{C::value(take(gate.at(row) + i, lanes)) * take(up.at(row) + i, lanes)};
  });
}

template <class C, class T>
void glu_backward(Grid grid, Walk<const T> g, Walk<const T> gate, Walk<const T> up, Walk<T> dgate, Walk<T> dup) {
  walk(grid, std::array{dgate, dup}, [&](int64_t row, int64_t i, auto lanes) KW_INLINED {
    const F gradient = take(g.at(row) + i, lanes);
    const Curve curve = C::both(take(gate.at(row) + i, lanes));
    return std::array{gradient * take(up.at(row) + i, lanes) * curve.slope, gradient * curve.value};
  });
}

Grid flat(const Args& args, int i) {
  const DLTensor* t = args.any_tensor(i);
  int64_t n = 1;
  for (int axis = 0; axis < t->ndim; ++axis) n *= t->shape[axis];
  return {1, n};
}

}  // namespace
}  // namespace kw

// x, curve; out
KW_KERNEL(activation) {
  const kw::Grid grid = kw::flat(args, 0);
  kw::chosen(args, 0, args.integer(1), [&](auto shape, auto type) {
    using C = decltype(shape);
    using T = decltype(type);
    const auto x = kw::input<T>(args, 0, grid);
    const auto out = kw::output<T>(args, 2, grid.n);
    kw::walk(grid, std::array{out}, [&](int64_t, int64_t i, auto lanes) KW_INLINED {
      return std::array{C::value(kw::take(x.data + i, lanes))};
    });
  });
}

// gradient, x, curve; dx
KW_KERNEL(activation_backward) {
  const kw::Grid grid = kw::flat(args, 1);
  kw::chosen(args, 1, args.integer(2), [&](auto shape, auto type) {
    using C = decltype(shape);
    using T = decltype(type);
    const auto g = kw::input<T>(args, 0, grid), x = kw::input<T>(args, 1, grid);
    const auto out = kw::output<T>(args, 3, grid.n);
    kw::walk(grid, std::array{out}, [&](int64_t, int64_t i, auto lanes) KW_INLINED {
      return std::array{kw::take(g.data + i, lanes) * C::both(kw::take(x.data + i, lanes)).slope};
    });
  });
}

// gate, up, curve; out
KW_KERNEL(glu) {
  const kw::Grid grid = kw::flat(args, 0);
  kw::chosen(args, 0, args.integer(2), [&](auto shape, auto type) {
    using T = decltype(type);
    kw::glu<decltype(shape), T>(grid, kw::input<T>(args, 0, grid), kw::input<T>(args, 1, grid),
                                kw::output<T>(args, 3, grid.n));
  });
}

// gradient, gate, up, curve; dgate, dup
KW_KERNEL(glu_backward) {
  const kw::Grid grid = kw::flat(args, 1);
  kw::chosen(args, 1, args.integer(3), [&](auto shape, auto type) {
    using T = decltype(type);
    kw::glu_backward<decltype(shape), T>(grid, kw::input<T>(args, 0, grid), kw::input<T>(args, 1, grid),
                                         kw::input<T>(args, 2, grid), kw::output<T>(args, 4, grid.n),
                                         kw::output<T>(args, 5, grid.n));
  });
}

// gate and up side by side in rows, curve; out
KW_KERNEL(glu_packed) {
  const DLTensor* t = args.any_tensor(0);
  const int64_t n = t->shape[t->ndim - 1] / 2;
  if (n == 0) return;
  const kw::Grid grid{kw::flat(args, 0).n / (2 * n), n};
  kw::chosen(args, 0, args.integer(1), [&](auto shape, auto type) {
    using T = decltype(type);
    const auto x = kw::input<T>(args, 0, {1, 2 * n});
    kw::glu<decltype(shape), T>(grid, {x.data, 2 * n}, {x.data + n, 2 * n}, kw::output<T>(args, 2, n));
  });
}

// gradient, gate and up side by side in rows, curve; the gradients side by side
KW_KERNEL(glu_packed_backward) {
  const DLTensor* t = args.any_tensor(1);
  const int64_t n = t->shape[t->ndim - 1] / 2;
  if (n == 0) return;
  const kw::Grid grid{kw::flat(args, 1).n / (2 * n), n};
  kw::chosen(args, 1, args.integer(2), [&](auto shape, auto type) {
    using T = decltype(type);
    const auto g = kw::input<T>(args, 0, grid), x = kw::input<T>(args, 1, {1, 2 * n});
    const auto dx = kw::output<T>(args, 3, 2 * n);
    kw::glu_backward<decltype(shape), T>(grid, g, {x.data, 2 * n}, {x.data + n, 2 * n}, dx, {dx.data + n, 2 * n});
  });
}
