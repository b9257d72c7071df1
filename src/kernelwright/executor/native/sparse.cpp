// mma.sp: products of a matrix A of which half the elements are kept. Registers hold the kept elements of A as they would
// a dense matrix of half the columns. Source: PTX ISA, "Multiply-and-Accumulate Instruction: mma.sp".
#include "sparse.h"

#include "elements.h"
#include "sums.h"

namespace kw {
namespace {
int bits_of(Element e) {
  switch (e) {
    case S4: case U4: return 4;
    default: return 8 * width_of(e);
  }
}
double value_of(Element e, uint32_t word, int at) {
  switch (e) {
    case S8: return int8_t(word >> 8 * at);
    case U8: return uint8_t(word >> 8 * at);
    case S4: return int32_t(word << (28 - 4 * at)) >> 28;
    case U4: return word >> 4 * at & 15;
    default: return element_of(e, reinterpret_cast<const uint8_t*>(&word) + at * width_of(e));
  }
}
// Where a register of an accumulator stands: 2 h + p, or h with two halves in it.
template <class F> void each_sum(bool narrow, F f) {
  for (int h = 0; h < 2; h++)
    for (int p = 0; p < 2; p++)
      for (int i = 0; i < LANES; i++) f(i / 4 + 8 * h, 2 * (i % 4) + p, narrow ? h : 2 * h + p, i, narrow ? 16 * p : 0);
}
}  // namespace

void mma_sparse(Warp* w, uint32_t site, Element ea, Element eb, Element into, int k, int selector, bool ordered, bool satfinite,
                const b32* a, const b32* b, const b32* c, const b32& metadata, b32* d) {
  static thread_local float fa[16][64], fb[8][128];
  static thread_local double acc[16][8];
  uint8_t at[16][64] = {};
  int lane = 0, each = 32 / bits_of(ea);
  if (!kept_columns(ea, k, selector, ordered, metadata, at, &lane)) note(w, BAD_METADATA, site, lane, 0, 4, 0, 0);
  for (int r = 0; r < k / (4 * each); r++)
    for (int i = 0; i < LANES; i++)
      for (int x = 0; x < each; x++) {
        fa[i / 4 + 8 * (r % 2)][each * (i % 4) + x + 4 * each * (r / 2)] = float(value_of(ea, a[r].at(i), x));
        fb[i / 4][each * (i % 4) + x + 4 * each * r] = float(value_of(eb, b[r].at(i), x));
      }
  bool narrow = into == F16;
  each_sum(narrow, [&](int row, int column, int r, int i, int shift) {
    uint32_t word = c[r].at(i);
    acc[row][column] = into == S32 ? double(int32_t(word)) : narrow ? to_float(half{uint16_t(word >> shift)}) : bits<float>(word);
  });
  for (int i = 0; i < 16; i++)
    for (int j = 0; j < 8; j++) {
      float y[64], s = float(acc[i][j]);
      for (int x = 0; x < k / 2; x++) y[x] = fb[j][at[i][x]];
      if (into == S32) {
        for (int x = 0; x < k / 2; x++) acc[i][j] += double(fa[i][x]) * y[x];
      } else if (has(w, HOPPER_SUMS) && width_of(ea) > 1) {
        double sum = fused(PRECISE, k / 2, fa[i], 1, y, 1, s);
        acc[i][j] = narrow ? to_float(from_double<half>(sum)) : cut(sum);
      } else {
        for (int x = 0; x < k / 2; x++) s += fa[i][x] * y[x];
        acc[i][j] = s;
      }
    }
  for (int r = 0; r < (narrow ? 2 : 4); r++) d[r] = zero<uint32_t>();
  each_sum(narrow, [&](int row, int column, int r, int i, int shift) {
    double s = acc[row][column];
    uint32_t word;
    if (into == S32) word = satfinite ? uint32_t(clamp_int<int32_t, int64_t>(int64_t(s))) : uint32_t(int64_t(s));
    else word = narrow ? uint32_t(from_double<half>(s).u) : bits<uint32_t>(float(s));
    d[r].set(i, d[r].at(i) | word << shift);
  });
}
}  // namespace kw
