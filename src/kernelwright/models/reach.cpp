// How fast the schedule engine's products run on weights that come from beyond the second cache, as a model's layers do.
#include "gemm.h"

constexpr int64_t kRows = 64, kInner = 256, kColumns = 256, kRun = 32;  // columns side by side

// Rows by one layer after another, each of kInner by kColumns weights in panels.
KW_KERNEL(products) {
  const auto weights = args.tensor<const float>(0);
  const int64_t layers = weights.numel() / (kInner * kColumns);
  static float rows[kRows * kInner], results[kRows * kColumns];
  const kw::Shape sizes{1, kRows, kColumns, kInner, kRun};
  for (int64_t layer = 0; layer < layers; ++layer) {
    const auto left = [&](int64_t, int64_t m, int64_t k, auto lanes) KW_INLINED { return kw::load(rows + m * kInner + k, lanes); };
    const auto finish = [&](kw::F sum, int64_t, int64_t m, int64_t n, auto lanes) KW_INLINED {
      kw::store(results + m * kColumns + n, sum, lanes);
    };
    kw::multiply<kw::Packed<0, 2>>(sizes, left, weights.data() + layer * kInner * kColumns, finish);
  }
}
