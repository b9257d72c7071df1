// Products of matrices, the right factor packed ahead, with what follows them in registers.
#include "vector.h"
#include "dots.h"

namespace kw {
namespace {

enum Curve : int64_t { kNone, kRelu, kSilu, kGelu, kGeluTanh };

// out = curve(sum + bias) * gate + residual, in float32, rounded once.
template <class T> struct Follow {
  const T *bias, *gate, *residual;
  T* out;
  int64_t columns, curve;

  template <class Lanes> KW_INLINE void put(F sum, int64_t m, int64_t n, Lanes lanes) const {
    const int64_t at = m * columns + n;
    if (bias) sum += load(bias + n, lanes);
    switch (curve) {
      case kRelu: sum = relu(sum); break;
      case kSilu: sum = silu(sum); break;
      case kGelu: sum = gelu(sum); break;
      case kGeluTanh: sum = gelu_tanh(sum); break;
      default: break;
    }
    if (gate) sum *= load(gate + at, lanes);
    if (residual) sum += load(residual + at, lanes);
    store(out + at, sum, lanes);
  }
  // Columns beyond the last are panels' zeros.
  KW_INLINE void operator()(F sum, int64_t m, int64_t n) const {
    if (n + W <= columns) put(sum, m, n, Full{});
    else if (n < columns) put(sum, m, n, Part{static_cast<int>(columns - n)});
  }
};

template <class T> const T* optional(const Args& args, int i) {
  return args.is_none(i) ? nullptr : args.tensor<const T>(i).data();
}

// Rows of T as whole steps of four bytes: where they lie, or copied with zeros behind.
template <class T> struct Stepped {
  Temporary<char> room;
  const char* data;
  int64_t apart, steps;

  explicit Stepped(const Tensor<const T>& a)
      : room(copies(a) ? a.shape(0) * wide(a) : 0), data(reinterpret_cast<const char*>(a.data())),
        apart(a.stride(0) * int64_t(sizeof(T))), steps(steps_of(a)) {
    if (!copies(a)) return;
    apart = wide(a);
    for (int64_t m = 0; m < a.shape(0); ++m) {
      std::memcpy(room.data + m * apart, data + m * a.stride(0) * int64_t(sizeof(T)), static_cast<size_t>(a.shape(1)) * sizeof(T));
      std::memset(room.data + m * apart + a.shape(1) * sizeof(T), 0, static_cast<size_t>(apart - a.shape(1) * int64_t(sizeof(T))));
    }
    data = room.data;
  }
  static int64_t steps_of(const Tensor<const T>& a) { return (a.shape(1) * int64_t(sizeof(T)) + 3) / 4; }
  static int64_t wide(const Tensor<const T>& a) { return (steps_of(a) * 4 + 63) / 64 * 64 + 64; }
  // Rows that end within a step, and rows of a tile that would share their places in the cache.
  static bool copies(const Tensor<const T>& a) {
    return a.shape(1) * sizeof(T) % 4 || (a.shape(0) > 4 && a.stride(0) * sizeof(T) % 4096 == 0);
  }
};

// a [rows, inner], panels [panels, inner, 2, 16] or [panels, steps, 32, 2], bias, gate, residual, curve, columns; out
template <class T> void matmul(const Args& args) {
  const auto a = args.tensor<const T>(0);
  const auto panels = args.tensor<const T>(1);
  const auto out = args.tensor<T>(7);
  const Follow<T> follow{optional<T>(args, 2), optional<T>(args, 3), optional<T>(args, 4), out.data(), args.integer(6),
                         args.integer(5)};
  if (out.numel() == 0) return;
  if constexpr (std::is_same_v<T, float>) {
    const int64_t count = panels.shape(0);
    const Shape s{1, a.shape(0), count * kDotColumns, a.shape(1), kDotColumns};
    multiply<Packed<0, 2>>(s, InPlace{a.data(), 0, a.stride(0)}, panels.data(),
                           [&](F sum, int64_t, int64_t m, int64_t n, auto) KW_INLINED { follow(sum, m, n); });
  } else {
    const Stepped<T> rows(a);
    multiply_dots<Pairs>(rows.data, rows.apart, a.shape(0), reinterpret_cast<const uint32_t*>(panels.data()),
                         panels.shape(0), rows.steps, follow);
  }
}

constexpr int64_t kExact = 131071;  // products of bytes that an int32 holds the sum of

int32_t sum_of(const int8_t* x, int64_t n) {
  int32_t sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += x[i];
  return sum;
}

}  // namespace
}  // namespace kw

KW_KERNEL(gemm_matmul) {
  const kw::Tuned tuned(args, 8);
  if (args.is<float>(0)) kw::matmul<float>(args);
  else kw::matmul<kw::bfloat16>(args);
}

// a [rows, inner] int8, panels [panels, steps, 32, 4] uint8, scales of rows and of columns, bias, curve, columns; out
// [rows, columns]: int32 without scales, float32 with them
KW_KERNEL(gemm_integers) {
  using namespace kw;
  const Tuned tuned(args, 8);
  const auto a = args.tensor<const int8_t>(0);
  const auto panels = args.tensor<const uint8_t>(1);
  const int64_t columns = args.integer(6), count = panels.shape(0);
  const uint32_t* right = reinterpret_cast<const uint32_t*>(panels.data());
  if (a.shape(0) * columns == 0) return;
  if (a.shape(1) > kExact) KW_UNSUPPORTED("more inner elements than an int32 adds up");
  const Stepped<int8_t> rows(a);
  const Temporary<int32_t> less(a.shape(0));  // what the 128 of each byte of the right factor add
  for (int64_t m = 0; m < a.shape(0); ++m) less.data[m] = 128 * sum_of(a.data() + m * a.stride(0), a.shape(1));
  const auto multiplied = [&](auto put) {
    multiply_dots<Quads>(rows.data, rows.apart, a.shape(0), right, count, rows.steps,
                         [&](M sum, int64_t m, int64_t n) KW_INLINED { put(sum - splat<M>(less.data[m]), m, n); });
  };
  if (args.is_none(3)) {
    int32_t* out = args.tensor<int32_t>(7).data();
    return multiplied([&](M sum, int64_t m, int64_t n) KW_INLINED {
      int32_t* to = out + m * columns + n;
      if (n + W <= columns) std::memcpy(to, &sum, sizeof sum);
      else for (int64_t i = 0; n + i < columns; ++i) to[i] = sum[i];
    });
  }
  const float* of_rows = optional<float>(args, 2);
  const float* of_columns = optional<float>(args, 3);
  const Follow<float> follow{optional<float>(args, 4), nullptr, nullptr, args.tensor<float>(7).data(), columns,
                             args.integer(5)};
  multiplied([&](M sum, int64_t m, int64_t n) KW_INLINED {
    if (n >= columns) return;
    const F scale = n + W <= columns ? load(of_columns + n, Full{}) : load(of_columns + n, Part{static_cast<int>(columns - n)});
    follow(from_integers(sum) * scale * splat(of_rows ? of_rows[m] : 1.0f), m, n);
  });
}
