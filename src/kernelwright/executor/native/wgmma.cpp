// wgmma: a warp's sixteen rows of an m64nNk product; operands from shared memory by descriptor, or from registers.
// Source: PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions": matrix descriptor, strides, swizzling modes.
//
// Executed when it is issued: its waits change no value here. What it reads must not be written before it is waited for.
#include "operands.h"
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
  kw::fetch(w, site, -1, e, descriptor(of), turned, first_row, rows, k, out, pitch, reads);
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

void mma_f8(Element ea, Element eb, int k, const b32* a, const b32* b, const b32* c, b32* d) {
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
    for (int r = 0; r < 4; r++) acc[i / 4 + 8 * (r / 2)][2 * (i % 4) + r % 2] = bits<float>(c[r].at(i));
  }
  // On Hopper halves of both are multiplied, first those of the lower bytes of each pair; then the sum is added.
  for (int i = 0; i < 16; i++)
    for (int j = 0; j < 8; j++) {
      float x[16], y[16], sum = 0;
      for (int part = 0; part < 2; part++) {
        for (int p = 0; p < k / 2; p++) {
          int at = p / 2 * 4 + part * 2 + p % 2;
          x[p] = fa[i][at], y[p] = fb[at][j];
        }
        sum = cut(fused(PRECISE, k / 2, x, 1, y, 1, sum));
      }
      acc[i][j] += sum;
    }
  for (int r = 0; r < 4; r++) {
    alignas(64) uint32_t v[LANES];
    for (int i = 0; i < LANES; i++) v[i] = bits<uint32_t>(acc[i / 4 + 8 * (r / 2)][2 * (i % 4) + r % 2]);
    memcpy(&d[r], v, sizeof v);
  }
}

void wgmma(Warp* w, uint32_t site, Element ea, Element eb, int n, int k, const b32* a, uint64_t at_a, uint64_t at_b, bool turn_a,
           bool turn_b, Mask keep, bool negate_a, bool negate_b, bool narrow, b32* d) {
  static thread_local float fa[32 * 16], fb[32 * 256], acc[16 * 256];
  if (a) unpack(ea, k, a, fa);
  else fetch(w, site, ea, at_a, turn_a, int(w->index % 4) * 16, 16, k, fa, 16);
  fetch(w, site, eb, at_b, turn_b, 0, n, k, fb, n);
  auto column = [](int i, int j, int p) { return 8 * j + 2 * (i % 4) + p; };
  bool keeps = keep & w->alive;
  for (int j = 0; j < n / 8; j++)
    for (int h = 0; h < 2; h++)
      for (int p = 0; p < 2; p++)
        for (int i = 0; i < LANES; i++) {
          float& x = acc[(i / 4 + 8 * h) * n + column(i, j, p)];
          if (!keeps) x = 0;
          else if (narrow) x = to_float(half{uint16_t(d[2 * j + h].at(i) >> (16 * p))});
          else x = bits<float>(d[4 * j + 2 * h + p].at(i));
        }
  float sign = negate_a != negate_b ? -1.0f : 1.0f;
  bool coarse = ea == E4M3 || ea == E5M2;
  if (coarse || has(w, HOPPER_SUMS)) {
    for (int x = 0; x < 16 * k; x++) fa[x] *= sign;
    for (int r = 0; r < 16; r++)
      for (int j = 0; j < n; j++) {
        double s = fused(coarse ? COARSE : PRECISE, k, fa + r, 16, fb + j, n, acc[r * n + j]);
        acc[r * n + j] = narrow ? to_float(from_double<half>(s)) : cut(s, coarse ? COARSE : 23);
      }
  } else for (int r = 0; r < 16; r++)
    for (int c = 0; c < k; c++) {
      float x = sign * fa[c * 16 + r];
      float* to = acc + r * n;
      const float* from = fb + c * n;
      for (int j = 0; j < n; j++) to[j] += x * from[j];
    }
  for (int j = 0; j < n / 8; j++)
    for (int h = 0; h < 2; h++) {
      alignas(64) uint32_t v[2][LANES];
      for (int i = 0; i < LANES; i++)
        for (int p = 0; p < 2; p++) v[p][i] = bits<uint32_t>(acc[(i / 4 + 8 * h) * n + column(i, j, p)]);
      if (narrow) {
        for (int i = 0; i < LANES; i++)
          v[0][i] = from_double<half>(bits<float>(v[0][i])).u | uint32_t(from_double<half>(bits<float>(v[1][i])).u) << 16;
        memcpy(&d[2 * j + h], v[0], sizeof v[0]);
      } else {
        memcpy(&d[4 * j + 2 * h], v[0], sizeof v[0]);
        memcpy(&d[4 * j + 2 * h + 1], v[1], sizeof v[1]);
      }
    }
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
