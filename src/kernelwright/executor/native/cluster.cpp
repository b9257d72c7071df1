// Clusters: their barrier, and addresses of each other's shared memory.
//
// An address of the shared window has the rank of its block, plus one, in the bits from 24 on; none is the block's own.
// Source: PTX ISA, "barrier.cluster", "mapa", "getctarank"; memory that an arrival releases is acquired by the wait.
#include <algorithm>

#include "bulk.h"

namespace kw {
namespace {
bool is_over(const Cluster* c) {
  bool some = false;
  for (const Block* b : c->blocks)
    for (const Warp& w : b->warps) {
      if (b->fibers[w.index].state == ENDED) continue;
      if (w.alive & ~w.cluster_arrived) return false;
      some |= w.alive != 0;
    }
  return some;
}

void wake_cluster(Cluster* c) {
  if (!is_over(c)) return;
  for (Block* b : c->blocks)
    for (Warp& w : b->warps) w.cluster_ready |= w.cluster_arrived, w.cluster_arrived = 0;
  c->arrived = c->arriving;
  c->arriving.assign(c->blocks.size(), Knowledge{});
  for (Warp* w : c->waiting) w->fiber->state = READY;
  c->waiting.clear();
}
const bool at_ends = [] {
  at_end = {[](Warp* w) { bulk_left(w), tensor_left(w); }, [](Warp* w) { wake_cluster(w->block->cluster); }};
  return true;
}();
}  // namespace

void cluster_arrive(Warp* w, Mask m, bool releases, bool aligned, uint32_t site) {
  Cluster* c = w->block->cluster;
  if (aligned && m != w->alive) fail(w, BARRIER_DIVERGENCE, site, m);
  if (Mask again = m & (w->cluster_arrived | w->cluster_ready)) fail(w, CLUSTER_BARRIER, site, again);
  if (releases || w->clocks->has_fence) {
    join(c->arriving[w->block->rank].clock, releases ? w->clocks->known : w->clocks->fenced);
    c->others.learn(w->clocks->others);
  }
  tick(w);
  w->cluster_arrived |= m;
  c->site = site;
  wake_cluster(c);
}

void cluster_wait(Warp* w, Mask m, bool acquires, bool aligned, uint32_t site) {
  Cluster* c = w->block->cluster;
  if (aligned && m != w->alive) fail(w, BARRIER_DIVERGENCE, site, m);
  if (Mask never = m & ~(w->cluster_arrived | w->cluster_ready)) fail(w, CLUSTER_BARRIER, site, never), m &= ~never;
  c->site = site;
  while (m & ~w->cluster_ready & w->alive) {
    w->fiber->state = AT_BARRIER;
    c->waiting.push_back(w);
    switch_out(w);
  }
  w->cluster_ready &= ~m;
  if (!acquires) return;
  Clocks* k = w->clocks;
  for (const Block* b : c->blocks) {
    const Knowledge& told = c->arrived[b->rank];
    if (b != w->block) {
      join(k->others.own().known[b->index].clock, told.clock);
      continue;
    }
    for (int i = 0; i < 32; i++)
      if (i != int(w->index)) k->known[i] = std::max(k->known[i], told.clock[i]);
    if (m == w->alive) k->synced = std::max(k->synced, told.clock[w->index]);
  }
  k->others.learn(c->others);
  tick(w);
}

b64 map_address(const Warp* w, const b64& address, const b32& rank, bool generic) {
  alignas(64) uint64_t r[LANES];
  for (int i = 0; i < LANES; i++) {
    uint64_t base = generic ? SHARED_BASE : 0;
    r[i] = base | uint64_t(rank.at(i) + 1) << 24 | ((address.at(i) - base) & 0xffffff);
  }
  (void)w;
  return bits<b64>(r);
}

b32 rank_of(const Warp* w, const b64& address) {
  alignas(64) uint32_t r[LANES];
  for (int i = 0; i < LANES; i++) {
    uint32_t at = uint32_t(address.at(i)) >> 24;
    r[i] = at ? at - 1 : w->cluster_rank;
  }
  return bits<b32>(r);
}
}  // namespace kw
