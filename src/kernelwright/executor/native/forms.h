// Loads and stores by how many bytes a lane has. Each form takes the compiler a while, so those that few kernels have are
// built for these alone (widths.cpp).
#pragma once
#include "accesses.h"

namespace kw {
// Whether all lanes stand side by side: one check then serves all.
bool side_by_side(const b64& address, Mask m, uint32_t size);
void count(Warp* w, const b64& address, Mask m, uint32_t size, Space s, uint32_t site, bool joined);
uint64_t name_of(const Warp* w, uint64_t address, Space s);
void check_frozen(Warp* w, Mask m, const b64& address, uint32_t size, Space s, uint32_t site);

// The bytes of each lane, one lane's after another's; those of lanes that do not read are left as they are.
template <uint32_t size> void load_bytes(Warp* w, Mask m, const b64& address, Space s, Order o, uint32_t site, uint8_t* r) {
  if (o == FROZEN) check_frozen(w, m, address, size, s, site), o = WEAK;
  if (o != WEAK) w->block->cluster->polled = true;
  const bool joined = side_by_side(address, m, size);
  if (m && has(w, COUNT)) count(w, address, m, size, s, site, joined);
  const Accesses all(w, s, address.at(first_lane(m)), site);
  if (const uint8_t* p = joined && o == WEAK ? all.side_by_side<size, false>(address.at(0)) : nullptr) {
    memcpy(r, p, size * LANES);
  } else {
    const uint8_t* again = nullptr;  // what the lane before read, where this one may read it unchecked
    uint64_t before = 0;
    KW_EACH_LANE(i, m) {
      const uint64_t at = address.at(i);
      if (again && at == before) { memcpy(r + i * size, again, size); continue; }
      const uint8_t* q = o == WEAK ? all.ordinary<size, false>(i, at) : nullptr;
      const bool repeats = q && i + 1 < LANES && address.at(i + 1) == at && all.settled<size>(at);
      again = repeats ? q : nullptr, before = at;
      if (!q) q = reach({w, int(i), false, strength_of(o), all.shared && o == WEAK, site, size, at, nullptr, nullptr}, s, false, nullptr);
      if (!q) continue;
      memcpy(r + i * size, q, size);
      if (o != WEAK && has(w, SYNCS)) synchronise(w, int(i), name_of(w, at, s), o, true, false);
    }
  }
}
template <class U, int N>
void load(Warp* w, Mask m, const b64& address, Space s, Order o, uint32_t site, V<U>* out) {
  alignas(64) U r[LANES][N] = {}, one[LANES];
  load_bytes<sizeof(U) * N>(w, m, address, s, o, site, reinterpret_cast<uint8_t*>(r));
  if constexpr (N == 1) {
    memcpy(out, r, sizeof r);
  } else {
    for (int n = 0; n < N; n++) {
      for (int i = 0; i < LANES; i++) one[i] = r[i][n];
      memcpy(&out[n], one, sizeof one);
    }
  }
}

template <uint32_t size>
void store_bytes(Warp* w, Mask m, const b64& address, Space s, Order o, uint32_t site, const uint8_t* r) {
  const bool joined = side_by_side(address, m, size);
  if (has(w, COUNT)) count(w, address, m, size, s, site, joined);
  if (o != WEAK && has(w, SYNCS)) KW_EACH_LANE(i, m) synchronise(w, int(i), name_of(w, address.at(i), s), o, false, true);
  const Accesses all(w, s, address.at(first_lane(m)), site);
  if (uint8_t* p = joined && o == WEAK ? all.side_by_side<size, true>(address.at(0)) : nullptr) {
    memcpy(p, r, size * LANES);
    return;
  }
  KW_EACH_LANE(i, m) {
    uint8_t* p = o == WEAK ? all.ordinary<size, true>(i, address.at(i)) : nullptr;
    if (!p) {
      p = reach({w, int(i), true, strength_of(o), false, site, size, address.at(i), nullptr, r + i * size}, s, false, nullptr);
    }
    if (p) memcpy(p, r + i * size, size);
  }
}
template <class U, int N>
void store(Warp* w, Mask m, const b64& address, Space s, Order o, uint32_t site, const V<U>* in) {
  if (!m) return;
  alignas(64) U r[LANES][N];
  for (int n = 0; n < N; n++)
    for (int i = 0; i < LANES; i++) r[i][n] = in[n].at(i);
  store_bytes<sizeof(U) * N>(w, m, address, s, o, site, reinterpret_cast<const uint8_t*>(r));
}

#define KW_ACCESS(U, N)                                                                      \
  template void load<U, N>(Warp*, Mask, const b64&, Space, Order, uint32_t, V<U>*);          \
  template void store<U, N>(Warp*, Mask, const b64&, Space, Order, uint32_t, const V<U>*);
}  // namespace kw
