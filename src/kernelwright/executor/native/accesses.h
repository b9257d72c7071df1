// The ordinary accesses of one instruction, lane by lane: weak, within global memory or the block's own shared memory,
// with nothing to report. Each is checked in a few instructions; any other goes to `reach`, which decides in full and
// says why. What is kept about bytes and threads is the same either way.
#pragma once
#include "races.h"

namespace kw {
uint8_t* reach(const Access& a, Space s, bool is_atomic, bool* shared);

constexpr uint64_t of_each_byte(uint8_t bits) { return 0x0101010101010101ull * bits; }
template <uint32_t size> inline constexpr uint64_t FIRST_BYTES = size < 8 ? (1ull << size * 8 % 64) - 1 : ~0ull;

// Whether the bits `look_at` of each shadow byte are `want`.
template <uint32_t size> inline bool all_are(const uint8_t* shadow, uint8_t look_at, uint8_t want) {
  constexpr uint32_t step = size < 8 ? size : 8;
  uint64_t bad = 0, x = 0;
  for (uint32_t i = 0; i < size; i += step) memcpy(&x, shadow + i, step), bad |= (x & of_each_byte(look_at)) ^ of_each_byte(want);
  return (bad & FIRST_BYTES<size>) == 0;
}
template <uint32_t size> inline void change(uint8_t* shadow, uint8_t clear, uint8_t set) {
  constexpr uint32_t step = size < 8 ? size : 8;
  uint64_t x = 0;
  for (uint32_t i = 0; i < size; i += step) {
    memcpy(&x, shadow + i, step);
    x = (x & ~of_each_byte(clear)) | of_each_byte(set);
    memcpy(shadow + i, &x, step);
  }
}

class Accesses {
  Warp* w;
  Space space;
  uint32_t site;
  uint64_t base = 0, bytes = 0;  // of the memory that most lanes touch; no bytes where none of its accesses is ordinary
  uint8_t *data = nullptr, *shadow = nullptr;
  Cell* cells = nullptr;
  uint64_t me = 0;
  uint32_t shift = 0, block, synced;
  const uint32_t* known;
  bool checks, mixed;  // `mixed`: lanes met in part

  __attribute__((always_inline)) bool is_before(uint64_t other, uint64_t mine, int lane) const {
    if (!other || (other ^ mine) >> 34 == 0) return true;
    if (Touch{other}.block() != block) return (shared || w->clocks->others.get()) && is_ordered(w, lane, Touch{other}, shared);
    if ((other ^ mine) >> 39 == 0) return Touch{other}.clock() <= synced || (mixed && is_ordered(w, lane, Touch{other}, shared));
    return Touch{other}.clock() <= known[Touch{other}.thread() >> 5];  // another warp of this block
  }
  // Keep a read, or a write; false where another thread's access may be a race.
  __attribute__((always_inline)) bool keep_read(Cell& c, uint64_t mine, int lane) const {
    uint64_t first = read_cell(c.read[0]), second = read_cell(c.read[1]);
    if (first == mine || second == mine) return true;  // and whoever wrote since would have cleared it
    if (!is_before(read_cell(c.written), mine, lane)) return false;
    if (is_before(first, mine, lane)) return write_cell(c.read[0], mine), true;
    bool same_warp = (first ^ second) >> 39 == 0 && (first ^ mine) >> 39 != 0;
    if (is_before(second, mine, lane) || same_warp) write_cell(c.read[1], mine);
    return true;
  }
  __attribute__((always_inline)) bool keep_write(Cell& c, uint64_t mine, int lane) const {
    uint64_t first = read_cell(c.read[0]), second = read_cell(c.read[1]);
    if (!is_before(read_cell(c.written), mine, lane) || !is_before(first, mine, lane) || !is_before(second, mine, lane)) return false;
    if (first) write_cell(c.read[0], 0);
    if (second) write_cell(c.read[1], 0);
    write_cell(c.written, mine);
    return true;
  }
  bool is_mine(uint64_t touch) const { return (touch ^ me) >> 39 == 0; }  // this warp's
  // Whether other lanes of this warp leave a reader where it is.
  bool stays(uint64_t reader) const {
    return is_mine(reader) ? Touch{reader}.clock() > synced : reader && !is_before(reader, me, 0);
  }
  template <bool write> static constexpr uint8_t need() { return write ? THERE : THERE | WRITTEN; }
  template <bool write> static constexpr uint8_t look_at() { return write ? THERE | PENDING | FIXED | READING : THERE | WRITTEN | PENDING; }

