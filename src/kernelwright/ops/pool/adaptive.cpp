// Adaptive pooling over the last RANK axes: output o covers inputs [o * in / out, ceil((o + 1) * in / out)).
// One pass over the input; a plane's rows are folded first, then its columns.
using namespace kw;

KW_INLINE F fold(F a, F b) { return MAXIMUM ? maximum(b, a) : a + b; }
KW_INLINE float fold(float a, float b) { return MAXIMUM ? (b > a || b != b ? b : a) : a + b; }

struct Axis {
  int64_t in, out;
  int64_t first(int64_t o) const { return o * in / out; }
  int64_t last(int64_t o) const { return ((o + 1) * in + out - 1) / out; }
};

// Folds n consecutive values.
static inline float fold_run(const float* p, int64_t n) {
  float total = MAXIMUM ? -kInf : 0.0f;
  int64_t i = 0;
  if (n >= 4 * W) {
    F sum[4];
    for (int u = 0; u < 4; ++u) sum[u] = vload(p + u * W);
    for (i = 4 * W; i + 4 * W <= n; i += 4 * W)
      for (int u = 0; u < 4; ++u) sum[u] = fold(sum[u], vload(p + i + u * W));
    const F all = fold(fold(sum[0], sum[1]), fold(sum[2], sum[3]));
    for (int u = 0; u < W; ++u) total = fold(total, all[u]);
  }
  for (; i < n; ++i) total = fold(total, p[i]);
  return total;
}

KW_KERNEL(pool) {
  const auto x = args.tensor<const float>(INPUT);
  const auto y = args.tensor<float>(OUTPUT);
  if (y.numel() == 0) return;
  const auto axis = [&](int i) { return i <= RANK ? Axis{x.shape(-i), y.shape(-i)} : Axis{1, 1}; };
  const Axis d = axis(3), h = axis(2), w = axis(1);
  const int64_t planes = x.numel(0, x.ndim() - RANK), slab = h.in * w.in;
  parallel(planes * d.out, x.numel(), [&](int64_t begin, int64_t end) {
    std::vector<float> row(w.in + W);
    for (int64_t r = begin; r < end; ++r) {
      const int64_t od = r % d.out;
      const float* plane = x.data() + r / d.out * d.in * slab;
      for (int64_t oh = 0; oh < h.out; ++oh) {
        float* to = y.data() + (r * h.out + oh) * w.out;
        const int64_t a = d.first(od), b = d.last(od), e = h.first(oh), f = h.last(oh);
        const float depth = float(b - a) * float(f - e);
        if (h.out == 1 && w.out == 1) {  // whole slabs are consecutive
          const float total = fold_run(plane + a * slab, (b - a) * slab);
          to[0] = MAXIMUM ? total : total / (depth * float(w.in));
          continue;
        }
        bool begun = false;
        for (int64_t i = a; i < b; ++i)
          for (int64_t j = e; j < f; ++j, begun = true) {
            const float* p = plane + i * slab + j * w.in;
            int64_t k = 0;
            if (!begun) std::memcpy(row.data(), p, w.in * 4);
            if (!begun) continue;
            for (; k + W <= w.in; k += W) vstore(&row[k], fold(vload(&row[k]), vload(p + k)));
            for (; k < w.in; ++k) row[k] = fold(row[k], p[k]);
          }
        for (int64_t ow = 0; ow < w.out; ++ow) {
          const int64_t first = w.first(ow), n = w.last(ow) - first;
          const float total = fold_run(&row[first], n);
          to[ow] = MAXIMUM ? total : total / (depth * float(n));
        }
      }
    }
  });
}
