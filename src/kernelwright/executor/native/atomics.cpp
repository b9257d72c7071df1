// Atomics and reductions, a lane at a time, each checked as any access is.
#include "forms.h"

namespace kw {
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
template <class U> using Change = U (*)(Atomic op, U old, U a, U b);
template <class U>
void update(Warp* w, Mask m, const b64& address, Space s, Order o, uint32_t site, V<U>* out, Change<U> f, Atomic op, const V<U>& a, const V<U>& b) {
  if (m && has(w, COUNT)) count(w, address, m, sizeof(U), s, site, false);
  alignas(64) U r[LANES] = {};
  w->block->cluster->polled = true;
  uint32_t turn = w->launch->seed ? uint32_t(shuffled(w->block->random)) & 31 : 0;
  for (uint32_t k = 0; k < LANES; k++) {
    uint32_t i = (k + turn) & 31;
    if (!((m >> i) & 1)) continue;
    if (has(w, SYNCS)) synchronise(w, int(i), name_of(w, address.at(i), s), o, false, true);  // publish before others can see
    U* at = reinterpret_cast<U*>(reach({w, int(i), true, strength_of(o), false, site, sizeof(U), address.at(i), nullptr, nullptr}, s, true, nullptr));
    if (!at) continue;
    U old = __atomic_load_n(at, __ATOMIC_SEQ_CST);
    while (!__atomic_compare_exchange_n(at, &old, f(op, old, a.at(int(i)), b.at(int(i))), false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {}
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
  Change<U> f = [](Atomic how, U x, U y, U z) { return bits<U>(combine<T>(how, bits<T>(x), bits<T>(y), bits<T>(z))); };
  update<U>(w, m, address, s, o, site, &before, f, op, bits<V<U>>(a), bits<V<U>>(b));
  if (old) *old = bits<V<T>>(before);
}

template <class H, class U> static U halves_changed(Atomic op, U x, U y, U) {
  U r = 0;
  for (unsigned k = 0; k < sizeof(U) / 2; k++) {
    double p = to_float(H{uint16_t(x >> (16 * k))}), q = to_float(H{uint16_t(y >> (16 * k))});
    r |= U(from_double<H>(combine<double>(op, p, q, q)).u) << (16 * k);
  }
  return r;
}
template <class U>
void atomic_half(Warp* w, Mask m, const b64& address, Space s, Order o, uint32_t site, Atomic op, bool brain, const V<U>& a, V<U>* old) {
  update<U>(w, m, address, s, o, site, old, brain ? halves_changed<bfloat, U> : halves_changed<half, U>, op, a, a);
}

#define KW_ATOMIC(T) \
  template void atomic<T>(Warp*, Mask, const b64&, Space, Order, uint32_t, Atomic, const V<T>&, const V<T>&, V<T>*);
KW_ATOMIC(uint16_t) KW_ATOMIC(uint32_t) KW_ATOMIC(int32_t) KW_ATOMIC(uint64_t) KW_ATOMIC(int64_t) KW_ATOMIC(float) KW_ATOMIC(double)
template void atomic_half<uint16_t>(Warp*, Mask, const b64&, Space, Order, uint32_t, Atomic, bool, const b16&, b16*);
template void atomic_half<uint32_t>(Warp*, Mask, const b64&, Space, Order, uint32_t, Atomic, bool, const b32&, b32*);
}  // namespace kw
