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
  Access a{w, lane, true, starts ? ORDINARY : STRONG, true, site, 8, address, nullptr, given};  // who uses it comes after its start
  return reinterpret_cast<uint64_t*>(reach(a, address >= SHARED_BASE ? GENERIC : CLUSTER, !starts, nullptr));
}
void learn(Warp* w, Mask m, Block* b, uint32_t barrier) {
  auto found = b->phases.find(barrier);
  if (found == b->phases.end()) return;
  Clocks* c = w->clocks;
  c->others.learn(found->second.others);
  for (auto& [block, told] : found->second.told) {
    if (block != w->block->index) { join(c->others.own().known[block].clock, told.clock); continue; }
    const uint32_t mine = told.clock[w->index];
    for (int i = 0; i < 32; i++)
      if (i != int(w->index) && told.clock[i] > c->known[i]) c->known[i] = told.clock[i];
    if (mine <= c->synced) continue;
    if (m == w->alive) { c->synced = mine; continue; }
    if (c->lanes.empty()) c->lanes.assign(1024, 0);
    KW_EACH_LANE(i, m) for (int j = 0; j < LANES; j++) c->lanes[i * 32 + j] = std::max(c->lanes[i * 32 + j], mine);
  }
}
}  // namespace

void publish(Warp* w, Block* b, uint32_t barrier) {
  Block::Phase& p = b->phases[barrier];
  join(p.told[w->block->index].clock, w->clocks->known);
  p.others.learn(w->clocks->others);
}

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

b64 mbarrier_arrive(Warp* w, Mask m, const b64& address, const b32& count, const b32& bytes, Arrival how, uint32_t site) {
  alignas(64) uint64_t r[LANES] = {};
  KW_EACH_LANE(i, m) {
    uint64_t* u = word_of(w, int(i), address.at(i), false, site);
    if (!u) continue;
    Phase s(*u);
    r[i] = *u;
    s.bytes += int32_t(bytes.at(i));
    if (how != STAYS) {
      uint32_t offset;
      Block* b = owner_of(w, address.at(i), &offset);
      publish(w, b, offset);
      s.missing -= count.at(i) <= s.missing ? count.at(i) : s.missing;
      if (how == DROPS) s.expected -= count.at(i) <= s.expected ? count.at(i) : s.expected;
    }
    s.settle();
    *u = s.word();
  }
  tick(w);
  return bits<b64>(r);
}

b32 mbarrier_pending(const b64& token) {
  return map<uint32_t, uint64_t>(token, [](uint64_t u) { return uint32_t(Phase(u).missing); });
}

Mask mbarrier_test(Warp* w, Mask m, const b64& address, const b64& token, bool parity, uint32_t site) {
  Mask over = 0;
  std::pair<Block*, uint32_t> places[LANES];
  KW_EACH_LANE(i, m) {
    uint64_t* u = word_of(w, int(i), address.at(i), false, site);
    if (!u) continue;
    uint32_t offset;
    Block* b = owner_of(w, address.at(i), &offset);
    uint64_t waited = parity ? token.at(i) & 1 : token.at(i) >> 63;
    Phase s(*u);
    if (s.phase == waited && !b->transactions.empty()) {  // copies arrive when the phase cannot end without them
      s.bytes -= land(b, offset);
      s.settle();
      *u = s.word();
    }
    if (s.phase == waited) continue;
    over |= Mask(1) << i;
    places[i] = {b, offset};
  }
  KW_EACH_LANE(i, over) {
    learn(w, over, places[i].first, places[i].second);
    if (!places[i].first->tensor.committed.empty()) tensor_landed(places[i].first, places[i].second);
  }
  if (over != m) w->fiber->waits_at = site, look(w, true);
  return over;
}
}  // namespace kw
