// Pointwise functions of the PARTS parts of a tensor along one axis: x is (outer, PARTS, run), y (outer, run).
// Every byte is read once and written once; the parts are read side by side, never copied out.
using namespace kw;

struct Inputs {
  FIELDS
  // y[o * run + j], where `part` is the offset of x[o, 0, j], `flat` that of y and `run` steps from part to part.
  template <class Lanes>
  inline __attribute__((always_inline)) F value(int64_t part, int64_t flat, int64_t run, Lanes lanes) const {
    STATEMENTS
  }
};

constexpr int64_t kChunk = 1024;

template <bool kStreamed>
static void gate(const Inputs& x, float* y, int64_t outer, int64_t run) {
  const int64_t chunks = (run + kChunk - 1) / kChunk;
  parallel(outer * chunks, 4 * outer * run, [&](int64_t first, int64_t last) {
    const auto ask = [&](int64_t part, int64_t flat) { ASKED };
    Writer<kStreamed> writer(y + first / chunks * run + first % chunks * kChunk);
    for (int64_t c = first; c < last; ++c) {
      const int64_t o = c / chunks, j = c % chunks * kChunk, n = min(kChunk, run - j);
      const int64_t part = o * PARTS * run + j, flat = o * run + j;
      float* to = writer.room(n);
      int64_t i = 0;
      for (; i + UNROLL * W <= n; i += UNROLL * W) {
        for (int u = 0; u < UNROLL; ++u) ask(part + i + u * W, flat + i + u * W);
        F v[UNROLL];
#pragma GCC unroll 4
        for (int u = 0; u < UNROLL; ++u) v[u] = x.value(part + i + u * W, flat + i + u * W, run, Full{});
#pragma GCC unroll 4
        for (int u = 0; u < UNROLL; ++u) vstore(to + i + u * W, v[u]);
      }
      for (; i + W <= n; i += W) vstore(to + i, x.value(part + i, flat + i, run, Full{}));
      if (i < n) {
        const Part rest = {int(n - i)};
        store(to + i, x.value(part + i, flat + i, run, rest), rest);
      }
      writer.wrote(n);
    }
  });
}

KW_KERNEL(glu) {
  const auto y = args.tensor<float>(OUTPUT);
  const DLTensor* whole = args.any_tensor(INPUT);
  if (y.numel() == 0) return;
  KW_REQUIRE(whole->shape[AXIS] == PARTS * y.shape(AXIS), "the axis is not that many parts long");
  const Inputs x = {ARGUMENTS};
  ask_large_pages(y.data(), y.numel() * 4);
  const int64_t outer = y.numel(0, AXIS), run = y.numel(AXIS, y.ndim());
  (y.numel() * 4 > kStreamBytes ? gate<true> : gate<false>)(x, y.data(), outer, run);
}
