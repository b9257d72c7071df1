// Pooling over the last RANK axes, sizes at run time, windows at compile time.
// The rows of a window are folded first, a vector of columns at a time, then the columns: every input byte
// comes from memory once, and a window of K by K costs 2 K folds, not K * K.
using namespace kw;

struct Window {
  int64_t size, stride, pad, dilation;
};
constexpr Window kDepth = {DEPTH}, kHeight = {HEIGHT}, kWidth = {WIDTH};
constexpr bool kOneRow = kDepth.size == 1 && kDepth.pad == 0 && kHeight.size == 1 && kHeight.pad == 0;
struct Axis {
  int64_t in, out;
};

constexpr float kNothing = MAXIMUM ? -kInf : 0.0f;
KW_INLINE F fold(F a, F b) { return MAXIMUM ? maximum(b, a) : a + b; }
KW_INLINE float fold(float a, float b) { return MAXIMUM ? (b > a || b != b ? b : a) : a + b; }

// The taps [first, last) of a window that fall inside, and how many of them a mean divides by.
struct Taps {
  int64_t first, last, counted;
};
static inline Taps taps(const Window& w, int64_t o, int64_t in) {
  const int64_t start = o * w.stride - w.pad, room = in - 1 - start;
  const int64_t first = start < 0 ? (w.dilation - 1 - start) / w.dilation : 0;
  const int64_t last = max(first, room < 0 ? 0 : min(w.size, room / w.dilation + 1));
  return {first, last, COUNT_PAD ? min(start + w.size, in + w.pad) - start : last - first};
}

// Lone rows are long: what a vector reads is asked for this far ahead.
constexpr int64_t kAhead = 1024;
KW_INLINE void ask_ahead(const float* p, int64_t n) {
  for (int64_t i = 0; kOneRow && i < n; i += 64 / 4) prefetch(p + kAhead + i);
}

// Folds the window's rows for N vectors of columns; `p` is the first of them in the window's first row.
template <int N>
KW_INLINE void fold_taps(float* to, const float* p, int64_t slab, int64_t width, Taps d, Taps h) {
  F sum[N];
  for (int u = 0; u < N; ++u) sum[u] = splat(kNothing);
  for (int64_t a = d.first; a < d.last; ++a)
    for (int64_t b = h.first; b < h.last; ++b) {
      const float* q = p + a * kDepth.dilation * slab + b * kHeight.dilation * width;
      for (int u = 0; u < N; ++u) sum[u] = fold(sum[u], vload(q + u * W));
    }
  for (int u = 0; u < N; ++u) vstore(to + u * W, sum[u]);
}

static inline void fold_rows(float* row, const float* p, int64_t slab, int64_t width, Taps d, Taps h) {
  int64_t i = 0;
  for (; i + 4 * W <= width; i += 4 * W) {
    ask_ahead(p + i, 4 * W);
    fold_taps<4>(row + i, p + i, slab, width, d, h);
  }
  for (; i + W <= width; i += W) fold_taps<1>(row + i, p + i, slab, width, d, h);
  if (i < width && width >= W) return fold_taps<1>(row + width - W, p + width - W, slab, width, d, h);
  for (; i < width; ++i) {
    float sum = kNothing;
    for (int64_t a = d.first; a < d.last; ++a)
      for (int64_t b = h.first; b < h.last; ++b)
        sum = fold(sum, p[a * kDepth.dilation * slab + b * kHeight.dilation * width + i]);
    row[i] = sum;
  }
}

// One tap of W neighbouring windows.
KW_INLINE F column(const float* p) {
  if (kWidth.stride == 1) return vload(p);
  return __builtin_shuffle(vload(p), vload(p + W), iota() * 2);
}

// Folds the columns of N vectors of windows and scales.
template <int N, class Lanes>
KW_INLINE void fold_window(float* to, const float* row, float scale, const float* scales, Lanes lanes) {
  F sum[N];
  for (int u = 0; u < N; ++u) sum[u] = column(row + u * W * kWidth.stride);
  for (int64_t c = 1; c < kWidth.size; ++c)
    for (int u = 0; u < N; ++u) sum[u] = fold(sum[u], column(row + u * W * kWidth.stride + c * kWidth.dilation));
  for (int u = 0; u < N; ++u)
    store(to + u * W, MAXIMUM ? sum[u] : sum[u] * (vload(scales + u * W) * scale), lanes);
}

