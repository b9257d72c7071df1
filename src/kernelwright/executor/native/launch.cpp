// A launch: blocks over threads of the host, the warps of a block as fibres, findings, deadlines.
#include <unistd.h>

#include "engine.h"
#include "fibers.h"

namespace kw {
namespace {
constexpr uint32_t MOST_QUIET = 20000;  // rounds after which warps that only look at mbarriers wait for ever
constexpr uint32_t MOST_RESIDENT = 64;  // blocks at once on one thread of the host, where they wait for each other
thread_local Warp* current = nullptr;
}  // namespace

AtEnd at_end{};
static void copies_left(Warp* w);
void switch_out(Warp* w) { kw_switch(&w->fiber->sp, w->block->worker->sp); }

static void run_fiber() {
  Warp* w = current;
  w->launch->entry(w);
  copies_left(w);
  if (at_end.before) at_end.before(w);
  w->alive = 0;
  w->fiber->state = ENDED;
  w->block->ended++;
  wake_barriers(w->block);
  if (at_end.after) at_end.after(w);
  switch_out(w);
  __builtin_trap();
}

void note(Warp* w, uint32_t kind, uint32_t site, int lane, uint64_t address, uint32_t size, uint32_t space, uint64_t other) {
  Launch* l = w->launch;
  LaunchState* s = state_of(l);
  uint32_t other_site = other ? uint32_t(other >> 18) & 16383 : ~0u;
  Hold hold(s->finding_lock);
  l->all_findings++;
  for (uint32_t i = 0; i < l->found; i++) {
    Finding& f = l->findings[i];
    if (f.kind == kind && f.site == site && f.other_site == other_site) { f.count++; return; }
  }
  if (l->found == l->most_findings) return;
  Finding& f = l->findings[l->found++];
  f = {kind, site, other_site, 1, address, size, space, {w->block->id[0], w->block->id[1], w->block->id[2]},
       w->index * 32 + uint32_t(lane), other ? uint32_t(other >> 44) - 1 : 0, other ? uint32_t(other >> 34) & 1023 : 0};
}

int traced_lane(const Warp* w) {
  const Launch* l = w->launch;
  return l->steps_of && w->block->index == l->traced_block && w->index == l->traced_thread / 32 ? int(l->traced_thread % 32) : -1;
}
void trace_step(Warp* w, uint32_t step, uint64_t value) {
  Launch* l = w->launch;
  if (l->traced < l->most_traced) l->steps_of[2 * l->traced] = step, l->steps_of[2 * l->traced + 1] = value;
  l->traced++;
}

void fail(Warp* w, uint32_t kind, uint32_t site, Mask m) { note(w, kind, site, first_lane(m), 0, 0, 0, 0); }

static void copies_left(Warp* w) {
  if (!has(w, CHECK)) return;
  for (const Copy& c : w->copies->pending) note(w, COPY_LEFT, c.site, int(c.lane), c.to, c.bytes, SHARED, 0);
}

static void halt(Launch* l, uint32_t status, uint32_t site) {
  uint32_t none = 0;
  if (state_of(l)->stopped.compare_exchange_strong(none, status)) l->status = status, l->status_site = site;
}

void stop(Warp* w, uint32_t status, uint32_t site) {
  halt(w->launch, status, site);
  w->fiber->state = ENDED;
  switch_out(w);
  __builtin_trap();
}

void look(Warp* w, bool spinning) {
  LaunchState* s = state_of(w->launch);
  w->fuel = spinning ? 1 : 2048;
  if (w->launch->seed) w->fuel = 1 + int64_t(shuffled(w->block->random) % 64);
  uint64_t more = w->steps - w->told, all = s->steps.fetch_add(more) + more;
  w->told = w->steps;
  if (all > w->launch->budget) stop(w, BUDGET, ~0u);
  if (now_s() > s->end_s) stop(w, DEADLINE, ~0u);
  if (s->stopped) stop(w, OK, ~0u);
  w->fiber->spun = spinning;
  switch_out(w);
}

uint32_t enter_local(Warp* w, Mask m, uint32_t bytes, uint32_t site) {
  uint32_t start = w->local_top;
  if (reinterpret_cast<char*>(__builtin_frame_address(0)) < w->stack_end) stop(w, STACK, site);
  if (start + bytes > w->local_low) stop(w, LOCAL_FULL, site);
  w->local_top = start + bytes;
  KW_EACH_LANE(i, m) memset(w->local_shadow + uint64_t(i) * w->local_size + start, 0, bytes);
  return start;
}

void allow_local(Warp* w, Mask m, uint32_t start, uint32_t bytes) {
  KW_EACH_LANE(i, m) {
    memset(w->local_shadow + uint64_t(i) * w->local_size + start, THERE, bytes);
    memset(w->local + uint64_t(i) * w->local_size + start, 0xff, bytes);
  }
}

b64 take_stack(Warp* w, Mask m, const b64& bytes, uint32_t align, uint32_t site) {
  uint64_t most = 0;
  KW_EACH_LANE(i, m) most = bytes.at(i) > most ? bytes.at(i) : most;
  if (most > w->local_low) stop(w, LOCAL_FULL, site);
  uint32_t at = uint32_t(w->local_low - most) & ~(align - 1);
  if (at < w->local_top) stop(w, LOCAL_FULL, site);
  KW_EACH_LANE(i, m) memset(w->local_shadow + uint64_t(i) * w->local_size + at, 0, w->local_low - at);
  w->local_low = at;
  KW_EACH_LANE(i, m) allow_local(w, Mask(1) << i, at, uint32_t(bytes.at(i)));
  return splat<uint64_t>(at);
}

// Lanes that are elsewhere may hold memory below: then what these give back is out of bounds, and is not taken again.
void give_stack(Warp* w, Mask m, const b64& to, uint32_t site) {
  uint64_t least = w->local_size;
  KW_EACH_LANE(i, m) {
    uint64_t at = to.at(i);
    if (at < w->local_low || at > w->local_size) stop(w, TRAP, site);
    memset(w->local_shadow + uint64_t(i) * w->local_size + w->local_low, 0, at - w->local_low);
    least = at < least ? at : least;
  }
  if (m == w->alive) w->local_low = uint32_t(least);
}

static char* take_stack(Worker* k) {
  if (!k->stacks.empty()) {
    char* s = k->stacks.back();
    k->stacks.pop_back();
    return s;
  }
  void* p = mmap(nullptr, k->launch->stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  mprotect(p, 4096, PROT_NONE);
  return static_cast<char*>(p);
}

static void set_up_warp(Block* b, uint32_t index) {
  Launch* l = b->launch;
  Warp* w = &b->warps[index];
  *w = Warp{};
  w->launch = l, w->block = b, w->index = index;
  uint32_t left = b->threads - index * LANES;
  w->alive = left >= LANES ? ~Mask(0) : (Mask(1) << left) - 1;
  w->fuel = 1;
  w->counts = b->worker->counts.data();
  uint64_t size = uint64_t(l->local_bytes) * LANES;
  w->local_size = w->local_low = l->local_bytes;
  uint8_t *local = b->local.of(size * b->warp_count), *shadow = b->local_shadow.of(size * b->warp_count);
  w->local = local + size * index;
  w->local_shadow = shadow + size * index;
  for (uint32_t i = 0; i < LANES; i++) {
    uint32_t t = index * LANES + i;
    w->tid[0].set(i, t % l->block[0]);
    w->tid[1].set(i, t / l->block[0] % l->block[1]);
    w->tid[2].set(i, t / (l->block[0] * l->block[1]));
  }
  for (int d = 0; d < 3; d++) w->ntid[d] = l->block[d], w->nctaid[d] = l->grid[d], w->ctaid[d] = b->id[d], w->cluster[d] = l->cluster[d];
  w->cluster_rank = b->rank, w->cluster_size = l->cluster[0] * l->cluster[1] * l->cluster[2];
  w->explicit_cluster = l->flags & CLUSTERED ? ~Mask(0) : 0;
  w->shared_dynamic = l->shared_dynamic, w->shared_total = l->shared_bytes;
  w->params = l->params;
  w->clocks = &b->clocks[index];
  *w->clocks = Clocks{};
  w->clocks->known[index] = 1;
  w->copies = &b->copies[index];
  *w->copies = Copies{};
  b->stores[index] = BulkStores{}, b->multiplies[index] = Multiplies{};
  w->fiber = &b->fibers[index];
  char* stack = w->fiber->stack ? w->fiber->stack : take_stack(b->worker);
  *w->fiber = Fiber{};
  w->fiber->stack = stack;
  if (!stack || !local || !shadow) { halt(l, STACK, ~0u); w->fiber->state = ENDED; return; }
  w->stack_end = stack + 65536;
  w->fiber->sp = prepare(stack, l->stack_bytes, run_fiber);
}

static void set_up(Block* b, Worker* k, Cluster* c, uint32_t rank, uint32_t index) {
  Launch* l = k->launch;
  b->launch = l, b->worker = k, b->cluster = c, b->rank = rank, b->index = index, b->ended = 0;
  b->id[0] = index % l->grid[0], b->id[1] = index / l->grid[0] % l->grid[1], b->id[2] = index / l->grid[0] / l->grid[1];
  b->threads = l->block[0] * l->block[1] * l->block[2];
  b->warp_count = (b->threads + LANES - 1) / LANES;
  b->random = (l->seed + 1) * 0x9e3779b97f4a7c15ull + index * 0xbf58476d1ce4e5b9ull + 1;
  b->shared.assign(l->shared_bytes, uint8_t(l->fill));
  b->shared_shadow.assign(l->shared_shadow, l->shared_shadow + l->shared_bytes);
  if ((l->flags & RACES) && b->cells.empty()) b->cells.resize((l->shared_bytes >> l->shared_shift) + 1);
  b->warps.make(b->warp_count), b->fibers.make(b->warp_count), b->clocks.make(b->warp_count), b->copies.make(b->warp_count);
  b->stores.make(b->warp_count), b->multiplies.make(b->warp_count);
  for (Barrier& bar : b->barriers) bar = Barrier{};
  b->transactions.clear(), b->tensor = TensorMemory{};
  memset(b->proxied, 0, sizeof b->proxied);
  b->near.clear();
  b->phases.clear();
  for (uint32_t i = 0; i < b->warp_count; i++) set_up_warp(b, i);
}

// Run each warp that can go on once; true where one did more than spin.
static bool run_once(Block* b) {
  bool went_on = false;
  uint32_t n = b->warp_count, start = b->launch->seed ? uint32_t(shuffled(b->random) % n) : 0;
  bool backwards = b->launch->seed && (shuffled(b->random) & 1);
  for (uint32_t k = 0; k < n; k++) {
    uint32_t i = (start + (backwards ? n - 1 - k : k)) % n;
    Warp* w = &b->warps[i];
    if (w->fiber->state != READY) continue;
    w->fiber->spun = false;
    current = w;
    kw_switch(&b->worker->sp, w->fiber->sp);
    went_on |= !w->fiber->spun;
    if (state_of(b->launch)->stopped) return true;
  }
  return went_on;
}

static bool is_deadlocked(const Cluster* c) {
  bool over = true;
  for (const Block* b : c->blocks) {
    for (const Fiber& f : b->fibers) if (f.state == READY) return false;
    over &= b->has_ended();
  }
  return !over;
}

static bool holds(const std::vector<Warp*>& all, const Warp* w) {
  for (const Warp* one : all) if (one == w) return true;
  return false;
}
static void report_deadlock(Cluster* c) {
  for (Block* b : c->blocks)
    for (Warp& w : b->warps) {
      if (c->stuck && w.fiber->state == READY) fail(&w, DEADLOCK, w.fiber->waits_at, w.alive);
      if (w.fiber->state != AT_BARRIER) continue;
      for (Barrier& bar : b->barriers)
        if (holds(bar.waiting, &w)) fail(&w, DEADLOCK, bar.site, w.alive);
      if (holds(c->waiting, &w)) fail(&w, DEADLOCK, c->site, w.alive);
    }
}

static void retire(Block* b, Worker* k) {
  uint64_t steps = 0;
  for (Warp& w : b->warps) steps += w.steps - w.told;
  k->state->steps += steps;
  if (k->state->steps > k->launch->budget) halt(k->launch, BUDGET, ~0u);
  if (now_s() > k->state->end_s) halt(k->launch, DEADLINE, ~0u);
  __atomic_fetch_add(&k->launch->blocks_done, 1, __ATOMIC_RELAXED);
}

// The blocks of one thread of the host, cluster by cluster.
struct Residents {
  Worker* k;
  std::vector<Cluster*> resident;
  std::vector<Block*> spare, all;

  // Take the next cluster in; false where there is none.
  bool admit() {
    Launch* l = k->launch;
    LaunchState* s = k->state;
    uint32_t size = l->cluster[0] * l->cluster[1] * l->cluster[2];
    uint64_t total = uint64_t(l->grid[0]) * l->grid[1] * l->grid[2] / size;
    uint64_t next = s->stopped ? total : s->next++;
    if (next >= total) return false;
    next = (next * s->stride + s->shift) % total;
    uint64_t across = l->grid[0] / l->cluster[0], down = l->grid[1] / l->cluster[1];
    uint64_t x = next % across * l->cluster[0], y = next / across % down * l->cluster[1], z = next / across / down * l->cluster[2];
    auto* c = new Cluster();
    c->arriving.resize(size), c->arrived.resize(size);
    for (uint32_t rank = 0; rank < size; rank++) {
      if (spare.empty()) all.push_back(new Block()), spare.push_back(all.back());
      c->blocks.push_back(spare.back());
      spare.pop_back();
    }
    for (uint32_t rank = 0; rank < size; rank++) {
      uint64_t bx = x + rank % l->cluster[0], by = y + rank / l->cluster[0] % l->cluster[1], bz = z + rank / (l->cluster[0] * l->cluster[1]);
      set_up(c->blocks[rank], k, c, rank, uint32_t(bx + l->grid[0] * (by + l->grid[1] * bz)));
    }
    resident.push_back(c);
    return true;
  }
  // Whether every warp that could go on has looked at an mbarrier in vain.
  static bool waits(const Cluster* c) {
    for (const Block* b : c->blocks)
      for (const Fiber& f : b->fibers) if (f.state == READY && f.waits_at == ~0u) return false;
    return true;
  }
  // Run each warp of a cluster once; true where one did more than spin.
  bool run(Cluster* c) {
    bool went_on = false;
    size_t n = c->blocks.size(), start = k->launch->seed && n > 1 ? shuffled(c->blocks[0]->random) % n : 0;
    for (size_t i = 0; i < n && !k->state->stopped; i++) {
      Block* b = c->blocks[(start + i) % n];
      if (!b->has_ended()) went_on |= run_once(b);
    }
    c->quiet = went_on || c->polled || !waits(c) ? 0 : c->quiet + 1;
    c->polled = false;
    c->stuck = c->quiet > MOST_QUIET;
    return went_on;
  }
  bool is_over(Cluster* c) {
    bool over = true, dead = c->stuck || is_deadlocked(c);
    if (dead) report_deadlock(c);
    for (Block* b : c->blocks) over &= b->has_ended();
    if (!over && !dead) return false;
    for (Block* b : c->blocks) retire(b, k), spare.push_back(b);
    delete c;
    return true;
  }
  ~Residents() {
    for (Cluster* c : resident) delete c;
    for (Block* b : all) {
      for (Fiber& f : b->fibers) if (f.stack) munmap(f.stack, k->launch->stack_bytes);
      delete b;
    }
  }
};

static void* work(void* worker) {
  Worker* k = static_cast<Worker*>(worker);
  Residents r{k};
  while (!k->state->stopped) {
    if (r.resident.empty() && !r.admit()) break;
    bool went_on = false;
    for (size_t i = 0; i < r.resident.size() && !k->state->stopped;) {
      went_on |= r.run(r.resident[i]);
      if (k->state->stopped) break;
      if (r.is_over(r.resident[i])) r.resident.erase(r.resident.begin() + long(i)), went_on = true;
      else i++;
    }
    if (!went_on && r.resident.size() * r.k->launch->cluster[0] * r.k->launch->cluster[1] * r.k->launch->cluster[2] < MOST_RESIDENT) r.admit();
  }
  for (char* stack : k->stacks) munmap(stack, k->launch->stack_bytes);
  return nullptr;
}
static uint64_t divisor(uint64_t a, uint64_t b) { return b ? divisor(b, a % b) : a; }  // the greatest common one
}  // namespace kw

using namespace kw;

extern "C" __attribute__((visibility("default"))) void kw_launch(Launch* l) {
  LaunchState s;
  l->state = &s;
  s.end_s = now_s() + l->deadline_s;
  uint64_t total = uint64_t(l->grid[0]) * l->grid[1] * l->grid[2] / (uint64_t(l->cluster[0]) * l->cluster[1] * l->cluster[2]);
  if (l->seed) {  // another order of the blocks: a stride without a common divisor with their number
    uint64_t x = l->seed * 0x9e3779b97f4a7c15ull + 1;
    s.shift = shuffled(x) % total;
    do s.stride = 1 + shuffled(x) % total; while (divisor(s.stride, total) != 1);
  }
  uint64_t asked = l->threads ? l->threads : 1;
  uint32_t n = uint32_t(asked < total ? asked : total);
  std::vector<Worker> workers(n);
  std::vector<pthread_t> threads;
  for (Worker& k : workers) {
    k.launch = l, k.state = &s;
    k.counts.assign(2 * size_t(l->basic_blocks), 0);
    k.sites.assign(l->site_count, SiteCount{});
  }
  for (uint32_t i = 1; i < n; i++) {
    pthread_t t;
    if (pthread_create(&t, nullptr, work, &workers[i]) == 0) threads.push_back(t);
  }
  work(&workers[0]);
  for (pthread_t t : threads) pthread_join(t, nullptr);
  for (Worker& k : workers) {
    for (size_t i = 0; i < k.counts.size(); i++) l->counts[i] += k.counts[i];
    for (size_t i = 0; i < k.sites.size(); i++) {
      SiteCount &to = l->sites[i], &from = k.sites[i];
      to.requests += from.requests, to.lanes += from.lanes, to.bytes += from.bytes, to.units += from.units;
    }
  }
  for (uint64_t i = 0; l->cells && i <= l->arena_bytes >> l->global_shift; i++) l->touched_cells += l->cells[i].written || l->cells[i].read[0];
  l->steps = s.steps, l->state = nullptr;
}
