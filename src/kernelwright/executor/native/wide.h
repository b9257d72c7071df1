// Registers of 128 bits, and what happens to memory by pieces of 16 and 128 bytes.
#pragma once
#include "runtime.h"

namespace kw {
struct b128 { b64 low, high; };
KW_INLINE void keep(b128& to, Mask m, const b128& from) { to.low = pick(m, from.low, to.low), to.high = pick(m, from.high, to.high); }

void hold_wide();  // around accesses of 16 bytes that are to be seen whole: one at a time
void free_wide();
void exchange_wide(Warp* w, Mask m, const b64& address, Space s, Order o, uint32_t site, bool compares, const b128& a, const b128& b, b128* old);
inline void trace(Warp* w, Mask m, uint32_t step, const b128& value) { trace(w, m, step, value.low); }
// cp.reduce.async.bulk into shared memory of the cluster, whose mbarrier is told the bytes
void bulk_reduce(Warp* w, Mask m, const b64& to, const b64& from, const b32& bytes, const b64& barrier, int op, int type, uint32_t site);
void discard(Warp* w, Mask m, const b64& address, uint32_t site);
}  // namespace kw
