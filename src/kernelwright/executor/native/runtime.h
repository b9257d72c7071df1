// What translated kernels see of the engine: warps, the flow of their lanes, memory, synchronisation.
#pragma once
#include "lanes.h"
#include "reals.h"

namespace kw {

enum Space { GENERIC, GLOBAL, SHARED, LOCAL, PARAM, CLUSTER };  // CLUSTER: shared memory of any block of the cluster
// Everything but WEAK never races with its like. NEAR is added to these where the scope is the block; FROZEN is a weak load
// of what no thread of the launch may write.
enum Order { WEAK, RELAXED, ACQUIRE, RELEASE, BOTH, FROZEN, NEAR = 8 };
constexpr Order near(Order o) { return Order(o | NEAR); }
enum Atomic { ADD, MIN, MAX, AND, OR, XOR, EXCH, CAS, INC, DEC };
enum Vote { ALL, ANY, UNI, BALLOT };
enum Reduce { RED_NONE, RED_POPC, RED_AND, RED_OR };
enum Arrival { STAYS, ARRIVES, DROPS };  // DROPS: arrives, and is expected in no later phase
enum Shuffle { UP, DOWN, BFLY, IDX };

constexpr uint64_t GLOBAL_BASE = 0x700000000000, SHARED_BASE = 0x7e0000000000, LOCAL_BASE = 0x7d0000000000,
                   PARAM_BASE = 0x7c0000000000, WINDOW = uint64_t(1) << 32;

struct Launch;
struct Block;
struct Fiber;
struct Clocks;
struct Copies;

struct Warp {
  Launch* launch;
  Block* block;
  uint32_t index;       // of the warp within its block
  Mask alive;           // lanes that have not ended
  int64_t fuel;         // back edges until the next look at clock and others
  uint64_t steps;       // instructions executed
  uint64_t told;        // of these, those that the launch has counted
  uint64_t* counts;     // executions and lanes of each basic block
  char* stack_end;      // calls below this are too deep
  uint32_t local_top;   // bytes of local memory in use, each lane
  uint32_t local_low;   // where the stack begins that `alloca` takes from, which grows down from local_size
  uint32_t local_size;
  uint8_t* local;       // local_size bytes for each lane
  uint8_t* local_shadow;
  b32 tid[3];
  uint32_t ntid[3], ctaid[3], nctaid[3], cluster[3];
  uint32_t cluster_rank, cluster_size;
  Mask explicit_cluster;  // all lanes, or none: whether the launch, or the kernel, asked for clusters
  Mask cluster_arrived, cluster_ready;  // lanes that arrived at the cluster's barrier; those whose phase is over
  uint32_t shared_dynamic, shared_total;
  const uint8_t* params;
  Fiber* fiber;
  Clocks* clocks;
  Copies* copies;
};

// ---- the engine ---------------------------------------------------------------------------------------------

void look(Warp* w, bool spinning);             // yields to other warps; ends the launch at its deadline
void fail(Warp* w, uint32_t kind, uint32_t site, Mask m);  // notes a finding
[[noreturn]] void stop(Warp* w, uint32_t status, uint32_t site);
uint32_t enter_local(Warp* w, Mask m, uint32_t bytes, uint32_t site);
void allow_local(Warp* w, Mask m, uint32_t start, uint32_t bytes);
b64 take_stack(Warp* w, Mask m, const b64& bytes, uint32_t align, uint32_t site);
void give_stack(Warp* w, Mask m, const b64& to, uint32_t site);

template <class U, int N>
void load(Warp* w, Mask m, const b64& address, Space s, Order o, uint32_t site, V<U>* out);
template <class U, int N>
void store(Warp* w, Mask m, const b64& address, Space s, Order o, uint32_t site, const V<U>* in);
template <class T>
void atomic(Warp* w, Mask m, const b64& address, Space s, Order o, uint32_t site, Atomic op, const V<T>& a,
            const V<T>& b, V<T>* old);
// bfloat and half, one or two: parts of U
template <class U>
void atomic_half(Warp* w, Mask m, const b64& address, Space s, Order o, uint32_t site, Atomic op, bool brain,
                 const V<U>& a, V<U>* old);

// `others`: lanes of the warp that wait elsewhere, at an instruction that lets each lane come by itself
void barrier(Warp* w, Mask m, uint32_t id, uint32_t threads, bool waits, uint32_t site, Mask others = 0);
Mask barrier_reduce(Warp* w, Mask m, uint32_t id, uint32_t threads, Reduce r, Mask p, uint32_t* count, uint32_t site);
void sync_lanes(Warp* w, Mask m, Mask named, uint32_t site);
void fence(Warp* w, bool near = false);  // `near`: within the block only

void cluster_arrive(Warp* w, Mask m, bool releases, bool aligned, uint32_t site);
void cluster_wait(Warp* w, Mask m, bool acquires, bool aligned, uint32_t site);
b64 map_address(const Warp* w, const b64& address, const b32& rank, bool generic);
b32 rank_of(const Warp* w, const b64& address);

// Bulk copies, by plain addresses or by a tensor map's coordinates, which are followed by the offsets of im2col. `ctas`
// names ranks of the cluster where `many`.
void bulk_load(Warp* w, Mask m, const b64& to, const b64& from, Space of, const b32& bytes, const b64& barrier, bool many,
               const b32& ctas, uint32_t site);
void bulk_store(Warp* w, Mask m, const b64& to, const b64& from, const b32& bytes, int op, int type, uint32_t site);
void tensor_load(Warp* w, Mask m, int rank, bool im2col, const b64& to, const b64& map, const b32* coordinates, const b64& barrier,
                 bool many, const b32& ctas, uint32_t site);
void tensor_store(Warp* w, Mask m, int rank, bool im2col, const b64& map, const b32* coordinates, const b64& from, int op, uint32_t site);
void bulk_commit(Warp* w, Mask m);
void bulk_wait(Warp* w, Mask m, uint32_t groups, bool only_read);
void proxy_fence(Warp* w);
void map_replace(Warp* w, Mask m, const b64& map, Space s, int field, int number, const b64& value, uint32_t site);
void map_copy(Warp* w, Mask m, const b64& to, const b64& from, uint32_t site);
void copies_arrive(Warp* w, Mask m, const b64& barrier, bool counted, uint32_t site);

void copy_async(Warp* w, Mask m, const b64& to, const b64& from, uint32_t bytes, const b32& source_bytes, uint32_t site);
void copy_commit(Warp* w, Mask m);
void copy_wait(Warp* w, Mask m, uint32_t groups, bool all);

void load_matrix(Warp* w, Mask m, const b64& address, int count, bool transposed, uint32_t site, b32* out);
void store_matrix(Warp* w, Mask m, const b64& address, int count, bool transposed, uint32_t site, const b32* in);
enum Element { F16, BF16, TF32, S8, U8, E4M3, E5M2, F32, S32, F64, S4, U4, XOR_B1, AND_B1 };
// d = a b (+ d): a in registers, or by descriptor where there are none; n / 2 registers of d, n / 4 if narrow (f16)
// of 64 rows of A each of four warps does sixteen; where there are metadata, half of A's columns are kept
struct WarpgroupProduct {
  Element a, b, into;
  int n, k;
  bool turn_a, turn_b, negative, saturates;
  int selector;
};
void wgmma(Warp* w, uint32_t site, const WarpgroupProduct& p, const b32* a, uint64_t at_a, uint64_t at_b, const b32* metadata, Mask keep,
           b32* d);

void wgmma_commit(Warp* w);
void wgmma_wait(Warp* w, uint32_t groups);

void mbarrier_init(Warp* w, Mask m, const b64& address, const b32& count, uint32_t site);
b64 mbarrier_arrive(Warp* w, Mask m, const b64& address, const b32& count, const b32& bytes, Arrival how, uint32_t site);
b32 mbarrier_pending(const b64& token);
void store_async(Warp* w, Mask m, const b64& to, const b64& barrier, int words, const b32* in, uint32_t site);
void reduced_async(Warp* w, Mask m, const b64& barrier, uint32_t bytes, uint32_t site);
Mask mbarrier_test(Warp* w, Mask m, const b64& address, const b64& token, bool parity, uint32_t site);
void mma_f32(Warp* w, Element e, int k, const b32* a, const b32* b, const b32* c, b32* d);
void mma_f16(Warp* w, int k, const b32* a, const b32* b, const b32* c, b32* d);
void mma_s32(Element ea, Element eb, int m, int k, bool satfinite, const b32* a, const b32* b, const b32* c, b32* d);
void mma_f8(Element ea, Element eb, int k, bool narrow, const b32* a, const b32* b, const b32* c, b32* d);
void mma_f64(int m, int k, Round how, const b64* a, const b64* b, const b64* c, b64* d);
void mma_four(bool turn_a, bool turn_b, bool narrow_c, bool narrow_d, const b32* a, const b32* b, const b32* c, b32* d);
void mma_sparse(Warp* w, uint32_t site, Element ea, Element eb, Element into, int k, int selector, bool ordered, bool satfinite,
                const b32* a, const b32* b, const b32* c, const b32& metadata, b32* d);
// pieces of matrices in registers of 32 bits (64 for f64); `held`: the elements that a lane's registers have room for
void wmma_load(Warp* w, Mask m, Element e, int rows, int columns, uint64_t start, Space s, uint32_t stride, bool by_columns, int held,
               uint32_t site, void* out);
void wmma_store(Warp* w, Mask m, Element e, int rows, int columns, uint64_t start, Space s, uint32_t stride, bool by_columns,
                uint32_t site, const void* in);
void wmma_multiply(Warp* w, Element e, Element into, Element of, int m, int n, int k, bool satfinite, const void* a, const void* b,
                   const void* c, void* d);
b32 print(Warp* w, Mask m, const b64& format, const b64& arguments, uint32_t site);  // printf: how many arguments it took

b32 shuffle(Warp* w, Shuffle how, Mask m, const b32& a, const b32& b, const b32& c, Mask* valid, uint32_t site);
b32 match_any(Mask m, const b64& a);
b32 match_all(Mask m, const b64& a, Mask* all);

// ---- traces: what one thread's instructions leave in its registers -----------------------------------------------

int traced_lane(const Warp* w);  // -1 where the traced thread is not of this warp
void trace_step(Warp* w, uint32_t step, uint64_t value);
inline void trace(Warp* w, Mask m, uint32_t step) {
  int lane = traced_lane(w);
  if (lane >= 0 && (m >> lane) & 1) trace_step(w, step, 0);
}
inline void trace(Warp* w, Mask m, uint32_t step, Mask value) {
  int lane = traced_lane(w);
  if (lane >= 0 && (m >> lane) & 1) trace_step(w, step, (value >> lane) & 1);
}
template <class U>
void trace(Warp* w, Mask m, uint32_t step, const V<U>& value) {
  int lane = traced_lane(w);
  if (lane >= 0 && (m >> lane) & 1) trace_step(w, step, uint64_t(value.at(lane)));
}

// ---- the flow of a warp's lanes -------------------------------------------------------------------------------

// Lanes of a warp stand at different blocks of the code. The group that stands lowest in the order of blocks
// goes on, so that loops end and branches join before what follows them; groups that turn in a loop for long
// while others wait are set aside, so that lanes may wait for each other.
struct Flow {
  Warp* w;
  Mask rest = 0;     // lanes that wait elsewhere
  Mask done = 0;     // lanes that left the function
  Mask stuck = 0;    // lanes that wait for other lanes at a warp-wide instruction
  int low = 1 << 30;  // the lowest block that waiting lanes stand at
  int patience = 512;
  bool forced = false;
  Mask seen_alive = 0;
  Mask expected = 0;  // lanes that others wait for
  int16_t at[LANES];

