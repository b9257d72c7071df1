// What plain bulk copies and those by tensor maps share.
#pragma once
#include "races.h"

namespace kw {
void bulk_read(Warp* w, int lane, uint32_t site, uint64_t from, Space s, uint32_t bytes, uint32_t least, uint8_t* out);
void bulk_add(Warp* w, int lane, Transaction& t, uint64_t to, const uint8_t* data, uint32_t bytes = 16);  // so many bytes more
void bulk_issue(Warp* w, int lane, Transaction&& t, uint64_t barrier);
void bulk_hold(Warp* w, int lane, BulkStore&& s);
// Of this block's shared memory, or another's of the cluster.
void check_proxy(Warp* w, int lane, uint64_t from, uint32_t bytes, uint32_t site, Block* of = nullptr);
void count_bulk(Warp* w, uint32_t site, uint32_t bytes, bool global);
void bulk_left(Warp* w);    // at the end of a warp
void tensor_left(Warp* w);  // likewise, of tensor memory
uint64_t of_rank(uint64_t address, int rank);
void reduce_elements(Warp* w, int lane, uint32_t site, uint64_t to, const uint8_t* data, uint32_t bytes, int op, int type, Space s = GLOBAL);
}  // namespace kw
