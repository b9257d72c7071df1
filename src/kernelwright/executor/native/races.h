// Data races by happens-before: who touched which bytes last, and what each warp knows of the others.
//
// A warp has a clock for every warp of its block, joined at barriers (FastTrack: Flanagan and Freund, PLDI
// 2009, with two readers kept in place of all). Lanes of a warp are ordered by `bar.warp.sync` and barriers
// only. Blocks are ordered by a fence and an atomic or volatile access that another block sees, both of a scope beyond
// the block. What a warp learns of other blocks, others of its block know once they have met it.
// A store of the value that already stands there is no race. Never a false finding for what this misses:
// a third reader, and accesses of fewer bytes than a cell, which only parts of a copy are.
#pragma once
#include "engine.h"

namespace kw {

struct Touch {
  uint64_t raw;
  uint32_t block() const { return uint32_t(raw >> 44) - 1; }
  uint32_t thread() const { return uint32_t(raw >> 34) & 1023; }
  bool strong() const { return (raw >> 33) & 1; }
  bool near() const { return (raw >> 32) & 1; }
  uint32_t site() const { return uint32_t(raw >> 18) & 16383; }
  uint32_t clock() const { return uint32_t(raw) & MOST_CLOCK; }
};

enum Strength : uint8_t { ORDINARY, STRONG = 2, STRONG_NEAR };  // whether it races with its like
inline uint64_t touch_of(const Warp* w, int lane, Strength strong, uint32_t site) {
  return uint64_t(w->block->index + 1) << 44 | uint64_t(w->index * 32 + lane) << 34 | uint64_t(strong) << 32 |
         uint64_t(site & 16383) << 18 | w->clocks->known[w->index];
}

// Not inlined, nor is what follows from its answer: it is asked by every form of access, and seldom.
inline __attribute__((noinline)) bool is_ordered(const Warp* w, int lane, Touch t, bool shared) {
  uint32_t warp = t.thread() >> 5, other = t.thread() & 31;
  if (t.block() != w->block->index) {
    const Foreign* others = w->clocks->others.get();
    if (shared && !w->block->cluster->holds(t.block())) return true;  // an earlier block's
    if (!others || others->all) return others;
    auto found = others->known.find(t.block());
    return found != others->known.end() && t.clock() <= found->second.clock[warp];
  }
  const Clocks* c = w->clocks;
  if (warp != w->index) return t.clock() <= c->known[warp];
  if (int(other) == lane || t.clock() <= c->synced) return true;
  return !c->lanes.empty() && t.clock() <= c->lanes[lane * 32 + other];
}

inline uint64_t read_cell(const uint64_t& c) { return __atomic_load_n(&c, __ATOMIC_RELAXED); }
inline void write_cell(uint64_t& c, uint64_t v) { __atomic_store_n(&c, v, __ATOMIC_RELAXED); }

inline Strength strength_of(Order o) { return o == WEAK || o == FROZEN ? ORDINARY : o & NEAR ? STRONG_NEAR : STRONG; }

struct Access {
  Warp* w;
  int lane;
  bool write;
  Strength strong;
  bool shared;
  uint32_t site, size;
  uint64_t address;
  const uint8_t *before, *fresh;  // what stands there, and what is stored; none for a read
};

// Floats that differ by rounding only: compilers let lanes that hold the same sum, each added up in its own order,
// all store it to one place of their scratch memory.
inline bool differ_by_rounding(const uint8_t* x, const uint8_t* y, uint32_t bytes) {
  for (uint32_t i = 0; i + 4 <= bytes; i += 4) {
    float a, b;
    memcpy(&a, x + i, 4), memcpy(&b, y + i, 4);
    if (memcmp(&a, &b, 4) == 0) continue;
    if (!std::isnormal(a) || !std::isnormal(b) || std::fabs(a - b) > 1e-5f * std::fabs(a)) return false;
  }
  return bytes % 4 == 0;
}

inline __attribute__((noinline)) void conflict(const Access& a, uint64_t other, uint32_t at, uint32_t bytes) {
  Touch t{other};
  if (a.fresh && memcmp(a.before + at, a.fresh + at, bytes) == 0) return;
  bool same = t.block() == a.w->block->index && (t.thread() >> 5) == a.w->index && t.site() == (a.site & 16383);
  if (same && a.fresh && a.shared && differ_by_rounding(a.before + at, a.fresh + at, bytes)) return;
  note(a.w, same && a.write ? CONFLICT : RACE, a.site, a.lane, a.address + at, bytes, a.shared ? SHARED : GLOBAL, other);
}

inline bool is_clash(const Access& a, uint64_t other) {
  if (!other) return false;
  Touch t{other};
  if (a.strong && t.strong()) {
    bool is_near = !a.shared && (a.strong == STRONG_NEAR || t.near());
    if (!is_near || t.block() == a.w->block->index) return false;
  }
  return !is_ordered(a.w, a.lane, t, a.shared);
}

inline void keep_reader(const Access& a, Cell& c, uint64_t me) {
  for (auto& slot : c.read) {
    uint64_t old = read_cell(slot);
    if (!old || (old ^ me) >> 34 == 0 || is_ordered(a.w, a.lane, Touch{old}, a.shared)) {
      write_cell(slot, me);
      return;
    }
  }
  auto warp = [](uint64_t t) { return t >> 39; };
  if (warp(c.read[0]) == warp(c.read[1]) && warp(c.read[0]) != warp(me)) write_cell(c.read[1], me);
}

inline void touch(const Access& a, Cell* cells, uint32_t shift) {
  uint64_t me = touch_of(a.w, a.lane, a.strong, a.site);
  uint32_t bytes = 1u << shift, count = a.size >> shift;
  for (uint32_t i = 0; i < count; i++) {
    Cell& c = cells[i];
    uint64_t last = read_cell(c.written);
    if ((last ^ me) >> 34 != 0 && is_clash(a, last)) conflict(a, last, i * bytes, bytes);
    if (!a.write) {
      keep_reader(a, c, me);
      continue;
    }
    for (auto& slot : c.read) {
      uint64_t reader = read_cell(slot);
      if (!reader) continue;
      if ((reader ^ me) >> 34 != 0 && is_clash(a, reader)) conflict(a, reader, i * bytes, bytes);
      write_cell(slot, 0);
    }
    write_cell(c.written, me);
  }
}

inline void tick(Warp* w) {
  uint32_t& clock = w->clocks->known[w->index];
  if (clock < MOST_CLOCK) clock++;
  else w->launch->races_lost = 1;  // from here on everything seems ordered to its own warp only
}

// Take in what was published at a place: of this block's warps, and of others' unless `own_only`.
inline void hear(Warp* w, int lane, const SyncVariable& v, bool own_only) {
  Clocks* c = w->clocks;
  if (v.all && !own_only) c->others.own().all = true;
  for (auto& [block, k] : v.known) {
    if (block != w->block->index) {
      if (!own_only) join(c->others.own().known[block].clock, k.clock);
      continue;
    }
    for (int i = 0; i < 32; i++)
      if (i != int(w->index) && k.clock[i] > c->known[i]) c->known[i] = k.clock[i];
    if (c->lanes.empty()) c->lanes.assign(1024, 0);
    for (int j = 0; j < LANES; j++) {  // what other lanes of this warp published
      uint32_t& mine = c->lanes[lane * 32 + j];
      if (k.clock[w->index] > mine) mine = k.clock[w->index];
    }
  }
}
inline void tell(Warp* w, SyncVariable& v, const uint32_t* mine) {
  if (v.known.size() > 4096) v.all = true, v.known.clear();
  join(v.known[w->block->index].clock, mine);
  const Foreign* others = w->clocks->others.get();
  if (!others) return;
  v.all |= others->all;
  for (auto& [block, k] : others->known) join(v.known[block].clock, k.clock);
}

// An atomic or volatile access: publishes what the last fence covered, learns what others published here. What has the
// block's scope, by itself or by its fence, orders this block's warps only.
inline __attribute__((noinline)) void synchronise(Warp* w, int lane, uint64_t address, Order o, bool reads, bool writes) {
  LaunchState* s = state_of(w->launch);
  Clocks* c = w->clocks;
  const bool is_near = (o & NEAR) && !(address >> 63);  // shared memory is the block's in any case
  const Order order = Order(o & ~NEAR);
  const bool releases = writes && (order == RELEASE || order == BOTH);
  Hold hold(s->sync_lock);
  if (reads) {
    auto far = s->variables.find(address);
    if (far != s->variables.end()) hear(w, lane, far->second, is_near);
    auto found = w->block->near.find(address);
    if (found != w->block->near.end()) hear(w, lane, found->second, false);
  }
  if (!releases && !(writes && c->has_near_fence)) return;
  const bool to_all = !is_near && (releases || c->has_fence);
  if (to_all) tell(w, s->variables[address], releases ? c->known : c->fenced);
  if (!to_all || (!releases && memcmp(c->fenced, c->fenced_near, sizeof c->fenced) != 0))
    tell(w, w->block->near[address], releases ? c->known : c->fenced_near);
  tick(w);
}
}  // namespace kw
