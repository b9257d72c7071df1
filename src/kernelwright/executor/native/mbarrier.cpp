// mbarrier: a 64-bit word in shared memory that counts arrivals and bytes. Here: arrivals that a phase expects (20
// bits), arrivals still missing (20), bytes still missing plus 2^20 (21), phase (1). The PTX ISA leaves the layout open.
// Who waits with success knows what those who arrived knew.
#include "races.h"

namespace kw {
uint8_t* reach(const Access& a, Space s, bool is_atomic, bool* shared);

namespace {
struct Phase {
  uint64_t expected, missing;
  int64_t bytes;
  uint64_t phase;

  explicit Phase(uint64_t u) : expected(u & 0xfffff), missing(u >> 20 & 0xfffff), bytes(int64_t(u >> 40 & 0x1fffff) - (1 << 20)), phase(u >> 63) {}
  uint64_t word() const { return expected | missing << 20 | uint64_t(bytes + (1 << 20)) << 40 | phase << 63; }
  void settle() {
    if (missing == 0 && bytes == 0) missing = expected, phase ^= 1;
  }
};

uint64_t* word_of(Warp* w, int lane, uint64_t address, bool starts, uint32_t site) {
  static const uint64_t fresh = 0;
  const uint8_t* given = starts ? reinterpret_cast<const uint8_t*>(&fresh) : nullptr;
  Access a{w, lane, true, true, true, site, 8, address, nullptr, given};
  return reinterpret_cast<uint64_t*>(reach(a, address >= SHARED_BASE ? GENERIC : SHARED, !starts, nullptr));
}
void publish(Warp* w, uint64_t address) {
  Knowledge& k = w->block->phases[uint32_t(address)];
  for (int i = 0; i < 32; i++)
    if (w->clocks->known[i] > k.clock[i]) k.clock[i] = w->clocks->known[i];
}
void learn(Warp* w, Mask m, uint64_t address) {
  auto found = w->block->phases.find(uint32_t(address));
  if (found == w->block->phases.end()) return;
  Clocks* c = w->clocks;
  for (int i = 0; i < 32; i++)
    if (i != int(w->index) && found->second.clock[i] > c->known[i]) c->known[i] = found->second.clock[i];
  uint32_t own = found->second.clock[w->index];
  if (m == w->alive && own > c->synced) c->synced = own;
}
}  // namespace

void mbarrier_init(Warp* w, Mask m, const b64& address, const b32& count, uint32_t site) {
  KW_EACH_LANE(i, m) {
    if (uint64_t* u = word_of(w, int(i), address.at(i), true, site)) {
      Phase s(0);
      s.expected = s.missing = count.at(i) & 0xfffff;
      s.bytes = 0;
      *u = s.word();
    }
  }
}

b64 mbarrier_arrive(Warp* w, Mask m, const b64& address, const b32& count, const b32& bytes, bool arrives, uint32_t site) {
  alignas(64) uint64_t r[LANES] = {};
  KW_EACH_LANE(i, m) {
    uint64_t* u = word_of(w, int(i), address.at(i), false, site);
    if (!u) continue;
    Phase s(*u);
    r[i] = *u;
    s.bytes += int32_t(bytes.at(i));
    if (arrives) {
      publish(w, address.at(i));
      s.missing -= count.at(i) <= s.missing ? count.at(i) : s.missing;
    }
    s.settle();
    *u = s.word();
  }
  tick(w);
  return bits<b64>(r);
}

Mask mbarrier_test(Warp* w, Mask m, const b64& address, const b64& token, bool parity, uint32_t site) {
  Mask over = 0;
  KW_EACH_LANE(i, m) {
    uint64_t* u = word_of(w, int(i), address.at(i), false, site);
    if (!u) continue;
    uint64_t waited = parity ? token.at(i) & 1 : token.at(i) >> 63;
    if (Phase(*u).phase != waited) over |= Mask(1) << i;
  }
  KW_EACH_LANE(i, over) learn(w, over, address.at(i));
  if (over != m) look(w, true);
  return over;
}
}  // namespace kw
