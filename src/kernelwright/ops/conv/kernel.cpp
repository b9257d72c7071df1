// Convolutions of images, channels first: depthwise ones, pointwise ones, and small ones, as they are defined.
// What follows the sum, a bias and an activation, is applied in registers.
#include <memory>

#include "convolution.h"
#include "depthwise.h"

namespace kw {
namespace {

enum Curve : int64_t { kNone, kRelu, kSilu };
KW_INLINE F followed(F sum, int64_t curve) { return curve == kRelu ? relu(sum) : curve == kSilu ? silu(sum) : sum; }

// x, weight, bias, stride (y, x), top, left, bottom, right, dilation (y, x), groups, curve; out
template <class T> struct Call {
  const T *x, *weight, *bias;
  T* out;
  int64_t items, channels, height, width, rows, taps_y, taps_x, groups, curve, out_y, out_x, stride[2], low[2], dilation[2];

  explicit Call(const Args& args) {
    const auto image = args.tensor<const T>(0), taps = args.tensor<const T>(1);
    const auto to = args.tensor<T>(13);
    x = image.data(), weight = taps.data(), out = to.data();
    bias = args.is_none(2) ? nullptr : args.tensor<const T>(2).data();
    items = image.shape(0), channels = image.shape(1), height = image.shape(2), width = image.shape(3);
    rows = taps.shape(0), taps_y = taps.shape(2), taps_x = taps.shape(3), out_y = to.shape(2), out_x = to.shape(3);
    for (int i = 0; i < 2; ++i)
      stride[i] = args.integer(3 + i), low[i] = args.integer(5 + i), dilation[i] = args.integer(9 + i);
    groups = args.integer(11), curve = args.integer(12);
  }
  template <class Lanes> KW_INLINE void put(F sum, int64_t row, int64_t at, Lanes lanes) const {
    if (bias) sum += to_scalar(bias[row]);
    store(out + at, followed(sum, curve), lanes);
  }
};

template <int PANEL> void directly(const Call<float>& s) {
  const Convolution c{s.groups, s.rows / s.groups, s.items, s.channels / s.groups, {1, s.out_y, s.out_x},
                      {1, s.taps_y, s.taps_x}, {1, s.height, s.width}, {1, s.stride[0], s.stride[1]},
                      {1, s.dilation[0], s.dilation[1]}, {0, s.low[0], s.low[1]}, 0.0f};
  const TapRange whole[1] = {{{0, 0, 0}, {1, s.taps_y, s.taps_x}}};
  const int64_t inner = c.channels * s.taps_y * s.taps_x;
  convolve_directly<Direct<PANEL, 1>>(
      c, whole,
      [&](int64_t group, int64_t m, int64_t k, auto lanes) KW_INLINED {
        return load(s.weight + (group * c.rows + m) * inner + k, lanes);
      },
      [&](int64_t group, int64_t k, int64_t n, int64_t, int64_t y, int64_t at, auto lanes) KW_INLINED {
        return load(s.x + ((n * s.channels + group * c.channels + k) * s.height + y) * s.width + at, lanes);
      },
      [&](F sum, int64_t group, int64_t m, int64_t n, int64_t, int64_t y, int64_t at, auto lanes) KW_INLINED {
        const int64_t row = group * c.rows + m;
        s.put(sum, row, ((n * s.rows + row) * s.out_y + y) * s.out_x + at, lanes);
      });
}

// Where the results of a channel go: to floats, with what follows the sum.
struct Results {
  float* to;
  int64_t width, end, curve;
  F bias;
  KW_INLINE void operator()(F sum, int64_t y, int64_t x) const {
    const int64_t at = y * width + x;
    sum = followed(sum + bias, curve);
    if (end - at >= W) store(to + at, sum, Full{});
    else store(to + at, sum, Part{static_cast<int>(end - at)});
  }
};

// T as it is where it is float, else converted by way of `room`.
template <class T> const float* as_floats(const T* from, int64_t count, float* room) {
  if constexpr (std::is_same_v<T, float>) return from;
  else {
    sweep<1>(0, count, [&](int64_t i, auto lanes, int) KW_INLINED { store(room + i, load(from + i, lanes), lanes); });
    return room;
  }
}

// Each channel of the image gives the same number of results, by itself.
template <class T> void by_channel(const Call<T>& s) {
  const int64_t planes = s.items * s.rows, each = s.rows / s.groups, taps = s.taps_y * s.taps_x;
  const int64_t pixels = s.height * s.width, results = s.out_y * s.out_x;
  constexpr bool copied = !std::is_same_v<T, float>;
  in_shares(planes, planes * (pixels + results * taps), 1, [&](int64_t begin, int64_t end) {
    const Temporary<float> weights(copied ? taps : 0), image(copied ? pixels : 0), sums(copied ? results : 0);
    std::unique_ptr<float[]> room;  // within zeros
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i % s.rows, channel = i / s.rows * s.channels + row / each;
      const Plane p{as_floats(s.x + channel * pixels, pixels, image.data), s.height, s.width, s.out_y, s.out_x, s.taps_y,
                    s.taps_x, s.low[0], s.low[1], s.dilation[0], s.dilation[1],
                    as_floats(s.weight + row * taps, taps, weights.data)};
      T* out = s.out + i * results;
      Results to{sums.data, s.out_x, results, s.curve, splat(s.bias ? to_scalar(s.bias[row]) : 0.0f)};
      if constexpr (!copied) to.to = out;
      const int64_t square = s.taps_y == s.taps_x && s.dilation[0] == 1 && s.dilation[1] == 1 ? s.taps_x : 0;
      const auto by = [&](auto window) {
        constexpr int K = decltype(window)::value;
        if constexpr (!kWithinZeros<K>) depthwise_plane<K>(p, to);
        else {
          if (!room) room.reset(new float[static_cast<size_t>((zeros_rows(p) + K - 1) * zeros_stride(p))]());
          depthwise_within_zeros<K>(p, room.get(), to);
        }
      };
      if (square == 3) by(std::integral_constant<int, 3>{});
      else if (square == 5) by(std::integral_constant<int, 5>{});
      else if (square == 7) by(std::integral_constant<int, 7>{});
      else depthwise_plane<0>(p, to);
      if constexpr (copied)
        sweep<1>(0, results, [&](int64_t k, auto lanes, int) KW_INLINED { store(out + k, load(sums.data + k, lanes), lanes); });
    }
  });
}

// Windows of one pixel: for each item and group a product, lanes along the pixels, which are read where they lie. A sum
// that is at most bounded below leaves the registers at once; another waits in the first cache for what follows it.
template <bool BRIEF> void pointwise(const Call<float>& s) {
  const int64_t rows = s.rows / s.groups, inner = s.channels / s.groups, pixels = s.height * s.width;
  const F least = splat(s.curve == kRelu ? 0.0f : -kInf);
  contract<Tiling<Form::kDirect, Along::kColumns, 0, 2, 256, 96, BRIEF>>(
      Shape{s.items * s.groups, rows, pixels, inner, pixels},
      [&](int64_t b, int64_t m, int64_t k, auto lanes) KW_INLINED {
        return load(s.weight + (b % s.groups * rows + m) * inner + k, lanes);
      },
      [&](int64_t b, int64_t k, int64_t n, auto lanes) KW_INLINED { return load(s.x + (b * inner + k) * pixels + n, lanes); },
      [&](F sum, int64_t b, int64_t m, int64_t n, auto lanes) KW_INLINED {
        const int64_t row = b % s.groups * rows + m, at = (b * rows + m) * pixels + n;
        if (s.bias) sum += s.bias[row];
        if constexpr (BRIEF) store(s.out + at, sum < least ? least : sum, lanes);
        else store(s.out + at, silu(sum), lanes);
      });
}

// A build may be for channels by themselves alone, or for all other calls (`Parts` of the op).
#ifdef KW_BY_CHANNEL
constexpr bool kByChannel = KW_BY_CHANNEL, kSummed = !KW_BY_CHANNEL;
#else
constexpr bool kByChannel = true, kSummed = true;
#endif

template <class T> void convolve(const Args& args) {
  const Call<T> s(args);
  const int64_t each = s.rows / s.groups;
  const bool dense = s.stride[0] == 1 && s.stride[1] == 1;
  if constexpr (kByChannel)
    if (s.channels == s.groups && dense) return by_channel(s);
  if constexpr (kSummed && std::is_same_v<T, float>) {
    if (s.taps_y * s.taps_x == 1 && dense && s.out_y == s.height && s.out_x == s.width)
      return s.curve == kSilu ? pointwise<false>(s) : pointwise<true>(s);
    if (each < 3) directly<1>(s);
    else if (each < 9) directly<8>(s);
    else directly<16>(s);
  } else {
    KW_UNSUPPORTED("16-bit floats of channels that are summed, or of a stride");
  }
}

}  // namespace
}  // namespace kw

KW_KERNEL(conv) {
  if (args.is<float>(0)) kw::convolve<float>(args);
  else kw::convolve<kw::bfloat16>(args);
}
