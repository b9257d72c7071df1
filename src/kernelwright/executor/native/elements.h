// Elements of matrices in memory and in registers, as floats.
#pragma once
#include "engine.h"

namespace kw {
inline float element_of(Element e, const uint8_t* p) {
  uint16_t h;
  uint32_t w;
  switch (e) {
    case F16: memcpy(&h, p, 2); return to_float(half{h});
    case BF16: memcpy(&h, p, 2); return to_float(bfloat{h});
    case TF32: memcpy(&w, p, 4); return bits<float>(w & ~0x1fffu);
    case F32: memcpy(&w, p, 4); return bits<float>(w);
    case E4M3: return float(of_e4m3(*p));
    case E5M2: return float(of_e5m2(*p));
    case S8: return float(int8_t(*p));
    case U8: return float(*p);
    default: return 0;
  }
}
inline int width_of(Element e) {
  switch (e) {
    case F64: return 8;
    case TF32: case F32: case S32: return 4;
    case F16: case BF16: return 2;
    default: return 1;
  }
}
}  // namespace kw
