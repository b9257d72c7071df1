// Rotary position embedding: each row of an output is a pointwise function of the two parts of rows of the
// inputs. NEIGHBOURS: the parts are the even and the odd elements; else they are the two halves.
// Every byte is read once and written once; tables are broadcast by their strides.
#include "parts.h"

using namespace kw;

constexpr int kMaxAxes = 6;
// A tensor that an output reads: its argument, whether its rows have both parts, and, for each axis of the output,
// the axis it follows or -1.
struct Leaf {
  int argument;
  bool whole;
  int axes[kMaxAxes];
};

OUTPUT_ROWS

template <bool kStreamed, class Row>
static void rotate(const kw::Args& args, int output, const Leaf* leaves) {
  const auto y = args.tensor<float>(output);
  const int axes = y.ndim() - 1;
  const int64_t d = y.shape(-1), h = d / 2, rows = y.numel(0, axes);
  if (y.numel() == 0) return;
  if (d % 2 != 0) KW_UNSUPPORTED("the last axis is odd");
  const float* base[Row::kLeaves];
  int64_t strides[Row::kLeaves][kMaxAxes];
  for (int l = 0; l < Row::kLeaves; ++l) {
    const auto x = args.tensor<const float>(leaves[l].argument);
    base[l] = x.data();
    bool fits = x.shape(-1) == (leaves[l].whole ? d : h);
    for (int k = 0; k < axes; ++k) {
      const int a = leaves[l].axes[k];
      const bool follows = a >= 0 && x.shape(a) != 1;
      strides[l][k] = follows ? x.stride(a) : 0;
      fits &= !follows || x.shape(a) == y.shape(k);
    }
    if (!fits) KW_UNSUPPORTED("an input that is neither as long as a row nor as one of its parts");
  }
  parallel(rows, 2 * rows * d, [&](int64_t first, int64_t last) {
    int64_t at[kMaxAxes] = {};
    const float* p[Row::kLeaves];
    std::memcpy(p, base, sizeof p);
    for (int64_t k = axes - 1, rest = first; k >= 0; --k) {
      at[k] = rest % y.shape(int(k));
      rest /= y.shape(int(k));
      for (int l = 0; l < Row::kLeaves; ++l) p[l] += at[k] * strides[l][k];
    }
    Writer<kStreamed> writer(y.data() + first * d);
    for (int64_t r = first; r < last; ++r) {
      float* to = writer.room(d);
      int64_t j = 0;
      for (; j + W <= h; j += W) Row::at(p, to, j, h, Full{});
      if (j < h) Row::at(p, to, j, h, Part{int(h - j)});
      writer.wrote(d);
      for (int k = axes - 1; k >= 0; --k) {
        const bool wraps = ++at[k] == y.shape(k);
        for (int l = 0; l < Row::kLeaves; ++l) p[l] += wraps ? (1 - at[k]) * strides[l][k] : strides[l][k];
        if (!wraps) break;
        at[k] = 0;
      }
    }
  });
}

template <class Row>
static void rotate(const kw::Args& args, int output, std::initializer_list<Leaf> leaves) {
  const auto y = args.tensor<float>(output);
  ask_large_pages(y.data(), y.numel() * 4);
  const bool streamed = y.numel() * 4 > kStreamBytes && y.shape(-1) <= 1024;
  (streamed ? rotate<true, Row> : rotate<false, Row>)(args, output, leaves.begin());
}

KW_KERNEL(rope) {
  CALLS
}
