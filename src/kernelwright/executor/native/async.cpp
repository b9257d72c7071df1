// cp.async: the bytes arrive when they are waited for, as late as the PTX memory model lets them.
#include "accesses.h"

namespace kw {
namespace {
// What a copy reads where its source has fewer bytes than it writes: the others are zeros.
void read_part(Warp* w, int lane, uint64_t from, uint32_t bytes, uint32_t site, uint8_t* data) {
  uint32_t piece = bytes & (~bytes + 1);  // the greatest power of two that it is a multiple of
  for (uint32_t at = 0; at < bytes; at += piece) {
    Access a{w, lane, false, ORDINARY, false, site, piece, from + at, nullptr, nullptr};
    if (uint8_t* p = reach(a, GLOBAL, false, nullptr)) memcpy(data + at, p, piece);
  }
}

template <uint32_t size> void copy_lanes(Warp* w, Mask m, const b64& to, const b64& from, const b32& source, uint32_t site) {
  const Accesses sources(w, GLOBAL, GLOBAL_BASE, site), targets(w, SHARED, 0, site);
  uint32_t bytes = 0;
  KW_EACH_LANE(i, m) {
    Copy c{to.at(i), size, i, site, -1, {}};
    uint32_t n = source.at(i) < size ? source.at(i) : size;
    bytes += n;
    if (n == size) {
      if (const uint8_t* p = sources.at<size, false>(int(i), from.at(i))) memcpy(c.data, p, size);
    } else if (n && (from.at(i) & (size - 1))) {
      note(w, MISALIGNED, site, int(i), from.at(i), size, GLOBAL, 0);
    } else if (n) {
      read_part(w, int(i), from.at(i), n, site, c.data);
    }
    if (!targets.at<size, true>(int(i), c.to, c.data)) continue;
    if (has(w, CHECK)) change<size>(w->block->shared_shadow.data() + c.to, 0, PENDING);
    w->copies->pending.push_back(c);
  }
  if (m && has(w, COUNT)) {
    SiteCount& s = w->block->worker->sites[site];
    s.requests++, s.lanes += __builtin_popcount(m), s.bytes += bytes;
    s.units += (__builtin_popcount(m) * size + 31) / 32;
  }
}

template <uint32_t size> void copied(Warp* w, const Accesses& targets, const Copy& c) {
  uint8_t* shadow = w->block->shared_shadow.data() + c.to;
  if (has(w, CHECK)) change<size>(shadow, PENDING, 0);
  if (uint8_t* p = targets.at<size, true>(int(c.lane), c.to, c.data)) memcpy(p, c.data, size);
  if (has(w, CHECK)) change<size>(shadow, 0, ASYNC);  // what it copied needs no proxy fence here
}
}  // namespace

void copy_async(Warp* w, Mask m, const b64& to, const b64& from, uint32_t size, const b32& source, uint32_t site) {
  if (size == 16) copy_lanes<16>(w, m, to, from, source, site);
  else size == 8 ? copy_lanes<8>(w, m, to, from, source, site) : copy_lanes<4>(w, m, to, from, source, site);
}

void copy_commit(Warp* w, Mask m) {
  for (Copy& c : w->copies->pending)
    if (c.group < 0 && ((m >> c.lane) & 1)) c.group = w->copies->committed[c.lane];
  KW_EACH_LANE(i, m) w->copies->committed[i]++;
}

void copy_wait(Warp* w, Mask m, uint32_t groups, bool all) {
  auto& pending = w->copies->pending;
  size_t kept = 0;
  uint32_t site = 0;
  Accesses targets(w, SHARED, 0, site);
  for (size_t k = 0; k < pending.size(); k++) {
    Copy& c = pending[k];
    bool lands = ((m >> c.lane) & 1) && (all || (c.group >= 0 && c.group + int64_t(groups) < w->copies->committed[c.lane]));
    if (!lands) {
      if (kept != k) pending[kept] = c;
      kept++;
      continue;
    }
    if (c.site != site) targets = Accesses(w, SHARED, 0, site = c.site);
    if (c.bytes == 16) copied<16>(w, targets, c);
    else c.bytes == 8 ? copied<8>(w, targets, c) : copied<4>(w, targets, c);
  }
  pending.resize(kept);
}
}  // namespace kw
