// Tensor maps, of tiles and of columns of pixels (im2col); laid out as in native/tensormap.cpp.
#pragma once

namespace {
const uint8_t map_types[] = {0, 1, 2, 3, 4, 5, 6, 7, 9, 10};  // as `tensormap.replace` numbers them

// What maps of tiles and of columns share; false where a device would refuse it.
bool encode(uint8_t* made, bool im2col, unsigned type, cuuint32_t rank, const void* address, const cuuint64_t* sizes, const cuuint64_t* strides,
            const cuuint32_t* steps, unsigned interleave, unsigned swizzle, unsigned fill) {
  if (!rank || rank > 5 || type >= sizeof map_types || interleave || swizzle > 3 || reinterpret_cast<uint64_t>(address) % 16) return false;
  const uint8_t head[] = {uint8_t(rank - 1), map_types[type], 0, uint8_t(swizzle), uint8_t(fill), im2col};
  memcpy(made, &address, 8), memcpy(made + 8, head, sizeof head);
  for (cuuint32_t d = 0; d < rank; d++) {
    const uint32_t size = uint32_t(sizes[d]), step = d ? steps[d] : 1;  // TMA has no step along the first
    if (!sizes[d] || sizes[d] > 0xffffffffu || !step || step > 8 || (d && strides[d - 1] % 16)) return false;
    memcpy(made + 16 + 4 * d, &size, 4), memcpy(made + 92 + 4 * d, &step, 4);
    if (d) memcpy(made + 40 + 8 * (d - 1), &strides[d - 1], 8);
  }
  return true;
}
}  // namespace

DRIVER cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address, const cuuint64_t* sizes,
                              const cuuint64_t* strides, const cuuint32_t* box, const cuuint32_t* steps,
                              CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion,
                              CUtensorMapFloatOOBfill fill) {
  uint8_t made[sizeof *map] = {};
  if (!map || !encode(made, false, type, rank, address, sizes, strides, steps, interleave, swizzle, fill)) return CUDA_ERROR_INVALID_VALUE;
  for (cuuint32_t d = 0; d < rank; d++) {
    if (!box[d] || box[d] > 256) return CUDA_ERROR_INVALID_VALUE;
    memcpy(made + 72 + 4 * d, &box[d], 4);
  }
  memcpy(map, made, sizeof made);
  return CUDA_SUCCESS;
}
DRIVER cuTensorMapEncodeIm2col(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address, const cuuint64_t* sizes,
                               const cuuint64_t* strides, const int* lower, const int* upper, cuuint32_t channels, cuuint32_t pixels,
                               const cuuint32_t* steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                               CUtensorMapL2promotion, CUtensorMapFloatOOBfill fill) {
  uint8_t made[sizeof *map] = {};
  if (!map || rank < 3 || !channels || channels > 256 || !pixels || pixels > 1024 ||
      !encode(made, true, type, rank, address, sizes, strides, steps, interleave, swizzle, fill))
    return CUDA_ERROR_INVALID_VALUE;
  memcpy(made + 72, &channels, 4), memcpy(made + 76, &pixels, 4);
  const int most = rank == 3 ? 1 << 15 : rank == 4 ? 1 << 7 : 1 << 4;
  for (cuuint32_t d = 0; d < rank - 2; d++) {
    if (lower[d] < -most || lower[d] >= most || upper[d] < -most || upper[d] >= most || int64_t(sizes[d + 1]) - 1 + upper[d] < lower[d])
      return CUDA_ERROR_INVALID_VALUE;
    const uint32_t corners = uint32_t(uint16_t(lower[d])) | uint32_t(uint16_t(upper[d])) << 16;
    memcpy(made + 80 + 4 * d, &corners, 4);
  }
  memcpy(map, made, sizeof made);
  return CUDA_SUCCESS;
}
