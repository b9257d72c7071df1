// The engine's own state: a launch, its blocks, warps as fibres, findings. Shared with Python by ctypes
// (_native.py): `Launch`, `Finding` and `SiteCount` must have the same fields there.
#pragma once
#include <pthread.h>
#include <sys/mman.h>
#include <time.h>

#include <atomic>
#include <vector>

#include "collections.h"
#include "runtime.h"

namespace kw {

enum Kind {
  OUT_OF_BOUNDS = 1, MISALIGNED, UNINITIALISED, RACE, CONFLICT, BARRIER_DIVERGENCE, DEADLOCK, COPY_NOT_WAITED,
  MASK_LACKS_LANE, LANES_NOT_THERE, READ_ONLY, COPY_LEFT, SPLIT_WARP, BLOCK_ENDED, CLUSTER_BARRIER, NO_PROXY_FENCE, BAD_MAP, TENSOR_LEFT,
  BAD_METADATA, NON_COHERENT, BARRIER_COUNT, SHUFFLE_SOURCE
};
enum Status { OK, DEADLINE, BUDGET, TRAP, STACK, LOCAL_FULL, TOO_MANY };
enum Flags { CHECK = 1, RACES = 2, COUNT = 4, SYNCS = 8, HOPPER_SUMS = 16, CLUSTERED = 32 };
// ASYNC: the last write was the async proxy's; READING: a bulk copy or wgmma has yet to read the byte.
enum Shadow : uint8_t { THERE = 1, WRITTEN = 2, PENDING = 4, FIXED = 8, ASYNC = 16, READING = 32 };

struct Finding {
  uint32_t kind, site, other_site, count;
  uint64_t address;
  uint32_t size, space;
  uint32_t block[3], thread, other_block, other_thread;
};
struct SiteCount { uint64_t requests, lanes, bytes, units; };

// Who last touched some bytes: clock 18 bits, site 14, strength 2, thread 10, block + 1 20.
struct Cell { uint64_t written, read[2]; };
constexpr uint32_t MOST_CLOCK = (1 << 18) - 1;

struct Launch {
  void (*entry)(Warp*);
  uint32_t grid[3], block[3];
  uint32_t shared_bytes, shared_dynamic, param_bytes, local_bytes;
  const uint8_t* shared_shadow;
  const uint8_t* params;
  uint8_t* arena;
  uint8_t* shadow;
  Cell* cells;
  uint64_t arena_bytes, stack_bytes;
  uint32_t global_shift, shared_shift;  // log2 of the bytes of a cell
  uint32_t flags, threads;
  uint64_t seed, budget;
  double deadline_s;
  uint64_t* counts;
  SiteCount* sites;
  uint32_t basic_blocks, site_count;
  Finding* findings;
  uint32_t most_findings, found;
  uint64_t steps, all_findings;
  uint32_t status, status_site, races_lost, blocks_done;
  void* state;  // LaunchState
  uint64_t* steps_of;  // pairs of step and value; nothing is traced where there are none
  uint32_t traced_block, traced_thread, most_traced, traced;
  char* printed;  // what printf wrote, as much of it as there is room for
  uint64_t most_printed, printed_bytes;
  uint32_t cluster[3];  // blocks of a cluster
  uint32_t fill;  // every byte of shared memory at first
  uint64_t touched_cells;  // of `cells`, those that somebody read or wrote
};

using WarpClock = uint32_t[32];
struct Knowledge { uint32_t clock[32]; };
inline void join(uint32_t* into, const uint32_t* clock) {
  for (int i = 0; i < 32; i++) if (clock[i] > into[i]) into[i] = clock[i];
}
// What is known of the warps of other blocks. Warps that met share one, until one of them learns more.
struct Foreign {
  uint32_t users = 1;
  bool all = false;
  Table<uint32_t, Knowledge> known;
};
class Others {
  Foreign* held = nullptr;

