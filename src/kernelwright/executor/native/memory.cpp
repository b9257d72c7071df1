// Loads, stores and atomics, each lane checked: bounds, alignment, initialised bytes, races; and counted.
#include "accesses.h"

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
}  // namespace

// The name of a place in memory for `synchronise`, the same for every block that reaches it.
static uint64_t name_of(const Warp* w, uint64_t address, Space s) {
  if (s != SHARED && s != CLUSTER && (s != GENERIC || address - SHARED_BASE >= WINDOW)) return address;
  uint32_t offset;
  const Block* b = owner_of(w, address, &offset);
  return uint64_t(1) << 63 | uint64_t(b ? b->index : 0) << 24 | offset;
}

uint8_t* reach(const Access& a, Space s, bool is_atomic, bool* shared) {
  Place p = checked(a, s, is_atomic);
  if (shared) *shared = p.space == SHARED;
  return p.data;
}

template <class U, int N>
void load(Warp* w, Mask m, const b64& address, Space s, Order o, uint32_t site, V<U>* out) {
  constexpr uint32_t size = sizeof(U) * N;
  alignas(64) U r[N][LANES] = {};
  if (o != WEAK) w->block->cluster->polled = true;
  const bool joined = side_by_side(address, m, size);
  if (m && has(w, COUNT)) count(w, address, m, size, s, site, joined);
  const Accesses all(w, s, address.at(first_lane(m)), site);
  if (const uint8_t* p = joined && o == WEAK ? all.side_by_side<size, false>(address.at(0)) : nullptr) {
    for (int i = 0; i < LANES; i++)
      for (int n = 0; n < N; n++) memcpy(&r[n][i], p + i * size + n * sizeof(U), sizeof(U));
  } else {
    KW_EACH_LANE(i, m) {
      const uint8_t* q = o == WEAK ? all.at<size, false>(int(i), address.at(i))
                                   : reach({w, int(i), false, true, false, site, size, address.at(i), nullptr, nullptr}, s, false, nullptr);
      if (!q) continue;
      for (int n = 0; n < N; n++) memcpy(&r[n][i], q + n * sizeof(U), sizeof(U));
      if (o != WEAK && has(w, SYNCS)) synchronise(w, int(i), name_of(w, address.at(i), s), o, true, false);
    }
  }
  for (int n = 0; n < N; n++) memcpy(&out[n], r[n], sizeof(V<U>));
}

template <class U, int N>
void store(Warp* w, Mask m, const b64& address, Space s, Order o, uint32_t site, const V<U>* in) {
  constexpr uint32_t size = sizeof(U) * N;
  if (!m) return;
  alignas(64) U r[LANES][N];
  for (int n = 0; n < N; n++)
    for (int i = 0; i < LANES; i++) r[i][n] = in[n].at(i);
  const bool joined = side_by_side(address, m, size);
  if (has(w, COUNT)) count(w, address, m, size, s, site, joined);
  if (o != WEAK && has(w, SYNCS)) KW_EACH_LANE(i, m) synchronise(w, int(i), name_of(w, address.at(i), s), o, false, true);
  const Accesses all(w, s, address.at(first_lane(m)), site);
  if (uint8_t* p = joined && o == WEAK ? all.side_by_side<size, true>(address.at(0)) : nullptr) {
    memcpy(p, r, size * LANES);
    return;
  }
  KW_EACH_LANE(i, m) {
    uint8_t* p = o == WEAK ? all.ordinary<size, true>(int(i), address.at(i)) : nullptr;
    if (!p) {
      Place q = checked({w, int(i), true, o != WEAK, false, site, size, address.at(i), nullptr, reinterpret_cast<uint8_t*>(r[i])}, s, false);
      p = q.space == PARAM ? nullptr : q.data;
    }
    if (p) memcpy(p, r[i], size);
  }
}

