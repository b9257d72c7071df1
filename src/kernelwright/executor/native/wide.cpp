// Atomics of 16 bytes, a lane at a time; discarded lines, whose bytes nobody knows until they are written again.
#include "wide.h"

#include <mutex>

#include "forms.h"

namespace kw {
static std::mutex& one() {
  static std::mutex m;
  return m;
}
void hold_wide() { one().lock(); }
void free_wide() { one().unlock(); }

void exchange_wide(Warp* w, Mask m, const b64& address, Space s, Order o, uint32_t site, bool compares, const b128& a, const b128& b, b128* old) {
  if (m && has(w, COUNT)) count(w, address, m, 16, s, site, false);
  w->block->cluster->polled = true;
  uint32_t turn = w->launch->seed ? uint32_t(shuffled(w->block->random)) & 31 : 0;
  *old = {zero<uint64_t>(), zero<uint64_t>()};
  for (uint32_t k = 0; k < LANES; k++) {
    int i = int((k + turn) & 31);
    if (!((m >> i) & 1)) continue;
    if (has(w, SYNCS)) synchronise(w, i, name_of(w, address.at(i), s), o, false, true);  // publish before others can see
    uint8_t* at = reach({w, i, true, strength_of(o), false, site, 16, address.at(i), nullptr, nullptr}, s, true, nullptr);
    if (!at) continue;
    uint64_t before[2], asked[2] = {a.low.at(i), a.high.at(i)}, put[2] = {b.low.at(i), b.high.at(i)};
    hold_wide();
    memcpy(before, at, 16);
    if (!compares || !memcmp(before, asked, 16)) memcpy(at, put, 16);
    free_wide();
    old->low.set(i, before[0]), old->high.set(i, before[1]);
    if (has(w, SYNCS)) synchronise(w, i, name_of(w, address.at(i), s), o, true, false);  // learn what was seen
  }
}

void discard(Warp* w, Mask m, const b64& address, uint32_t site) {
  static const uint8_t nothing[16] = {};
  KW_EACH_LANE(i, m) {
    uint64_t at = address.at(int(i));
    if (at % 128) { note(w, MISALIGNED, site, int(i), at, 128, GLOBAL, 0); continue; }
    for (uint32_t k = 0; k < 128; k += 16) {
      if (!reach({w, int(i), true, ORDINARY, false, site, 16, at + k, nullptr, nothing}, GLOBAL, false, nullptr)) break;
      if (has(w, CHECK))
        for (uint32_t j = 0; j < 16; j++) w->launch->shadow[at + k + j - GLOBAL_BASE] &= uint8_t(~WRITTEN);
    }
  }
}
}  // namespace kw