 public:
  Others() = default;
  Others(const Others& o) : held(o.held) { if (held) held->users++; }
  Others& operator=(Others o) { Foreign* mine = held; held = o.held, o.held = mine; return *this; }
  ~Others() { if (held && --held->users == 0) delete held; }
  const Foreign* get() const { return held; }
  Foreign& own() {
    if (!held) held = new Foreign();
    if (held->users > 1) { held->users--; held = new Foreign{1, held->all, held->known}; }
    return *held;
  }
  void learn(const Others& o) {
    if (!o.held || o.held == held) return;
    if (!held) { *this = o; return; }
    Foreign& f = own();
    f.all |= o.held->all;
    for (auto& [block, k] : o.held->known) join(f.known[block].clock, k.clock);
  }
};
struct SyncVariable { Table<uint32_t, Knowledge> known; bool all = false; };

// In place of <mutex> and <chrono>, whose headers take longer than this one.
struct Lock { pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER; };
struct Hold {
  Lock& lock;
  explicit Hold(Lock& l) : lock(l) { pthread_mutex_lock(&lock.held); }
  ~Hold() { pthread_mutex_unlock(&lock.held); }
  Hold(const Hold&) = delete;
};
inline double now_s() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

struct LaunchState {
  Lock finding_lock, sync_lock;
  Table<uint64_t, SyncVariable> variables;
  std::atomic<uint64_t> next{0};
  std::atomic<uint32_t> stopped{0};
  std::atomic<uint64_t> steps{0};
  uint64_t stride = 1, shift = 0;  // of the order of blocks
  double end_s = 0;
};

struct Clocks {
  uint32_t known[32];    // what this warp knows of each warp of its block; its own is its clock
  uint32_t fenced[32];   // the same at its last fence
  uint32_t fenced_near[32];  // and at its last one of any scope, the block's too
  uint32_t synced = 0;   // clock at which all lanes last met
  bool has_fence = false, has_near_fence = false;
  Others others;
  std::vector<uint32_t> lanes;  // 32 x 32, made when lanes first meet in part
};

struct Copy { uint64_t to; uint32_t bytes, lane, site; int64_t group; uint8_t data[16]; };
struct Copies {
  std::vector<Copy> pending;
  int64_t committed[LANES] = {};
};

// A bulk copy into shared memory: its bytes arrive when somebody waits at its mbarrier.
struct Chunk { uint32_t to, bytes; uint8_t data[16]; };
struct Transaction {
  uint32_t barrier, bytes, site, thread;
  std::vector<Chunk> chunks;
};
// A bulk copy, or a reduction, out of shared memory: done when its group is waited for.
struct BulkStore {
  struct Part { uint64_t to; uint32_t from, bytes; };
  uint32_t lane, site;
  int op, type;  // of a reduction; -1 for a copy
  int64_t group;
  std::vector<Part> parts;
  bool taken = false;
  std::vector<uint8_t> data;  // what it read, once that was waited for
};
struct BulkStores {
  std::vector<BulkStore> pending;
  int64_t committed[LANES] = {};
};

// What the wgmma of a warp read and may still read: sixteen bytes each, until their group is waited for.
struct Multiplies {
  struct Read { uint32_t at; int64_t group; };
  std::vector<Read> pending;
  int64_t committed = 0;
};

struct Block;
// A product whose sums lie in tensor memory, until it is waited for: columns of all lanes, or of half of each warp's. That
// of two blocks is two such, each with what it reads of that block's shared memory.
struct TensorWork { Block* block; uint32_t column, columns; bool half; std::vector<uint32_t> reads; };
struct TensorMemory {
  std::vector<uint32_t> cells;  // by lane and column, made by the first allocation
  std::vector<uint8_t> state;   // of each: THERE, WRITTEN, PENDING
  uint32_t site = 0;            // of the last allocation
  std::vector<uint32_t> asked, granted;  // columns that warps of two blocks allocate together: how many, and where they begin
  std::vector<TensorWork> issued;
  std::vector<std::pair<uint32_t, TensorWork>> committed;  // by the mbarrier that will be told
};

enum State { READY, AT_BARRIER, ENDED };
struct Fiber {
  void* sp = nullptr;
  char* stack = nullptr;
  State state = READY;
  bool spun = false;
  uint32_t waits_at = ~0u;  // the site of the last mbarrier whose phase was not over
};

struct Barrier {
  uint32_t arrived = 0, expected = 0;  // threads
  uint32_t site = 0;
  std::vector<Warp*> waiting, came;
  Mask or_ = 0, and_ = ~Mask(0);
  uint32_t popc = 0;
  uint32_t result_popc = 0;
  bool result_or = false, result_and = true;
  bool any = false, all = true;
};

// Zeros, of which only the pages that somebody touches take memory and time: most kernels touch no local memory.
class Zeros {
  uint8_t* held = nullptr;
  size_t bytes = 0;

