// Operands of asynchronous matrix products in shared memory, by descriptor.
// Source: PTX ISA, "Matrix Descriptor" of wgmma and of tcgen05: strides, swizzling modes.
#pragma once
#include "bulk.h"
#include "elements.h"

namespace kw {
uint8_t* reach(const Access& a, Space s, bool is_atomic, bool* shared);

struct Descriptor {
  uint32_t start, leading, stride, width;  // bytes; width of the swizzle, 16 for none
  uint32_t mask;                           // of the bits that are exchanged

  Descriptor(uint64_t d, uint32_t swizzle) : width(swizzle), mask(swizzle / 16 - 1) {
    start = uint32_t(d & 0x3fff) << 4;
    leading = uint32_t(d >> 16 & 0x3fff) << 4;
    stride = uint32_t(d >> 32 & 0x3fff) << 4;
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

// Rows [first_row, first_row + rows) of an operand as floats, out[k][row]; `lane` reads them, or each lane its share where
// it is none; they lie in the shared memory of `of`. The sixteen bytes of each place in `reads` are marked as still to be read.
inline void fetch(Warp* w, uint32_t site, int lane, Block* of, Element e, const Descriptor& d, bool turned, int first_row, int rows,
                  int k, float* out, int pitch, std::vector<uint32_t>& reads) {
  int size = width_of(e), each = 16 / size;
  auto chunk = [&](uint32_t at, int number, uint8_t* bytes) {
    int reader = lane < 0 ? number & 31 : lane;
    memset(bytes, 0, 16);
    check_proxy(w, reader, at, 16, site, of);
    bool own = of == w->block;
    Access a{w, reader, false, ORDINARY, true, site, 16, own ? at : of_rank(at, int(of->rank)), nullptr, nullptr};
    if (uint8_t* p = reach(a, own ? SHARED : CLUSTER, false, nullptr)) {
      memcpy(bytes, p, 16);
      if (!has(w, CHECK)) return;
      for (int i = 0; i < 16; i++) of->shared_shadow[at + uint32_t(i)] |= READING;
      reads.push_back(at);
    }
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
}  // namespace kw