namespace {
template <class T> T combine(Atomic op, T old, T a, T b) {
  if constexpr (std::is_floating_point<T>::value) {
    switch (op) {
      case ADD: return old + a;
      case MIN: return extreme<false, false, T>(old, a);
      case MAX: return extreme<true, false, T>(old, a);
      default: return a;
    }
  } else {
    using U = Unsigned<T>;
    switch (op) {
      case ADD: return T(U(old) + U(a));
      case MIN: return old < a ? old : a;
      case MAX: return old > a ? old : a;
      case AND: return old & a;
      case OR: return old | a;
      case XOR: return old ^ a;
      case EXCH: return a;
      case CAS: return old == a ? b : old;
      case INC: return old >= a ? 0 : old + 1;
      case DEC: return old == 0 || old > a ? a : old - 1;
    }
    return a;
  }
}
template <class U, class F>
void update(Warp* w, Mask m, const b64& address, Space s, Order o, uint32_t site, V<U>* out, F f) {
  if (m && has(w, COUNT)) count(w, address, m, sizeof(U), s, site, false);
  alignas(64) U r[LANES] = {};
  w->block->cluster->polled = true;
  uint32_t turn = w->launch->seed ? uint32_t(shuffled(w->block->random)) & 31 : 0;
  for (uint32_t k = 0; k < LANES; k++) {
    uint32_t i = (k + turn) & 31;
    if (!((m >> i) & 1)) continue;
    if (has(w, SYNCS)) synchronise(w, int(i), name_of(w, address.at(i), s), o, false, true);  // publish before others can see
    Place p = checked({w, int(i), true, true, false, site, sizeof(U), address.at(i), nullptr, nullptr}, s, true);
    if (!p.data) continue;
    U* at = reinterpret_cast<U*>(p.data);
    U old = __atomic_load_n(at, __ATOMIC_SEQ_CST);
    while (!__atomic_compare_exchange_n(at, &old, f(old, i), false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {}
    r[i] = old;
    if (has(w, SYNCS)) synchronise(w, int(i), name_of(w, address.at(i), s), o, true, false);  // learn what was seen
  }
  if (out) memcpy(out, r, sizeof r);
}
}  // namespace

template <class T>
void atomic(Warp* w, Mask m, const b64& address, Space s, Order o, uint32_t site, Atomic op, const V<T>& a, const V<T>& b, V<T>* old) {
  using U = Unsigned<T>;
  V<U> before;
  update<U>(w, m, address, s, o, site, &before, [&](U x, int i) { return bits<U>(combine<T>(op, bits<T>(x), a.at(i), b.at(i))); });
  if (old) *old = bits<V<T>>(before);
}

template <class U>
void atomic_half(Warp* w, Mask m, const b64& address, Space s, Order o, uint32_t site, Atomic op, bool brain, const V<U>& a, V<U>* old) {
  auto one = [&](uint16_t x, uint16_t y) -> uint16_t {
    double p = brain ? to_float(bfloat{x}) : to_float(half{x}), q = brain ? to_float(bfloat{y}) : to_float(half{y});
    double r = combine<double>(op, p, q, q);
    return brain ? from_double<bfloat>(r).u : from_double<half>(r).u;
  };
  update<U>(w, m, address, s, o, site, old, [&](U x, int i) {
    U r = 0;
    for (unsigned k = 0; k < sizeof(U) / 2; k++) r |= U(one(uint16_t(x >> (16 * k)), uint16_t(a.at(i) >> (16 * k)))) << (16 * k);
    return r;
  });
}

#define KW_ACCESS(U, N)                                                                      \
  template void load<U, N>(Warp*, Mask, const b64&, Space, Order, uint32_t, V<U>*);          \
  template void store<U, N>(Warp*, Mask, const b64&, Space, Order, uint32_t, const V<U>*);
#define KW_ACCESSES(U) KW_ACCESS(U, 1) KW_ACCESS(U, 2) KW_ACCESS(U, 4)
KW_ACCESSES(uint8_t) KW_ACCESSES(uint16_t) KW_ACCESSES(uint32_t) KW_ACCESSES(uint64_t)
KW_ACCESS(uint16_t, 8) KW_ACCESS(uint32_t, 8)
#define KW_ATOMIC(T) \
  template void atomic<T>(Warp*, Mask, const b64&, Space, Order, uint32_t, Atomic, const V<T>&, const V<T>&, V<T>*);
KW_ATOMIC(uint16_t) KW_ATOMIC(uint32_t) KW_ATOMIC(int32_t) KW_ATOMIC(uint64_t) KW_ATOMIC(int64_t) KW_ATOMIC(float) KW_ATOMIC(double)
template void atomic_half<uint16_t>(Warp*, Mask, const b64&, Space, Order, uint32_t, Atomic, bool, const b16&, b16*);
template void atomic_half<uint32_t>(Warp*, Mask, const b64&, Space, Order, uint32_t, Atomic, bool, const b32&, b32*);
}  // namespace kw
