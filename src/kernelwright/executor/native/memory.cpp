// Accesses to memory, each lane checked: bounds, alignment, initialised bytes, races; and counted. Loads and stores of
// four and eight bytes a lane, which most kernels have.
#include "forms.h"

namespace kw {
namespace {

struct Place {
  uint8_t* data = nullptr;
  uint8_t* shadow = nullptr;
  Cell* cells = nullptr;
  uint32_t shift = 0;
  Space space = GLOBAL;
  bool gone = false;  // of a block that has ended
};

Place global_place(Warp* w, uint64_t address, uint32_t size) {
  Launch* l = w->launch;
  uint64_t at = address - GLOBAL_BASE;
  if (at >= l->arena_bytes || at + size > l->arena_bytes) return {};
  return {l->arena + at, l->shadow + at, l->cells ? l->cells + (at >> l->global_shift) : nullptr, l->global_shift, GLOBAL};
}
Place shared_place(Warp* w, uint64_t address, uint32_t size, bool anywhere) {
  uint32_t at;
  Block* b = owner_of(w, address, &at);
  Launch* l = w->launch;
  Place p;
  p.space = SHARED;
  if (!b || (b != w->block && !anywhere) || at >= l->shared_bytes || at + size > l->shared_bytes) return p;
  p.gone = b->has_ended();
  if (p.gone) return p;
  return {b->shared.data() + at, b->shared_shadow.data() + at, b->cells.empty() ? nullptr : b->cells.data() + (at >> l->shared_shift), l->shared_shift, SHARED};
}
Place local_place(Warp* w, int lane, uint64_t at, uint32_t size) {
  Place p;
  p.space = LOCAL;
  if (at >= w->local_size || at + size > w->local_size) return p;
  uint64_t start = uint64_t(lane) * w->local_size + at;
  p.data = w->local + start;
  p.shadow = w->local_shadow + start;
  return p;
}
Place place_of(Warp* w, int lane, uint64_t address, uint32_t size, Space s) {
  switch (s) {
    case SHARED: return shared_place(w, address, size, false);
    case CLUSTER: return shared_place(w, address, size, true);
    case LOCAL: return local_place(w, lane, address, size);
    case GLOBAL: return global_place(w, address, size);
    case PARAM: break;
    case GENERIC:
      if (address - SHARED_BASE < WINDOW) return shared_place(w, address - SHARED_BASE, size, true);
      if (address - LOCAL_BASE < WINDOW) return local_place(w, lane, address - LOCAL_BASE, size);
      if (address - PARAM_BASE >= WINDOW) return global_place(w, address, size);
      address -= PARAM_BASE;
  }
  Place p;
  p.space = PARAM;
  if (address < w->launch->param_bytes && address + size <= w->launch->param_bytes) p.data = const_cast<uint8_t*>(w->params) + address;
  return p;
}

bool all_have(const uint8_t* shadow, uint32_t size, uint8_t bits, uint8_t want) {
  uint64_t b = 0x0101010101010101ull * bits, v = 0x0101010101010101ull * want, bad = 0, x;
  uint32_t i = 0;
  for (; i + 8 <= size; i += 8) { memcpy(&x, shadow + i, 8); bad |= (x & b) ^ v; }
  for (; i < size; i++) bad |= (shadow[i] & bits) ^ want;
  return bad == 0;
}
bool any_has(const uint8_t* shadow, uint32_t size, uint8_t bits) {
  for (uint32_t i = 0; i < size; i++) if (shadow[i] & bits) return true;
  return false;
}

// Why the shadow says no; false where the access must not happen.
bool explain(const Access& a, const Place& p) {
  auto say = [&](uint32_t kind) { note(a.w, kind, a.site, a.lane, a.address, a.size, p.space, 0); };
  if (!all_have(p.shadow, a.size, THERE, THERE)) return say(OUT_OF_BOUNDS), false;
  if (a.write && any_has(p.shadow, a.size, FIXED)) return say(READ_ONLY), false;
  if (any_has(p.shadow, a.size, a.write ? PENDING | READING : PENDING)) return say(COPY_NOT_WAITED), true;
  if (!a.write || !a.fresh) {
    bool partly = any_has(p.shadow, a.size, WRITTEN);
    if (!(p.space == LOCAL && partly)) say(UNINITIALISED);
  }
  return true;
}

void mark(uint8_t* shadow, uint32_t size) { for (uint32_t i = 0; i < size; i++) shadow[i] = uint8_t((shadow[i] | WRITTEN) & ~ASYNC); }

// Everything there is to check about one lane's access; the place's data is empty where it must not happen.
Place checked(const Access& a, Space s, bool is_atomic) {
  Place p = place_of(a.w, a.lane, a.address, a.size, s);
  uint64_t aligned = a.address & (a.size - 1);
  if (!p.data || aligned) {
    note(a.w, p.data ? MISALIGNED : p.gone ? BLOCK_ENDED : OUT_OF_BOUNDS, a.site, a.lane, a.address, a.size, p.space, 0);
    p.data = nullptr;
    return p;
  }
  if (!p.shadow || !has(a.w, CHECK)) return p;
  uint8_t need = (a.write && !is_atomic) ? uint8_t(THERE) : uint8_t(THERE | WRITTEN);
  uint8_t look_at = THERE | PENDING | (a.write ? FIXED | READING : 0) | need;
  if (!all_have(p.shadow, a.size, look_at, need) && !explain(a, p)) {
    p.data = nullptr;
    return p;
  }
  if (a.write) mark(p.shadow, a.size);
  if (p.cells && a.size >> p.shift) {
    Access b = a;
    b.shared = p.space == SHARED;
    b.before = p.data;
    touch(b, p.cells, p.shift);
  }
  return p;
}

uint32_t sectors(const b64& address, Mask m, uint32_t size) {
  uint64_t seen[128];
  uint32_t n = 0;
  KW_EACH_LANE(i, m) {
    for (uint64_t s = address.at(i) >> 5; s <= (address.at(i) + size - 1) >> 5; s++) {
      uint32_t j = n;
      while (j > 0 && seen[j - 1] != s) j--;
      if (j == 0) seen[n++] = s;
    }
  }
  return n;
}
// Passes over the 32 banks: in one pass a bank gives one word, to as many lanes as ask for it.
uint32_t wavefronts(const b64& address, Mask m, uint32_t size) {
  uint32_t lanes = size <= 4 ? 32 : 128 / size, total = 0;
  for (uint32_t start = 0; start < 32; start += lanes) {
    Mask part = m & (lanes == 32 ? ~Mask(0) : ((Mask(1) << lanes) - 1) << start);
    if (!part) continue;
    uint64_t first[32], more[128];  // the first word of each bank, and all further ones
    uint32_t n = 0, load_of[32] = {}, most = 1;
    KW_EACH_LANE(i, part) {
      for (uint64_t word = address.at(i) >> 2; word <= (address.at(i) + size - 1) >> 2; word++) {
        uint32_t bank = word & 31, j = 0;
        if (!load_of[bank]) { first[bank] = word, load_of[bank] = 1; continue; }
        if (first[bank] == word) continue;
        while (j < n && more[j] != word) j++;
        if (j < n) continue;
        more[n++] = word;
        if (++load_of[bank] > most) most = load_of[bank];
      }
    }
    total += most;
  }
  return total;
}
}  // namespace

// Whether all lanes stand side by side: one check then serves all.
bool side_by_side(const b64& address, Mask m, uint32_t size) {
  if (m != ~Mask(0)) return false;
  alignas(64) uint64_t step[LANES];
  for (int i = 0; i < LANES; i++) step[i] = uint64_t(i) * size;
  return eq<uint64_t>(address, splat<uint64_t>(address.at(0)) + bits<b64>(step)) == ~Mask(0);
}
void count(Warp* w, const b64& address, Mask m, uint32_t size, Space s, uint32_t site, bool joined) {
  SiteCount& c = w->block->worker->sites[site];
  uint64_t first_address = address.at(first_lane(m));
  bool shared = s == SHARED || s == CLUSTER || (s == GENERIC && first_address - SHARED_BASE < WINDOW);
  bool global = s == GLOBAL || (s == GENERIC && first_address - GLOBAL_BASE < (uint64_t(1) << 40));
  c.requests++;
  c.lanes += __builtin_popcount(m);
  c.bytes += uint64_t(__builtin_popcount(m)) * size;
  if (joined && shared) c.units += size <= 4 ? 1 : size / 4;
  else if (joined && global) c.units += ((first_address + LANES * size - 1) >> 5) - (first_address >> 5) + 1;
  else c.units += shared ? wavefronts(address, m, size) : global ? sectors(address, m, size) : 1;
}
// The name of a place in memory for `synchronise`, the same for every block that reaches it.
uint64_t name_of(const Warp* w, uint64_t address, Space s) {
  if (s != SHARED && s != CLUSTER && (s != GENERIC || address - SHARED_BASE >= WINDOW)) return address;
  uint32_t offset;
  const Block* b = owner_of(w, address, &offset);
  return uint64_t(1) << 63 | uint64_t(b ? b->index : 0) << 24 | offset;
}

// What a load through the non-coherent cache reads must be the same for the whole launch.
void check_frozen(Warp* w, Mask m, const b64& address, uint32_t size, Space s, uint32_t site) {
  if (!has(w, RACES)) return;
  KW_EACH_LANE(i, m) {
    Place p = place_of(w, int(i), address.at(i), size, s);
    for (uint32_t k = 0; p.cells && p.space == GLOBAL && k < size >> p.shift; k++)
      if (uint64_t last = read_cell(p.cells[k].written)) { note(w, NON_COHERENT, site, int(i), address.at(i), size, GLOBAL, last); break; }
  }
}

uint8_t* reach(const Access& a, Space s, bool is_atomic, bool* shared) {
  Place p = checked(a, s, is_atomic);
  if (shared) *shared = p.space == SHARED;
  return a.write && p.space == PARAM ? nullptr : p.data;
}

KW_ACCESS(uint8_t, 4) KW_ACCESS(uint16_t, 2) KW_ACCESS(uint32_t, 1)
KW_ACCESS(uint16_t, 4) KW_ACCESS(uint32_t, 2) KW_ACCESS(uint64_t, 1)
}  // namespace kw
