// Barriers, warps' lanes that meet, fences, shuffles.
#include "races.h"

namespace kw {
namespace {
uint32_t alive_threads(const Block* b) {
  uint32_t n = 0;
  for (const Warp& w : b->warps) n += __builtin_popcount(w.alive);
  return n;
}

void release_all(Barrier& bar) {
  uint32_t known[32] = {};
  Others others;
  for (Warp* w : bar.came) join(known, w->clocks->known), others.learn(w->clocks->others);
  for (Warp* w : bar.waiting) {
    uint32_t mine = w->clocks->known[w->index];
    memcpy(w->clocks->known, known, sizeof known);
    w->clocks->others = others;
    w->clocks->known[w->index] = mine;
    w->clocks->synced = mine;
    tick(w);
    w->fiber->state = READY;
  }
  for (Warp* w : bar.came) {  // those that only arrived go on with a new clock
    bool waits = false;
    for (Warp* v : bar.waiting) waits |= v == w;
    if (!waits) tick(w);
  }
  bar.result_or = bar.any;
  bar.result_and = bar.all;
  bar.result_popc = bar.popc;
  bar.any = false, bar.all = true, bar.popc = 0, bar.arrived = 0, bar.expected = 0;
  bar.waiting.clear();
  bar.came.clear();
}
bool is_full(Block* b, const Barrier& bar) {
  return bar.arrived && bar.arrived >= (bar.expected ? bar.expected : alive_threads(b));
}
}  // namespace

void wake_barriers(Block* b) {
  for (Barrier& bar : b->barriers)
    if (is_full(b, bar)) release_all(bar);
}

static Barrier& arrive(Warp* w, Mask m, uint32_t id, uint32_t threads, bool waits, uint32_t site) {
  Block* b = w->block;
  Barrier& bar = b->barriers[id & 15];
  if (bar.arrived && bar.expected != threads) fail(w, BARRIER_COUNT, site, m);
  bar.arrived += threads ? LANES : __builtin_popcount(m);
  bar.expected = threads;
  bar.site = site;
  bar.came.push_back(w);
  if (waits) {
    bar.waiting.push_back(w);
    w->fiber->state = AT_BARRIER;
  }
  if (is_full(b, bar)) release_all(bar);
  if (waits && (w->fiber->state == AT_BARRIER || w->launch->seed)) switch_out(w);
  return bar;
}

void barrier(Warp* w, Mask m, uint32_t id, uint32_t threads, bool waits, uint32_t site, Mask others) {
  if (others) stop(w, TOO_MANY, site);  // a warp waits as one here
  if (m != w->alive) fail(w, BARRIER_DIVERGENCE, site, m);
  arrive(w, m, id, threads, waits, site);
}

Mask barrier_reduce(Warp* w, Mask m, uint32_t id, uint32_t threads, Reduce r, Mask p, uint32_t* n, uint32_t site) {
  if (m != w->alive) fail(w, BARRIER_DIVERGENCE, site, m);
  Barrier& bar = w->block->barriers[id & 15];
  bar.any |= (p & m) != 0;
  bar.all &= (p & m) == m;
  bar.popc += __builtin_popcount(p & m);
  arrive(w, m, id, threads, true, site);
  if (n) *n = bar.result_popc;
  return (r == RED_AND ? bar.result_and : bar.result_or) ? ~Mask(0) : 0;
}

void sync_lanes(Warp* w, Mask m, Mask named, uint32_t site) {
  if (m & ~named) fail(w, MASK_LACKS_LANE, site, m & ~named);
  if (named & w->alive & ~m) fail(w, LANES_NOT_THERE, site, named & w->alive & ~m);
  Clocks* c = w->clocks;
  uint32_t now = c->known[w->index];
  if ((named & w->alive) == w->alive) {
    c->synced = now;
  } else {  // each learns of the others, and what those had learnt
    if (c->lanes.empty()) c->lanes.assign(1024, 0);
    uint32_t all[LANES] = {};
    KW_EACH_LANE(i, m) join(all, &c->lanes[i * 32]);
    KW_EACH_LANE(j, m) all[j] = now;
    KW_EACH_LANE(i, m) memcpy(&c->lanes[i * 32], all, sizeof all);
  }
  tick(w);
}

void fence(Warp* w, bool near) {
  Clocks* c = w->clocks;
  memcpy(c->fenced_near, c->known, sizeof c->known);
  if (!near) memcpy(c->fenced, c->known, sizeof c->known);
  c->has_near_fence = true, c->has_fence |= !near;
  tick(w);
}

// ---- lanes that give each other values ------------------------------------------------------------------------

// What a lane that takes no part would give is not known: here the bytes that fill shared memory at first.
b32 shuffle(Warp* w, Shuffle how, Mask m, const b32& a, const b32& b, const b32& c, Mask* valid, uint32_t site) {
  alignas(64) uint32_t r[LANES];
  Mask ok = 0, astray = 0;
  for (int i = 0; i < LANES; i++) {
    int by = b.at(i) & 31, clamp = c.at(i) & 31, segment = (c.at(i) >> 8) & 31;
    int most = (i & segment) | (clamp & ~segment), least = i & segment, from = i;
    bool inside = false;
    switch (how) {
      case UP: from = i - by; inside = from >= most; break;
      case DOWN: from = i + by; inside = from <= most; break;
      case BFLY: from = i ^ by; inside = from <= most; break;
      case IDX: from = least | (by & ~segment); inside = from <= most; break;
    }
    if (!inside) from = i;
    if (!(m >> (from & 31) & 1)) astray |= Mask(1) << i;
    r[i] = astray >> i & 1 ? w->launch->fill * 0x01010101u : a.at(from & 31);
    ok |= Mask(inside) << i;
  }
  if (astray & m && has(w, CHECK)) fail(w, SHUFFLE_SOURCE, site, astray & m);
  if (valid) *valid = ok;
  return bits<b32>(r);
}
b32 match_any(Mask m, const b64& a) {
  alignas(64) uint32_t r[LANES] = {};
  KW_EACH_LANE(i, m) for (int j = 0; j < LANES; j++)
    if (((m >> j) & 1) && a.at(i) == a.at(j)) r[i] |= 1u << j;
  return bits<b32>(r);
}
b32 match_all(Mask m, const b64& a, Mask* all) {
  bool same = true;
  uint64_t x = first<uint64_t>(m, a);
  KW_EACH_LANE(i, m) same &= a.at(i) == x;
  if (all) *all = same ? ~Mask(0) : 0;
  return splat<uint32_t>(same ? m : 0);
}
}  // namespace kw
