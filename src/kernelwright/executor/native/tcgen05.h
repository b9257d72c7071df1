// What translated kernels see of tensor memory (sm_100).
#pragma once
#include "runtime.h"

namespace kw {
enum TensorShape { T32X32, T16X32X2, T16X128, T16X256 };

// of a pair of blocks, whose ranks differ in the last bit, where `pair` says so
void tensor_alloc(Warp* w, Mask m, const b64& to, Space s, const b32& columns, bool pair, uint32_t site);
void tensor_free(Warp* w, Mask m, const b32& address, const b32& columns, uint32_t site);
void tensor_load_cells(Warp* w, Mask m, const b64& address, TensorShape s, int registers, uint32_t split, uint32_t site, b32* out);
void tensor_store_cells(Warp* w, Mask m, const b64& address, TensorShape s, int registers, uint32_t split, uint32_t site, const b32* in);
// kind: 0 for f16, 1 for tf32, 2 for f8f6f4, 3 for i8; `how` is the instruction descriptor
void tensor_multiply(Warp* w, Mask m, int kind, bool pair, const b64& to, bool from_tensor, const b64& a, const b64& b, const b32& how,
                     Mask keeps, uint32_t site);
// The mbarrier of this address, or where `many` says so those of the blocks that each lane names.
void tensor_commit(Warp* w, Mask m, const b64& barrier, bool many, const b32& blocks, uint32_t site);
}  // namespace kw
