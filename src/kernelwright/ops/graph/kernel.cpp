// Softmax over the entries of each row of a graph's CSR form, for several heads side by side, and its gradient.
#include "vector.h"

#include <vector>

#include "segments.h"
#include "stream_map.h"

namespace kw {
namespace {

struct Rows {
  const int64_t* crow;
  int64_t count, entries, heads;
};

Rows rows_of(const Args& args) {
  const auto crow = args.tensor<const int64_t>(0);
  const auto scores = args.tensor<const float>(1);
  const Rows rows{crow.data(), crow.numel() - 1, scores.shape(0), scores.shape(1)};
  check_offsets("graph.edge_softmax: first", rows.crow, rows.count, rows.entries);
  return rows;
}

// Entries of no row are zero; calls body(first, last) for the entries of each row that has any, in shares.
template <class Held, class Body> void by_row(const Rows& rows, float* out, Body body) {
  std::fill(out, out + rows.crow[0] * rows.heads, 0.0f);
  std::fill(out + rows.crow[rows.count] * rows.heads, out + rows.entries * rows.heads, 0.0f);
  in_shares(rows.count, 8 * rows.entries * rows.heads, 1, [&](int64_t begin, int64_t end) {
    std::vector<Held> held(static_cast<size_t>(2 * rows.heads));
    for (int64_t r = begin; r < end; ++r)
      if (rows.crow[r] < rows.crow[r + 1]) body(rows.crow[r], rows.crow[r + 1], held.data());
  });
}

void softmax(const Args& args) {
  const Rows rows = rows_of(args);
  const float* scores = args.tensor<const float>(1).data();
  float* out = args.tensor<float>(2).data();
  const int64_t heads = rows.heads;
  by_row<float>(rows, out, [&](int64_t first, int64_t last, float* most) {
    float* sums = most + heads;
    for (int64_t h = 0; h < heads; ++h) most[h] = -kInf, sums[h] = 0;
    for (int64_t e = first; e < last; ++e)
      for (int64_t h = 0; h < heads; ++h) {
        const float s = scores[e * heads + h];
        most[h] = s > most[h] || s != s ? s : most[h];
      }
    for (int64_t e = first; e < last; ++e)
      for (int64_t h = 0; h < heads; ++h) out[e * heads + h] = scores[e * heads + h] - most[h];
    sweep<2>(first * heads, last * heads, [&](int64_t k, auto lanes, int) KW_INLINED {
      store(out + k, exp(load(out + k, lanes)), lanes);
    });
    for (int64_t e = first; e < last; ++e)
      for (int64_t h = 0; h < heads; ++h) sums[h] += out[e * heads + h];
    for (int64_t h = 0; h < heads; ++h) sums[h] = 1 / sums[h];
    for (int64_t e = first; e < last; ++e)
      for (int64_t h = 0; h < heads; ++h) out[e * heads + h] *= sums[h];
  });
}

void gradient(const Args& args) {
  const Rows rows = rows_of(args);
  const float* weights = args.tensor<const float>(1).data();
  const float* grad = args.tensor<const float>(2).data();
  float* out = args.tensor<float>(3).data();
  const int64_t heads = rows.heads;
  by_row<double>(rows, out, [&](int64_t first, int64_t last, double* sums) {  // of a long row a gradient may be all but its sum
    for (int64_t h = 0; h < heads; ++h) sums[h] = 0;
    for (int64_t e = first; e < last; ++e)
      for (int64_t h = 0; h < heads; ++h) sums[h] += weights[e * heads + h] * grad[e * heads + h];
    for (int64_t e = first; e < last; ++e)
      for (int64_t h = 0; h < heads; ++h)
        out[e * heads + h] = weights[e * heads + h] * (grad[e * heads + h] - float(sums[h]));
  });
}

}  // namespace
}  // namespace kw

KW_KERNEL(graph_edge_softmax) { kw::softmax(args); }
KW_KERNEL(graph_edge_softmax_gradient) { kw::gradient(args); }
