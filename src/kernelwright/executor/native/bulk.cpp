// Bulk copies by the async proxy: into shared memory, whose bytes arrive when somebody waits at the mbarrier, and out
// of it, done when their group is waited for: in both as late as the PTX ISA lets them. A copy's accesses are ordered
// as its issuer's are at the time of issue; who waits at the mbarrier with success comes after them.
// Source: PTX ISA, "Data Movement and Conversion Instructions: Asynchronous copy", bulk and non-bulk.
#include <algorithm>

#include "bulk.h"
#include "wide.h"

namespace kw {
uint8_t* reach(const Access& a, Space s, bool is_atomic, bool* shared);

void bulk_read(Warp* w, int lane, uint32_t site, uint64_t from, Space s, uint32_t bytes, uint32_t least, uint8_t* out) {
  for (uint32_t at = 0; at < bytes;) {
    uint32_t piece = 16;
    while (piece > least && (((from + at) & (piece - 1)) || at + piece > bytes)) piece /= 2;
    if (uint8_t* p = reach({w, lane, false, ORDINARY, s == SHARED, site, piece, from + at, nullptr, nullptr}, s, false, nullptr))
      memcpy(out + at, p, piece);
    at += piece;
  }
}

void bulk_add(Warp* w, int lane, Transaction& t, uint64_t to, const uint8_t* data, uint32_t bytes) {
  Chunk c{0, bytes, {}};
  memcpy(c.data, data, bytes);
  if (!reach({w, lane, true, ORDINARY, true, t.site, bytes, to, nullptr, c.data}, CLUSTER, false, nullptr)) return;
  Block* b = owner_of(w, to, &c.to);
  if (has(w, CHECK))
    for (uint32_t k = 0; k < bytes; k++) b->shared_shadow[c.to + k] |= PENDING;
  t.chunks.push_back(c);
}

void bulk_issue(Warp* w, int lane, Transaction&& t, uint64_t barrier) {
  Block* b = owner_of(w, barrier, &t.barrier);
  if (!b || b->has_ended()) return note(w, b ? BLOCK_ENDED : OUT_OF_BOUNDS, t.site, lane, barrier, 8, SHARED, 0);
  t.thread = w->index * LANES + uint32_t(lane);
  publish(w, b, t.barrier);
  b->transactions.push_back(std::move(t));
}

uint64_t of_rank(uint64_t address, int rank) { return (address & 0xffffff) | uint64_t(rank + 1) << 24; }

uint32_t land(Block* b, uint32_t barrier) {
  uint32_t bytes = 0;
  auto& all = b->transactions;
  for (size_t k = 0; k < all.size();) {
    Transaction& t = all[k];
    if (t.barrier != barrier) { k++; continue; }
    bytes += t.bytes;
    for (const Chunk& c : t.chunks) {
      memcpy(b->shared.data() + c.to, c.data, c.bytes);
      uint8_t* shadow = b->shared_shadow.data() + c.to;
      for (uint32_t i = 0; i < c.bytes; i++) shadow[i] = uint8_t((shadow[i] & ~PENDING) | WRITTEN | ASYNC);
    }
    all.erase(all.begin() + long(k));
  }
  return bytes;
}

void bulk_load(Warp* w, Mask m, const b64& to, const b64& from, Space of, const b32& bytes, const b64& barrier, bool many,
               const b32& ctas, uint32_t site) {
  KW_EACH_LANE(i, m) {
    uint32_t n = bytes.at(i);
    if (n % 16 || to.at(i) % 16 || from.at(i) % 16) { note(w, MISALIGNED, site, int(i), to.at(i), 16, SHARED, 0); continue; }
    std::vector<uint8_t> data(n);
    if (of == SHARED) check_proxy(w, int(i), from.at(i), n, site);
    bulk_read(w, int(i), site, from.at(i), of, n, 16, data.data());
    count_bulk(w, site, n, of == GLOBAL);
    for (int rank = 0; rank < (many ? 16 : 1); rank++) {
      if (many && !((ctas.at(i) >> rank) & 1)) continue;
      Transaction t{0, n, site, 0, {}};
      for (uint32_t at = 0; at < n; at += 16) bulk_add(w, int(i), t, (many ? of_rank(to.at(i), rank) : to.at(i)) + at, data.data() + at);
      bulk_issue(w, int(i), std::move(t), many ? of_rank(barrier.at(i), rank) : barrier.at(i));
    }
  }
  tick(w);
}

// st.async: each lane's own bytes. Both must lie in one block.
void store_async(Warp* w, Mask m, const b64& to, const b64& barrier, int words, const b32* in, uint32_t site) {
  KW_EACH_LANE(i, m) {
    uint32_t data[4], there, told;
    for (int k = 0; k < words; k++) data[k] = in[k].at(int(i));
    if (owner_of(w, to.at(i), &there) != owner_of(w, barrier.at(i), &told)) { note(w, BLOCK_ENDED, site, int(i), to.at(i), 4, SHARED, 0); continue; }
    Transaction t{0, 4u * uint32_t(words), site, 0, {}};
    bulk_add(w, int(i), t, to.at(i), reinterpret_cast<const uint8_t*>(data), t.bytes);
    count_bulk(w, site, t.bytes, false);
    bulk_issue(w, int(i), std::move(t), barrier.at(i));
  }
  tick(w);
}
// red.async: what it changes is changed at once, as an atomic operation; its bytes count when somebody waits for them.
void reduced_async(Warp* w, Mask m, const b64& barrier, uint32_t bytes, uint32_t site) {
  KW_EACH_LANE(i, m) bulk_issue(w, int(i), Transaction{0, bytes, site, 0, {}}, barrier.at(i));
  tick(w);
}

// The same of whole pieces of shared memory, which the mbarrier's block receives.
void bulk_reduce(Warp* w, Mask m, const b64& to, const b64& from, const b32& bytes, const b64& barrier, int op, int type, uint32_t site) {
  KW_EACH_LANE(i, m) {
    uint32_t n = bytes.at(i), there, told, offset;
    if (n % 16 || to.at(i) % 16 || from.at(i) % 16) { note(w, MISALIGNED, site, int(i), to.at(i), 16, SHARED, 0); continue; }
    if (owner_of(w, to.at(i), &there) != owner_of(w, barrier.at(i), &told)) { note(w, BLOCK_ENDED, site, int(i), to.at(i), 4, SHARED, 0); continue; }
    if (owner_of(w, from.at(i), &offset) != w->block) { note(w, OUT_OF_BOUNDS, site, int(i), from.at(i), n, SHARED, 0); continue; }
    std::vector<uint8_t> data(n);
    check_proxy(w, int(i), from.at(i), n, site);
    bulk_read(w, int(i), site, from.at(i), SHARED, n, 16, data.data());
    count_bulk(w, site, n, false);
    reduce_elements(w, int(i), site, to.at(i), data.data(), n, op, type, CLUSTER);
    bulk_issue(w, int(i), Transaction{0, n, site, 0, {}}, barrier.at(i));
  }
  tick(w);
}

// ---- out of shared memory ------------------------------------------------------------------------------------

// Ordinary stores are seen by the async proxy after a fence between the proxies only.
void check_proxy(Warp* w, int lane, uint64_t from, uint32_t bytes, uint32_t site, Block* of) {
  Block* b = of ? of : w->block;
  uint32_t at = uint32_t(from & 0xffffff), shift = w->launch->shared_shift;
  if (b->cells.empty() || !has(w, CHECK) || at + bytes > w->launch->shared_bytes) return;
  for (uint32_t k = 0; k < bytes; k += 1u << shift) {
    uint8_t shadow = b->shared_shadow[at + k];
    Touch last{b->cells[(at + k) >> shift].written};
    if (!last.raw || (shadow & ASYNC) || !(shadow & WRITTEN) || last.block() != b->index) continue;
    if (last.clock() > b->proxied[last.thread() / LANES]) return note(w, NO_PROXY_FENCE, site, lane, at + k, 1u << shift, SHARED, last.raw);
  }
}
void proxy_fence(Warp* w) {
  for (int i = 0; i < 32; i++) w->block->proxied[i] = std::max(w->block->proxied[i], w->clocks->known[i]);
  tick(w);
}

void bulk_hold(Warp* w, int lane, BulkStore&& s) {
  if (has(w, CHECK))
    for (const BulkStore::Part& p : s.parts) {
      Access a{w, lane, false, ORDINARY, true, s.site, 16, p.from, nullptr, nullptr};
      for (uint32_t k = 0; k < p.bytes; k += 16) {
        a.address = p.from + k;
        if (!reach(a, SHARED, false, nullptr)) continue;
        for (int j = 0; j < 16; j++) w->block->shared_shadow[a.address + uint64_t(j)] |= READING;
      }
    }
  s.lane = uint32_t(lane), s.group = -1;
  w->block->stores[w->index].pending.push_back(std::move(s));
}

void bulk_store(Warp* w, Mask m, const b64& to, const b64& from, const b32& bytes, int op, int type, uint32_t site) {
  KW_EACH_LANE(i, m) {
    uint32_t n = bytes.at(i), offset;
    if (n % 16 || to.at(i) % 16 || from.at(i) % 16) { note(w, MISALIGNED, site, int(i), to.at(i), 16, GLOBAL, 0); continue; }
    Block* b = owner_of(w, from.at(i), &offset);
    if (b != w->block || offset + n > w->launch->shared_bytes) { note(w, OUT_OF_BOUNDS, site, int(i), from.at(i), n, SHARED, 0); continue; }
    check_proxy(w, int(i), offset, n, site);
    count_bulk(w, site, n, true);
    BulkStore s{0, site, op, type, -1, {}};
    for (uint32_t at = 0; at < n; at += 16) s.parts.push_back({to.at(i) + at, offset + at, 16});
    bulk_hold(w, int(i), std::move(s));
  }
  tick(w);
}

void bulk_commit(Warp* w, Mask m) {
  BulkStores& s = w->block->stores[w->index];
  for (BulkStore& c : s.pending)
    if (c.group < 0 && ((m >> c.lane) & 1)) c.group = s.committed[c.lane];
  KW_EACH_LANE(i, m) s.committed[i]++;
}

// The copy has read its bytes: they may be written again.
static void take(Warp* w, BulkStore& s) {
  if (s.taken) return;
  s.taken = true;
  for (const BulkStore::Part& p : s.parts) {
    const uint8_t* from = w->block->shared.data() + p.from;
    s.data.insert(s.data.end(), from, from + p.bytes);
    if (has(w, CHECK))
      for (uint32_t k = 0; k < p.bytes; k++) w->block->shared_shadow[p.from + k] &= uint8_t(~READING);
  }
}
static void finish(Warp* w, BulkStore& s) {
  take(w, s);
  const uint8_t* data = s.data.data();
  for (const BulkStore::Part& p : s.parts) {
    if (s.op >= 0) reduce_elements(w, int(s.lane), s.site, p.to, data, p.bytes, s.op, s.type);
    for (uint32_t at = 0; s.op < 0 && at < p.bytes;) {
      uint32_t piece = 16;
      while (piece > 1 && (((p.to + at) & (piece - 1)) || at + piece > p.bytes)) piece /= 2;
      Access a{w, int(s.lane), true, ORDINARY, false, s.site, piece, p.to + at, nullptr, data + at};
      if (uint8_t* q = reach(a, GLOBAL, false, nullptr)) memcpy(q, data + at, piece);
      at += piece;
    }
    data += p.bytes;
  }
}

void bulk_wait(Warp* w, Mask m, uint32_t groups, bool only_read) {
  BulkStores& s = w->block->stores[w->index];
  std::vector<BulkStore> left;
  for (BulkStore& c : s.pending) {
    bool over = ((m >> c.lane) & 1) && c.group >= 0 && c.group + int64_t(groups) < s.committed[c.lane];
    if (over && !only_read) { finish(w, c); continue; }
    if (over) take(w, c);
    left.push_back(std::move(c));
  }
  s.pending = std::move(left);
}

void bulk_left(Warp* w) {
  Block* b = w->block;
  for (BulkStore& c : b->stores[w->index].pending)
    if (c.taken) finish(w, c);  // nobody waited for what it writes, which is there when the launch ends
    else if (has(w, CHECK)) note(w, COPY_LEFT, c.site, int(c.lane), c.parts.empty() ? 0 : c.parts[0].from, 16, SHARED, 0);
  if (b->ended + 1 < b->warp_count || !has(w, CHECK)) return;
  for (const Transaction& t : b->transactions)
    note(w, COPY_LEFT, t.site, int(t.thread % LANES), t.chunks.empty() ? 0 : t.chunks[0].to, 16, SHARED, 0);
}

void copies_arrive(Warp* w, Mask m, const b64& barrier, bool counted, uint32_t site) {
  copy_wait(w, m, 0, true);  // they may arrive as early as this
  if (counted) mbarrier_arrive(w, m, barrier, splat<uint32_t>(1), zero<uint32_t>(), ARRIVES, site);
}

void count_bulk(Warp* w, uint32_t site, uint32_t bytes, bool global) {
  if (!(w->launch->flags & COUNT)) return;
  SiteCount& s = w->block->worker->sites[site];
  s.requests++, s.lanes++, s.bytes += bytes;
  s.units += global ? (bytes + 31) / 32 : (bytes + 127) / 128;
}
}  // namespace kw