  void put(Mask m, int pc) {
    KW_EACH_LANE(i, m) at[i] = int16_t(pc);
    rest |= m;
    if (pc < low) low = pc;
  }
  // Choose the group that goes on; -1 where all lanes have left.
  int next(Mask* m, bool turn) {
    rest &= w->alive;
    stuck &= rest;
    if (!rest) return -1;
    Mask ready = rest & ~stuck;
    if (!ready) {
      if (seen_alive == w->alive) forced = true;  // nobody else will come: the instruction reports it
      seen_alive = w->alive;
      ready = rest;
    }
    int best = -1;
    KW_EACH_LANE(i, ready) if (best < 0 || (turn ? at[i] > best : at[i] < best)) best = at[i];
    Mask group = 0;
    int lowest = 1 << 30;
    KW_EACH_LANE(i, rest) {
      if (at[i] == best) group |= Mask(1) << i;
      else if (at[i] < lowest) lowest = at[i];
    }
    rest &= ~group;
    stuck &= ~group;
    low = rest ? lowest : 1 << 30;
    *m = group;
    if (turn || !rest) patience = 512;
    return best;
  }
  // Leave in m lanes that name the same others, of whom as many as can be are there: lanes that name others go later.
  bool must_gather(Mask* m, const b32& names, int pc, uint32_t site) {
    Mask left = *m, chosen = 0;
    while (left && !chosen) {
      Mask named = names.at(first_lane(left)), same = 0;
      KW_EACH_LANE(i, left) if (names.at(i) == named) same |= Mask(1) << i;
      if (((named & w->alive) & ~same) == 0) chosen = same;
      left &= ~same;
    }
    if (!chosen) {
      Mask named = names.at(first_lane(*m));
      KW_EACH_LANE(i, *m) if (names.at(i) == named) chosen |= Mask(1) << i;
    }
    if (*m != chosen) {
      Mask others = *m & ~chosen;
      KW_EACH_LANE(i, others) if (names.at(i) & chosen) { fail(w, 10, site, chosen); break; }  // who is named goes with others
      put(others, pc);
      if (((names.at(first_lane(chosen)) & w->alive) & ~chosen) != 0 && !forced) stuck |= others;
      *m = chosen;
    }
    return must_wait(*m, names.at(first_lane(*m)), pc);
  }
  // True where the lanes must wait for others that the instruction names.
  bool must_wait(Mask m, Mask named, int pc) {
    if (__builtin_expect(((named & w->alive) & ~m) == 0, 1) || forced) { forced = false; return false; }
    if (!expected) expected = named & w->alive;
    put(m, pc);
    stuck |= m;
    return true;
  }
};

#define KW_TO(L, pc) do { if (__builtin_expect(!f.rest || (pc) < f.low, 1)) goto L; f.put(m, pc); goto dispatch; } while (0)
#define KW_BACK(L, pc, cost, spins)                                    \
  do {                                                                 \
    if (__builtin_expect((w->fuel -= (cost)) <= 0, 0)) look(w, spins); \
    if (f.rest && (f.patience -= (cost)) <= 0) { f.put(m, pc); turn = true; goto dispatch; } \
    KW_TO(L, pc);                                                      \
  } while (0)
#define KW_COUNT(id, n) do { w->counts[2 * (id)]++; w->counts[2 * (id) + 1] += __builtin_popcount(m); w->steps += (n); } while (0)
#define KW_MEET(named, pc) do { if (m != w->alive && f.must_wait(m, named, pc)) goto dispatch; } while (0)
#define KW_GATHER(names, pc, site) do { const b32 all_names = (names); if (f.must_gather(&m, all_names, pc, site)) goto dispatch; } while (0)
// Lanes waited here for others that have ended since: had those gone past this place?
#define KW_LEFT(kind, site, seen, after)                                          \
  do {                                                                      \
    if (__builtin_expect((f.expected & m) != 0, 0)) {                       \
      if (f.expected & ~m)                                                  \
        for (int b : after) if (seen[b]) { fail(w, kind, site, m); break; }    \
      f.expected = 0;                                                       \
      memset(seen, 0, sizeof seen);                                         \
    }                                                                       \
  } while (0)
#define KW_DISPATCH(cost, spins)                                             \
  do {                                                                       \
    if (__builtin_expect((w->fuel -= (cost)) <= 0, 0)) look(w, spins);       \
    if ((f.patience -= (cost)) <= 0) turn = true;                            \
  } while (0)

template <class T> KW_INLINE b64 address_of(const V<T>& base, int64_t offset) {
  if constexpr (sizeof(T) == 8) return bits<b64>(base) + splat<uint64_t>(uint64_t(offset));
  else return convert<uint64_t, uint32_t>(bits<b32>(base) + splat<uint32_t>(uint32_t(offset)));
}
KW_INLINE b64 to_window(const b64& a, uint64_t base) { return a + splat<uint64_t>(base); }

// The value that the first active lane has.
template <class T> KW_INLINE T first(Mask m, const V<T>& v) { return v.at(first_lane(m)); }

KW_INLINE Mask ballot(Mask m, Mask p) { return m & p; }
KW_INLINE Mask vote(Vote how, Mask m, Mask p) {
  switch (how) {
    case ALL: return (p & m) == m ? ~Mask(0) : 0;
    case ANY: return (p & m) ? ~Mask(0) : 0;
    default: return (p & m) == 0 || (p & m) == m ? ~Mask(0) : 0;
  }
}
template <class T, class F> KW_INLINE V<T> reduce(Mask m, const V<T>& a, F f) {
  T r = first<T>(m, a);
  bool seen = false;
  KW_EACH_LANE(i, m) { r = seen ? f(r, a.at(i)) : a.at(i); seen = true; }
  return splat<T>(r);
}

// Parameters of device functions: bytes for each lane.
template <int N> struct Bytes { alignas(16) uint8_t b[LANES][N]; };
template <class U, int N> KW_INLINE V<U> get(const Bytes<N>& p, int at) {
  alignas(64) U r[LANES];
  for (int i = 0; i < LANES; i++) memcpy(&r[i], &p.b[i][at], sizeof(U));
  return bits<V<U>>(r);
}
template <class U, int N> KW_INLINE void put(Bytes<N>& p, int at, Mask m, const V<U>& v) {
  alignas(64) U r[LANES];
  memcpy(r, &v, sizeof r);
  KW_EACH_LANE(i, m) memcpy(&p.b[i][at], &r[i], sizeof(U));
}
template <class U> KW_INLINE V<U> parameter(const Warp* w, int at) {
  U x;
  memcpy(&x, w->params + at, sizeof x);
  return splat<U>(x);
}
KW_INLINE b32 lanes_from(uint32_t start) {
  alignas(64) uint32_t r[LANES];
  for (int i = 0; i < LANES; i++) r[i] = start + i;
  return bits<b32>(r);
}
inline b32 lane_mask(int kind) {  // eq, lt, le, gt, ge
  alignas(64) uint32_t r[LANES];
  for (int i = 0; i < LANES; i++) {
    uint32_t e = 1u << i;
    r[i] = kind == 0 ? e : kind == 1 ? e - 1 : kind == 2 ? e | (e - 1) : kind == 3 ? ~(e | (e - 1)) : ~(e - 1);
  }
  return bits<b32>(r);
}
}  // namespace kw
