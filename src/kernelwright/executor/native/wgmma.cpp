// wgmma: a warp's sixteen rows of an m64nNk product; operands from shared memory by descriptor, or from registers.
// Source: PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions": matrix descriptor, strides, swizzling modes.
//
// Executed when it is issued: its waits change no value here.
#include "bulk.h"
#include "elements.h"

namespace kw {
uint8_t* reach(const Access& a, Space s, bool is_atomic, bool* shared);

namespace {
struct Descriptor {
  uint32_t start, leading, stride, width;  // bytes; width of the swizzle, 16 for none
  uint32_t mask;                           // of the bits that are exchanged

  explicit Descriptor(uint64_t d) {
    start = uint32_t(d & 0x3fff) << 4;
    leading = uint32_t(d >> 16 & 0x3fff) << 4;
    stride = uint32_t(d >> 32 & 0x3fff) << 4;
    switch (d >> 62) {
      case 1: width = 128, mask = 7; break;
      case 2: width = 64, mask = 3; break;
      case 3: width = 32, mask = 1; break;
      default: width = 16, mask = 0;
    }
  }
  uint32_t swizzled(uint32_t at) const { return at ^ ((at >> 7 & mask) << 4); }
  // Sixteen bytes of one row along k (k in bytes, a multiple of 16).
  uint32_t along_k(uint32_t row, uint32_t k) const {
    if (width == 16) return start + row / 8 * stride + k / 16 * leading + row % 8 * 16;
    return swizzled(start + row / 8 * stride + row % 8 * width + k);
  }
  // Sixteen bytes along the rows, at one k (row in bytes, a multiple of 16).
  uint32_t along_rows(uint32_t row, uint32_t k) const {
    if (width == 16) return start + row / 16 * stride + k / 8 * leading + k % 8 * 16;
    return swizzled(start + row / width * leading + k / 8 * stride + k % 8 * width + row % width);
  }
};

// Rows [first, first + rows) of an operand in shared memory as floats: out[k][row].
void fetch(Warp* w, uint32_t site, Element e, uint64_t descriptor, bool turned, int first_row, int rows, int k, float* out, int pitch) {
  Descriptor d(descriptor);
  int size = width_of(e), each = 16 / size;
  auto chunk = [&](uint32_t at, int lane, uint8_t* bytes) {
    memset(bytes, 0, 16);
    check_proxy(w, lane & 31, at, 16, site);
    if (uint8_t* p = reach({w, lane & 31, false, false, true, site, 16, at, nullptr, nullptr}, SHARED, false, nullptr)) memcpy(bytes, p, 16);
  };
  uint8_t bytes[16];
  if (!turned) {
    for (int r = 0; r < rows; r++)
      for (int c = 0; c < k; c += each) {
        chunk(d.along_k(uint32_t(first_row + r), uint32_t(c * size)), r, bytes);
        for (int i = 0; i < each; i++) out[(c + i) * pitch + r] = element_of(e, bytes + i * size);
      }
  } else {
    for (int c = 0; c < k; c++)
      for (int r = 0; r < rows; r += each) {
        chunk(d.along_rows(uint32_t((first_row + r) * size), uint32_t(c)), c, bytes);
        for (int i = 0; i < each; i++) out[c * pitch + r + i] = element_of(e, bytes + i * size);
      }
  }
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
  for (int p = 0; p < k; p++)
    for (int i = 0; i < 16; i++)
      for (int j = 0; j < 8; j++) acc[i][j] += fa[i][p] * fb[p][j];
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
  for (int r = 0; r < 16; r++)
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
}  // namespace kw
