// Barriers, warps' lanes that meet, fences, asynchronous copies, shuffles.
#include "accesses.h"

namespace kw {
namespace {
uint32_t alive_threads(const Block* b) {
  uint32_t n = 0;
  for (const Warp& w : b->warps) n += __builtin_popcount(w.alive);
  return n;
}

void release_all(Barrier& bar) {
  uint32_t known[32] = {};
  for (Warp* w : bar.came)
    for (int i = 0; i < 32; i++) if (w->clocks->known[i] > known[i]) known[i] = w->clocks->known[i];
  for (Warp* w : bar.waiting) {
    uint32_t mine = w->clocks->known[w->index];
    memcpy(w->clocks->known, known, sizeof known);
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

void barrier(Warp* w, Mask m, uint32_t id, uint32_t threads, bool waits, uint32_t site) {
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
  } else {
    if (c->lanes.empty()) c->lanes.assign(1024, 0);
    KW_EACH_LANE(i, m) for (int j = 0; j < LANES; j++) if ((m >> j) & 1) c->lanes[i * 32 + j] = now;
  }
  tick(w);
}

void fence(Warp* w) {
  memcpy(w->clocks->fenced, w->clocks->known, sizeof w->clocks->known);
  w->clocks->has_fence = true;
  tick(w);
}

// ---- cp.async: the bytes arrive when they are waited for, as late as the PTX memory model lets them ----------

namespace {
// What a copy reads where its source has fewer bytes than it writes: the others are zeros.
void read_part(Warp* w, int lane, uint64_t from, uint32_t bytes, uint32_t site, uint8_t* data) {
  uint32_t piece = bytes & (~bytes + 1);  // the greatest power of two that it is a multiple of
  for (uint32_t at = 0; at < bytes; at += piece) {
    Access a{w, lane, false, false, false, site, piece, from + at, nullptr, nullptr};
    if (uint8_t* p = reach(a, GLOBAL, false, nullptr)) memcpy(data + at, p, piece);
  }
}

template <uint32_t size> void copy_lanes(Warp* w, Mask m, const b64& to, const b64& from, const b32& source, uint32_t site) {
  const Accesses sources(w, GLOBAL, GLOBAL_BASE, site), targets(w, SHARED, 0, site);
  uint32_t bytes = 0;
  KW_EACH_LANE(i, m) {
    Copy c{to.at(i), size, i, site, -1, {}};
    uint32_t n = source.at(i) < size ? source.at(i) : size;
    bytes += n;
    if (n == size) {
      if (const uint8_t* p = sources.at<size, false>(int(i), from.at(i))) memcpy(c.data, p, size);
    } else if (n && (from.at(i) & (size - 1))) {
      note(w, MISALIGNED, site, int(i), from.at(i), size, GLOBAL, 0);
    } else if (n) {
      read_part(w, int(i), from.at(i), n, site, c.data);
    }
    if (!targets.at<size, true>(int(i), c.to, c.data)) continue;
    if (has(w, CHECK)) change<size>(w->block->shared_shadow.data() + c.to, 0, PENDING);
    w->copies->pending.push_back(c);
  }
  if (m && has(w, COUNT)) {
    SiteCount& s = w->block->worker->sites[site];
    s.requests++, s.lanes += __builtin_popcount(m), s.bytes += bytes;
    s.units += (__builtin_popcount(m) * size + 31) / 32;
  }
}

template <uint32_t size> void copied(Warp* w, const Accesses& targets, const Copy& c) {
  uint8_t* shadow = w->block->shared_shadow.data() + c.to;
  if (has(w, CHECK)) change<size>(shadow, PENDING, 0);
  if (uint8_t* p = targets.at<size, true>(int(c.lane), c.to, c.data)) memcpy(p, c.data, size);
  if (has(w, CHECK)) change<size>(shadow, 0, ASYNC);  // what it copied needs no proxy fence here
}
}  // namespace

void copy_async(Warp* w, Mask m, const b64& to, const b64& from, uint32_t size, const b32& source, uint32_t site) {
  if (size == 16) copy_lanes<16>(w, m, to, from, source, site);
  else size == 8 ? copy_lanes<8>(w, m, to, from, source, site) : copy_lanes<4>(w, m, to, from, source, site);
}

void copy_commit(Warp* w, Mask m) {
  for (Copy& c : w->copies->pending)
    if (c.group < 0 && ((m >> c.lane) & 1)) c.group = w->copies->committed[c.lane];
  KW_EACH_LANE(i, m) w->copies->committed[i]++;
}

void copy_wait(Warp* w, Mask m, uint32_t groups, bool all) {
  auto& pending = w->copies->pending;
  size_t kept = 0;
  uint32_t site = 0;
  Accesses targets(w, SHARED, 0, site);
  for (size_t k = 0; k < pending.size(); k++) {
    Copy& c = pending[k];
    bool lands = ((m >> c.lane) & 1) && (all || (c.group >= 0 && c.group + int64_t(groups) < w->copies->committed[c.lane]));
    if (!lands) {
      if (kept != k) pending[kept] = c;
      kept++;
      continue;
    }
    if (c.site != site) targets = Accesses(w, SHARED, 0, site = c.site);
    if (c.bytes == 16) copied<16>(w, targets, c);
    else c.bytes == 8 ? copied<8>(w, targets, c) : copied<4>(w, targets, c);
  }
  pending.resize(kept);
}

// ---- lanes that give each other values ------------------------------------------------------------------------

b32 shuffle(Shuffle how, Mask m, const b32& a, const b32& b, const b32& c, Mask* valid) {
  alignas(64) uint32_t r[LANES];
  Mask ok = 0;
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
    r[i] = a.at(from & 31);
    ok |= Mask(inside) << i;
  }
  (void)m;
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