 public:
  Zeros() = default;
  Zeros(const Zeros&) = delete;
  ~Zeros() { if (held) munmap(held, bytes); }
  uint8_t* of(size_t size) {  // none where there is no room
    if (held) return held;
    void* p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p != MAP_FAILED) held = static_cast<uint8_t*>(p), bytes = size;
    return held;
  }
};

struct Worker;
struct Cluster;
struct Block {
  Launch* launch;
  Worker* worker;
  Cluster* cluster;
  uint32_t rank;  // within its cluster
  uint32_t index, id[3], threads, warp_count, ended = 0;
  uint64_t random;
  std::vector<uint8_t> shared, shared_shadow;
  Zeros local, local_shadow;
  std::vector<Cell> cells;
  Array<Warp> warps;
  Array<Fiber> fibers;
  Array<Clocks> clocks;
  Array<Copies> copies;
  Array<BulkStores> stores;
  Array<Multiplies> multiplies;
  std::vector<Transaction> transactions;
  TensorMemory tensor;
  Barrier barriers[16];
  Table<uint64_t, SyncVariable> near;  // what its warps told each other by atomics of the block's scope
  // who arrived at each mbarrier, by block, and knew; of other blocks too
  struct Phase { Table<uint32_t, Knowledge> told; Others others; };
  Table<uint32_t, Phase> phases;
  uint32_t proxied[32];  // clocks of the warps up to which a proxy fence covers their stores
  bool has_ended() const { return ended == warp_count; }
};

// Blocks that reach each other's shared memory; every block is in one, alone if need be.
struct Cluster {
  std::vector<Block*> blocks;  // by rank
  std::vector<Warp*> waiting;  // at the barrier
  std::vector<Knowledge> arriving, arrived;  // what those knew who arrived, by rank: in this phase, in the last
  Others others;
  uint32_t site = 0;
  uint32_t quiet = 0;   // rounds in which its warps did nothing but look at mbarriers
  bool polled = false;  // whether one looked at something that another cluster may write
  bool stuck = false;
  bool holds(uint32_t index) const {
    for (const Block* b : blocks) if (b->index == index) return true;
    return false;
  }
};

// The block that a shared address lies in, of which the upper byte names a rank of the cluster, from 1 on, or none.
inline Block* owner_of(const Warp* w, uint64_t address, uint32_t* offset) {
  uint64_t at = address >= SHARED_BASE ? address - SHARED_BASE : address;
  *offset = uint32_t(at & 0xffffff);
  if (at < (1 << 24)) return w->block;
  uint64_t rank = (at >> 24) - 1;
  const Cluster* c = w->block->cluster;
  return rank < c->blocks.size() ? c->blocks[rank] : nullptr;
}

struct Worker {
  Launch* launch;
  LaunchState* state;
  void* sp = nullptr;  // of the scheduler, while a fibre runs
  std::vector<uint64_t> counts;
  std::vector<SiteCount> sites;
  std::vector<char*> stacks;
};

inline LaunchState* state_of(Launch* l) { return static_cast<LaunchState*>(l->state); }
inline bool has(const Warp* w, uint32_t flag) { return w->launch->flags & flag; }
void switch_out(Warp* w);
void wake_barriers(Block* b);
// What the part with bulk copies, tensor memory and clusters does as a warp ends, where a kernel had it loaded.
struct AtEnd { void (*before)(Warp*); void (*after)(Warp*); };
extern AtEnd at_end;
uint32_t land(Block* b, uint32_t barrier);  // the bulk copies of an mbarrier; returns their bytes
void publish(Warp* w, Block* b, uint32_t barrier);
void tensor_landed(Block* b, uint32_t barrier);  // what was committed to an mbarrier that somebody waited at
constexpr uint32_t TENSOR = 6;  // as a space, in findings
void note(Warp* w, uint32_t kind, uint32_t site, int lane, uint64_t address, uint32_t size, uint32_t space, uint64_t other);
inline uint64_t shuffled(uint64_t& x) {
  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  return x;
}
}  // namespace kw
