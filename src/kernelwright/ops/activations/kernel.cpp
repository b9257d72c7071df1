// Activations and gated products, forward and backward: every byte is read once and written once.
#include "stream_map.h"

namespace kw {
namespace {

constexpr int64_t kChunk = 4096;  // elements of a row that a thread takes at once
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

// Calls body(streamed, row, i, lanes) for all vectors of a grid, those of `out` on boundaries where they stream.
template <class T, class Body> void walk(Grid grid, Walk<T> out, bool streamed, const Body& body) {
  const int64_t chunks = (grid.n + kChunk - 1) / kChunk;
  const auto run = [&](auto stream) {
    in_shares(grid.rows * chunks, grid.rows * grid.n * kCost, 1, [&](int64_t first, int64_t last) {
      for (int64_t c = first; c < last; ++c) {
        const int64_t row = c / chunks, begin = c % chunks * kChunk;
        sweep_lines<stream.value, 4>(out.at(row), begin, std::min(begin + kChunk, grid.n),
                                     [&](int64_t i, auto lanes, int) KW_INLINED { body(stream, row, i, lanes); });
      }
    });
  };
  if (streamed) run(std::true_type{});
  else run(std::false_type{});
}

template <class T> KW_INLINE void ahead(const T* p, bool streamed) {
  if (streamed) __builtin_prefetch(p + kAheadBytes / int64_t(sizeof(T)), 0, 0);
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
  walk(grid, out, streams(grid.rows * grid.n, out.data), [&](auto stream, int64_t row, int64_t i, auto lanes) KW_INLINED {
    const T *g = gate.at(row) + i, *u = up.at(row) + i;
    ahead(g, stream.value), ahead(u, stream.value);
    write<stream.value>(out.at(row) + i, C::value(load(g, lanes)) * load(u, lanes), lanes);
  });
}

template <class C, class T>
void glu_backward(Grid grid, Walk<const T> g, Walk<const T> gate, Walk<const T> up, Walk<T> dgate, Walk<T> dup) {
  const bool alike = streams(grid.rows * grid.n, dgate.data, dup.data);
  walk(grid, dgate, alike, [&](auto stream, int64_t row, int64_t i, auto lanes) KW_INLINED {
    const T *from = g.at(row) + i, *a = gate.at(row) + i, *b = up.at(row) + i;
    ahead(from, stream.value), ahead(a, stream.value), ahead(b, stream.value);
    const F gradient = load(from, lanes);
    const Curve curve = C::both(load(a, lanes));
    write<stream.value>(dgate.at(row) + i, gradient * load(b, lanes) * curve.slope, lanes);
    write<stream.value>(dup.at(row) + i, gradient * curve.value, lanes);
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
    kw::walk(grid, out, kw::streams(grid.n, out.data), [&](auto stream, int64_t, int64_t i, auto lanes) KW_INLINED {
      kw::ahead(x.data + i, stream.value);
      kw::write<stream.value>(out.data + i, C::value(kw::load(x.data + i, lanes)), lanes);
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
    kw::walk(grid, out, kw::streams(grid.n, out.data), [&](auto stream, int64_t, int64_t i, auto lanes) KW_INLINED {
      kw::ahead(g.data + i, stream.value), kw::ahead(x.data + i, stream.value);
      const kw::F slope = C::both(kw::load(x.data + i, lanes)).slope;
      kw::write<stream.value>(out.data + i, kw::load(g.data + i, lanes) * slope, lanes);
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
