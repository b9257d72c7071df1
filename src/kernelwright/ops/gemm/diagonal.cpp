// diag(a) @ B without the zeros: row i of B times a[i], one pass. In the full product each zero meets every
// value of a column, and zero times infinity or NaN is NaN; so B is watched, and columns redone where needed.
using namespace kw;

KW_KERNEL(diagonal) {
  const auto a = args.tensor<const float>(LEFT);
  const auto b = args.tensor<const float>(RIGHT);
  const auto y = args.tensor<float>(OUTPUT);
  const int64_t rows = b.shape(0), columns = b.shape(1);
  KW_REQUIRE(a.numel() == rows && y.numel() == b.numel(), "the sizes of the factors do not fit");
  if (y.numel() == 0) return;
  ask_large_pages(y.data(), y.numel() * 4);
  bool finite = true;
  const bool streamed = y.numel() * 4 > kStreamBytes;
  parallel(rows, y.numel(), [&](int64_t first, int64_t last) {
    F watched[2] = {};
    const auto scale = [&](auto writer) {
      for (int64_t i = first; i < last; ++i) {
        const float* from = b.data() + i * columns;
        const F factor = splat(a[i]);
        for (int64_t j = 0; j < columns; j += writer.kRoom) {
          const int64_t n = min(writer.kRoom, columns - j);
          float* to = writer.room(n);
          int64_t k = 0;
          for (; k + 2 * W <= n; k += 2 * W)
            for (int u = 0; u < 2; ++u) {
              const F v = vload(from + j + k + u * W);
              watched[u] += v * 0.0f;
              vstore(to + k + u * W, v * factor);
            }
          for (; k < n; k += W) {
            const Part part = {int(min(W, n - k))};
            const F v = load(from + j + k, part);
            watched[0] += v * 0.0f;
            store(to + k, v * factor, part);
          }
          writer.wrote(n);
        }
      }
    };
    float* to = y.data() + first * columns;
    if (streamed) scale(Writer<true>(to));
    else scale(Writer<false>(to));
    if (any((M)(watched[0] + watched[1] != 0.0f))) finite = false;
  });
  if (finite) return;
  for (int64_t j = 0; j < columns; ++j) {
    int64_t wrong = 0, which = 0;
    for (int64_t i = 0; i < rows; ++i)
      if (!std::isfinite(b[i * columns + j])) ++wrong, which = i;
    for (int64_t i = 0; wrong && i < rows; ++i)
      if (wrong > 1 || i != which) y[i * columns + j] = kNaN;
  }
}
