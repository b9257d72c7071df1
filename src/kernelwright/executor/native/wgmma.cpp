// wgmma: a warp's sixteen rows of an m64nNk product; operands from shared memory by descriptor, or from registers.
// Source: PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions": matrix descriptor, strides, swizzling modes.
//
// Executed when it is issued: its waits change no value here. What it reads must not be written before it is waited for.
#include "operands.h"
#include "sparse.h"
#include "sums.h"

namespace kw {
namespace {
Descriptor descriptor(uint64_t d) {
  static const uint32_t widths[] = {16, 128, 64, 32};
  return Descriptor(d, widths[d >> 62]);
}
void fetch(Warp* w, uint32_t site, Element e, uint64_t of, bool turned, int first_row, int rows, int k, float* out, int pitch) {
  static thread_local std::vector<uint32_t> reads;
  reads.clear();
  kw::fetch(w, site, -1, w->block, e, descriptor(of), turned, first_row, rows, k, out, pitch, reads);
  for (uint32_t at : reads) w->block->multiplies[w->index].pending.push_back({at, -1});
}

// The fragment of A in registers: as of mma.m16n8, out[k][row].
void unpack(Element e, int k, const b32* a, float* out) {
  int size = width_of(e), each = 4 / size;
  for (int r = 0; r < 4; r++)
    for (int i = 0; i < LANES; i++) {
      uint32_t word = a[r].at(i);
      for (int x = 0; x < each; x++) {
        int column = (i % 4) * each + x + (r / 2) * (k / 2);
        out[column * 16 + i / 4 + 8 * (r % 2)] = element_of(e, reinterpret_cast<uint8_t*>(&word) + x * size);
      }
    }
}
}  // namespace

void mma_f8(Element ea, Element eb, int k, bool narrow, const b32* a, const b32* b, const b32* c, b32* d) {
  float fa[16][32], fb[32][8], acc[16][8];
  for (int i = 0; i < LANES; i++) {
    for (int r = 0; r < k / 8; r++) {
      uint32_t word = a[r].at(i);
      for (int x = 0; x < 4; x++)
        fa[i / 4 + 8 * (r % 2)][4 * (i % 4) + x + 16 * (r / 2)] = element_of(ea, reinterpret_cast<uint8_t*>(&word) + x);
    }
    for (int r = 0; r < k / 16; r++) {
      uint32_t word = b[r].at(i);
      for (int x = 0; x < 4; x++) fb[4 * (i % 4) + x + 16 * r][i / 4] = element_of(eb, reinterpret_cast<uint8_t*>(&word) + x);
    }
    for (int r = 0; r < 4; r++) {
      float given = narrow ? to_float(half{uint16_t(c[r / 2].at(i) >> 16 * (r % 2))}) : bits<float>(c[r].at(i));
      acc[i / 4 + 8 * (r / 2)][2 * (i % 4) + r % 2] = given;
    }
  }
  // On Hopper halves of both are multiplied, first those of the lower bytes of each pair; then the sum is added. Sums of
  // halves are so too: ptxas makes two HMMA.F16 and an HADD2 of it, each rounded to nearest.
  for (int i = 0; i < 16; i++)
    for (int j = 0; j < 8; j++) {
      float x[16], y[16], sum = 0;
      for (int part = 0; part < 2; part++) {
        for (int p = 0; p < k / 2; p++) {
          int at = p / 2 * 4 + part * 2 + p % 2;
          x[p] = fa[i][at], y[p] = fb[at][j];
        }
        double exact = fused(PRECISE, k / 2, x, 1, y, 1, sum);
        sum = narrow ? to_float(from_double<half>(exact)) : cut(exact);
      }
      acc[i][j] += sum;
    }
  for (int r = 0; r < (narrow ? 2 : 4); r++) {
    alignas(64) uint32_t v[LANES];
    for (int i = 0; i < LANES; i++) {
      const float* sums = &acc[i / 4 + 8 * (narrow ? r : r / 2)][2 * (i % 4)];
      v[i] = narrow ? from_double<half>(sums[0]).u | uint32_t(from_double<half>(sums[1]).u) << 16 : bits<uint32_t>(sums[r % 2]);
    }
    memcpy(&d[r], v, sizeof v);
  }
}

namespace {
// The register and the shift at which a lane holds the sum of a row and a column.
template <class F> void each_sum(int n, bool narrow, F f) {
  for (int j = 0; j < n / 8; j++)
    for (int h = 0; h < 2; h++)
      for (int p = 0; p < 2; p++)
        for (int i = 0; i < LANES; i++)
          f((i / 4 + 8 * h) * n + 8 * j + 2 * (i % 4) + p, narrow ? 2 * j + h : 4 * j + 2 * h + p, i, narrow ? 16 * p : 0);
}
// The columns of B that the kept columns of A meet, or all in their order.
void columns_of(Warp* w, uint32_t site, const WarpgroupProduct& p, const b32* metadata, uint8_t (*at)[64]) {
  int lane = 0;
  if (!metadata) {
    for (int r = 0; r < 16; r++) for (int c = 0; c < p.k; c++) at[r][c] = uint8_t(c);
  } else if (!kept_columns(p.a, p.k, p.selector, false, *metadata, at, &lane)) {
    note(w, BAD_METADATA, site, lane, 0, 4, 0, 0);
  }
}
}  // namespace

void wgmma(Warp* w, uint32_t site, const WarpgroupProduct& p, const b32* a, uint64_t at_a, uint64_t at_b, const b32* metadata, Mask keep,
           b32* d) {
  static thread_local float fa[32 * 16], fb[64 * 256], acc[16 * 256];
  static thread_local int64_t whole[16 * 256];
  bool bits_ = p.a == AND_B1, keeps = keep & w->alive, narrow = p.into == F16, integers = p.into == S32;
  Element ea = bits_ ? U8 : p.a, eb = bits_ ? U8 : p.b;
  int n = p.n, k = bits_ ? p.k / 8 : p.k, held = metadata ? k / 2 : k;
  uint8_t at[16][64] = {};
  WarpgroupProduct shape = p;
  shape.k = k;
  columns_of(w, site, shape, metadata, at);
  if (a) unpack(ea, held, a, fa);
  else fetch(w, site, ea, at_a, p.turn_a, int(w->index % 4) * 16, 16, held, fa, 16);
  fetch(w, site, eb, at_b, p.turn_b, 0, n, k, fb, n);
  each_sum(n, narrow, [&](int place, int r, int i, int shift) {
    uint32_t word = keeps ? d[r].at(i) : 0;
    if (integers) whole[place] = int32_t(word);
    else acc[place] = narrow ? to_float(half{uint16_t(word >> shift)}) : bits<float>(word);
  });
  bool coarse = ea == E4M3 || ea == E5M2, fuses = coarse || has(w, HOPPER_SUMS);
  for (int r = 0; r < 16; r++) {
    float* to = acc + r * n;
    float x[64];
    for (int c = 0; c < held; c++) x[c] = p.negative ? -fa[c * 16 + r] : fa[c * 16 + r];
    if (integers) {
      for (int c = 0; c < held; c++)
        for (int j = 0; j < n; j++) {
          int left = int(x[c]), right = int(fb[at[r][c] * n + j]);
          whole[r * n + j] += bits_ ? __builtin_popcount(unsigned(left & right)) : left * right;
        }
    } else if (fuses) {
      for (int j = 0; j < n; j++) {
        float y[64];
        for (int c = 0; c < held; c++) y[c] = fb[at[r][c] * n + j];
        double s = fused(coarse ? COARSE : PRECISE, held, x, 1, y, 1, to[j]);
        to[j] = narrow ? to_float(from_double<half>(s)) : cut(s, coarse ? COARSE : 23);
      }
    } else {
      for (int c = 0; c < held; c++) {
        const float* from = fb + at[r][c] * n;
        for (int j = 0; j < n; j++) to[j] += x[c] * from[j];
      }
    }
  }
  each_sum(n, narrow, [&](int place, int r, int i, int shift) {
    if (integers) return d[r].set(i, uint32_t(p.saturates ? clamp_int<int32_t, int64_t>(whole[place]) : whole[place]));
    uint32_t word = narrow ? uint32_t(from_double<half>(acc[place]).u) << shift : bits<uint32_t>(acc[place]);
    d[r].set(i, shift ? (d[r].at(i) & 0xffffu) | word : word);
  });
}

void wgmma_commit(Warp* w) {
  Multiplies& m = w->block->multiplies[w->index];
  for (auto r = m.pending.rbegin(); r != m.pending.rend() && r->group < 0; ++r) r->group = m.committed;
  m.committed++;
}

void wgmma_wait(Warp* w, uint32_t groups) {
  Multiplies& m = w->block->multiplies[w->index];
  size_t over = 0;  // the first are the oldest
  while (over < m.pending.size() && m.pending[over].group >= 0 && m.pending[over].group + int64_t(groups) < m.committed) {
    uint8_t* shadow = w->block->shared_shadow.data() + m.pending[over++].at;
    for (int i = 0; i < 16; i++) shadow[i] &= uint8_t(~READING);
  }
  m.pending.erase(m.pending.begin(), m.pending.begin() + long(over));
}
}  // namespace kw