// `row` is padded with kNothing on both sides and readable some vectors beyond.
static inline void fold_columns(float* to, const float* row, int64_t out, float scale, const float* scales) {
  int64_t o = 0;
  if (kWidth.stride <= 2) {
    for (; o + 2 * W <= out; o += 2 * W) {
      ask_ahead(row + o * kWidth.stride, 2 * W * kWidth.stride);
      fold_window<2>(to + o, row + o * kWidth.stride, scale, scales + o, Full{});
    }
    for (; o + W <= out; o += W) fold_window<1>(to + o, row + o * kWidth.stride, scale, scales + o, Full{});
    if (o < out) fold_window<1>(to + o, row + o * kWidth.stride, scale, scales + o, Part{int(out - o)});
    return;
  }
  for (; o < out; ++o) {
    float sum = row[o * kWidth.stride];
    for (int64_t c = 1; c < kWidth.size; ++c) sum = fold(sum, row[o * kWidth.stride + c * kWidth.dilation]);
    to[o] = MAXIMUM ? sum : sum * (scales[o] * scale);
  }
}

// Rows that are folded before the columns of the first are: a load that spans two stores waits for both.
constexpr int64_t kGroup = 4;
constexpr int64_t kShort = 1024;  // inputs of a row up to which a group stays in the nearest cache

template <bool kStreamed>
static void pool(const float* in, float* out, int64_t planes, Axis d, Axis h, Axis w) {
  const int64_t rows = planes * d.out * h.out, slab = h.in * w.in;
  const int64_t reach = (w.out - 1) * kWidth.stride + (kWidth.size - 1) * kWidth.dilation + 1;
  const int64_t padded = max(w.in + kWidth.pad, reach) + (2 * kWidth.stride + 2) * W;
  std::vector<float> scales(w.out + 2 * W, 1.0f);
  if (!MAXIMUM && !DIVISOR)
    for (int64_t o = 0; o < w.out; ++o) scales[o] = 1.0f / float(taps(kWidth, o, w.in).counted);
  const bool plain = kOneRow && kWidth.pad == 0 && reach <= w.in;  // rows are neither folded nor padded
  const int64_t group = padded <= kShort ? kGroup : 1;
  parallel(rows, planes * d.in * slab + rows * w.out, [&](int64_t first, int64_t last) {
    std::vector<float> buffers(group * padded, kNothing);
    Writer<kStreamed> writer(out + first * w.out);
    for (int64_t begin = first; begin < last; begin += group) {
      const int64_t count = min(group, last - begin);
      const float* folded[kGroup];
      float scale[kGroup];
      for (int64_t g = 0; g < count; ++g) {
        const int64_t r = begin + g, oh = r % h.out, od = r / h.out % d.out, plane = r / (h.out * d.out);
        const Taps td = taps(kDepth, od, d.in), th = taps(kHeight, oh, h.in);
        const int64_t id = od * kDepth.stride - kDepth.pad, ih = oh * kHeight.stride - kHeight.pad;
        const float* own = in + plane * d.in * slab + id * slab + ih * w.in;
        const bool in_place = plain && own + padded <= in + planes * d.in * slab;  // all that is read is the input's
        if (group > 1)  // the rows that are new to the next group here
          for (int64_t i = 0; i < kHeight.stride * w.in; i += 64 / 4)
            prefetch(own + ((group - 1) * kHeight.stride + kHeight.size) * w.in + i);
        float* row = buffers.data() + g * padded;
        if (!in_place) fold_rows(row + kWidth.pad, own, slab, w.in, td, th);
        folded[g] = in_place ? own : row;
        scale[g] = 1.0f / float(DIVISOR ? DIVISOR : td.counted * th.counted);
      }
      for (int64_t g = 0; g < count; ++g)
        for (int64_t o = 0; o < w.out; o += writer.kRoom) {
          const int64_t n = min(writer.kRoom, w.out - o);
          fold_columns(writer.room(n), folded[g] + o * kWidth.stride, n, scale[g], scales.data() + o);
          writer.wrote(n);
        }
    }
  });
}

KW_KERNEL(pool) {
  const auto x = args.tensor<const float>(INPUT);
  const auto y = args.tensor<float>(OUTPUT);
  const auto axis = [&](int i) { return i <= RANK ? Axis{x.shape(-i), y.shape(-i)} : Axis{1, 1}; };
  const int64_t planes = x.numel(0, x.ndim() - RANK);
  if (y.numel() == 0) return;
  ask_large_pages(y.data(), y.numel() * 4);
  (y.numel() * 4 > kStreamBytes ? pool<true> : pool<false>)(x.data(), y.data(), planes, axis(3), axis(2), axis(1));
}