 public:
  bool shared;

  // `first`: an address of one of its lanes, which says where a generic address lies.
  Accesses(Warp* warp, Space s, uint64_t first, uint32_t of_site) : w(warp), space(s), site(of_site), block(w->block->index), synced(w->clocks->synced), known(w->clocks->known), checks(has(warp, CHECK)), mixed(!w->clocks->lanes.empty()) {
    Launch* l = w->launch;
    if (s == GENERIC) base = first - SHARED_BASE < WINDOW ? SHARED_BASE : first >= GLOBAL_BASE && first < PARAM_BASE ? GLOBAL_BASE : 0;
    shared = s == SHARED || s == CLUSTER || base == SHARED_BASE;
    if (shared) {
      Block* b = w->block;
      data = b->shared.data(), shadow = b->shared_shadow.data(), bytes = l->shared_bytes, shift = l->shared_shift;
      if (!b->cells.empty()) cells = b->cells.data();
    } else if (s == GLOBAL || base) {
      base = GLOBAL_BASE, data = l->arena, shadow = l->shadow, bytes = l->arena_bytes, shift = l->global_shift, cells = l->cells;
    }
    if (cells) me = touch_of(w, 0, ORDINARY, site);
  }

  // Where an ordinary access lies; none where it is another.
  template <uint32_t size, bool write> uint8_t* ordinary(uint64_t lane, uint64_t address) const {
    uint64_t at = address - base;
    if (at >= bytes || at & (size - 1) || at + size > bytes) return nullptr;
    if (checks && !all_are<size>(shadow + at, look_at<write>(), need<write>())) return nullptr;
    if (cells) {
      uint64_t mine = me | lane << 34;
      Cell* c = cells + (at >> shift);
      for (uint32_t k = 0; k < size >> shift; k++)
        if (!(write ? keep_write(c[k], mine, int(lane)) : keep_read(c[k], mine, int(lane)))) return nullptr;
    }
    if (checks && write) change<size>(shadow + at, ASYNC, WRITTEN);
    return data + at;
  }
  // Whether a lane that reads where the one before it did, which was ordinary, leaves everything as it is: either no
  // cells are kept, or they hold two readers that neither lane comes after, and nothing that a lane of this warp wrote
  // since they last met.
  template <uint32_t size> bool settled(uint64_t address) const {
    if (!cells) return true;
    const Cell* c = cells + ((address - base) >> shift);
    for (uint32_t k = 0; k < size >> shift; k++) {
      uint64_t first = read_cell(c[k].read[0]), second = read_cell(c[k].read[1]), written = read_cell(c[k].written);
      if (mixed || !stays(first) || !stays(second) || (is_mine(written) && Touch{written}.clock() > synced)) return false;
      if ((first ^ second) >> 39 == 0 && !is_mine(first)) return false;
    }
    return true;
  }
  // The same as `ordinary` for all lanes of a warp that stand side by side from `address` on.
  template <uint32_t size, bool write> uint8_t* side_by_side(uint64_t address) const {
    uint64_t at = address - base;
    if (at >= bytes || at & (size - 1) || at + size * LANES > bytes) return nullptr;
    if (checks && !all_are<size * LANES>(shadow + at, look_at<write>(), need<write>())) return nullptr;
    if (cells) {
      Cell* c = cells + (at >> shift);
      for (int lane = 0; lane < LANES; lane++)
        for (uint32_t k = 0; k < size >> shift; k++, c++) {
          uint64_t mine = me | uint64_t(lane) << 34;
          if (!(write ? keep_write(*c, mine, lane) : keep_read(*c, mine, lane))) return nullptr;
        }
    }
    if (checks && write) change<size * LANES>(shadow + at, ASYNC, WRITTEN);
    return data + at;
  }
  // Where any access lies, checked; none where it must not happen. `fresh`: what is stored.
  template <uint32_t size, bool write> uint8_t* at(int lane, uint64_t address, const void* fresh = nullptr) const {
    if (uint8_t* p = ordinary<size, write>(uint32_t(lane), address)) return p;
    return reach({w, lane, write, ORDINARY, shared, site, size, address, nullptr, static_cast<const uint8_t*>(fresh)}, space, false, nullptr);
  }
};
}  // namespace kw
