// tcgen05: tensor memory of 128 lanes of 512 columns of 32 bits, and products whose sums stay there.
// Source: PTX ISA, "TensorCore 5th Generation Family Instructions": addressing, data movement shapes, matrix and
// instruction descriptors, data path layouts of M = 64 (F), M = 128 (D), of two blocks M = 256 (A) and M = 128 (B).
//
// A product is executed when it is issued. Until somebody has waited with success at the mbarrier that it was committed to,
// its sums must not be touched and what it reads of shared memory must not be written.
#include "tcgen05.h"

#include <algorithm>

#include "operands.h"

namespace kw {
namespace {
constexpr uint32_t COLUMNS = 512, ROWS = 128;

uint32_t lane_of(uint64_t address) { return uint32_t(address >> 16) & 0xffff; }
uint32_t column_of(uint64_t address) { return uint32_t(address) & 0xffff; }

// The place of a cell of a block; none where it was not allocated, or is touched too early.
uint32_t* cell(Warp* w, Block* of, int lane, uint32_t row, uint32_t column, bool write, bool by_product, uint32_t site) {
  TensorMemory& t = of->tensor;
  uint64_t address = uint64_t(row) << 16 | column;
  uint32_t at = row * COLUMNS + column;
  if (row >= ROWS || column >= COLUMNS || t.state.empty() || !(t.state[at] & THERE)) {
    note(w, OUT_OF_BOUNDS, site, lane, address, 4, TENSOR, 0);
    return nullptr;
  }
  if (has(w, CHECK)) {
    if ((t.state[at] & PENDING) && !by_product) note(w, COPY_NOT_WAITED, site, lane, address, 4, TENSOR, 0);
    if (!write && !(t.state[at] & WRITTEN)) note(w, UNINITIALISED, site, lane, address, 4, TENSOR, 0);
  }
  if (write) t.state[at] |= WRITTEN;
  return &t.cells[at];
}

// What a product does, of its instruction descriptor; `kind`: f16, tf32, f8f6f4 or i8, whose sums are whole numbers that wrap.
struct Product {
  Element a, b;
  int m, n, k;
  bool turn_a, turn_b, negative, whole, pair, known;

  Product(uint32_t d, int kind, bool of_two) : whole(kind == 3), pair(of_two) {
    static const Element of[][2] = {{F16, BF16}, {TF32, TF32}, {E4M3, E5M2}, {kw::U8, S8}};
    uint32_t of_a = d >> 7 & 7, of_b = d >> 10 & 7;
    k = kind == 0 ? 16 : kind == 1 ? 8 : 32;
    m = int(d >> 24 & 31) * 16, n = int(d >> 17 & 63) * 8;
    turn_a = d >> 15 & 1, turn_b = d >> 16 & 1, negative = (d >> 13 & 1) != (d >> 14 & 1);
    a = of[kind][of_a & 1], b = of[kind][of_b & 1];
    bool types = kind == 1 ? of_a == 2 && of_b == 2 : of_a < 2 && of_b < 2;
    bool shape = pair ? (m == 128 || m == 256) && n % 16 == 0 : (m == 64 && n % 8 == 0) || (m == 128 && n % 16 == 0);
    known = types && shape && n >= 8 && n <= 256 && (d >> 4 & 3) == (whole ? 2 : 1) && !(d & 15) && !(whole && (d >> 13 & 3 || n % 16)) && !(kind == 1 && (turn_a || turn_b));
  }
  int rows() const { return pair ? m / 2 : m; }  // of a block
  bool folded() const { return pair && m == 128; }
  uint32_t row(int i) const { return m == 64 ? uint32_t(i / 16 * 32 + i % 16) : uint32_t(i); }
  // Where a block holds the sum of its row i and column j: of 64 rows with two blocks the columns' upper half lies 64 lanes below.
  uint32_t lane_at(int i, int j) const { return folded() && j >= n / 2 ? row(i) + 64 : row(i); }
  uint32_t column_at(int j) const { return uint32_t(folded() ? j % (n / 2) : j); }
};

bool descriptor(uint64_t d, uint32_t* swizzle) {
  static const uint32_t widths[] = {16, 0, 128, 0, 64, 0, 32, 0};
  *swizzle = widths[d >> 61];
  return *swizzle && (d >> 46 & 7) == 1 && !(d >> 49 & 15);
}

// This block, or the pair that it belongs to, the even one first; nothing where there is no other.
std::vector<Block*> sharers(Warp* w, bool pair) {
  Block* b = w->block;
  if (!pair) return {b};
  const auto& all = b->cluster->blocks;
  if ((b->rank ^ 1) >= all.size()) return {};
  return {all[b->rank & ~1u], all[b->rank | 1]};
}

void fetch_left(Warp* w, int lane, Block* of, const Product& p, bool from_tensor, uint64_t at, uint32_t swizzle, float* out,
                std::vector<uint32_t>& reads, uint32_t site) {
  if (!from_tensor) return fetch(w, site, lane, of, p.a, Descriptor(at, swizzle), p.turn_a, 0, p.rows(), p.k, out, p.rows(), reads);
  int each = 4 / width_of(p.a);
  for (int i = 0; i < p.rows(); i++)
    for (int c = 0; c < p.k; c++) {
      const uint32_t* x = cell(w, of, lane, lane_of(at) + p.row(i), column_of(at) + uint32_t(c / each), false, true, site);
      out[c * p.rows() + i] = x ? element_of(p.a, reinterpret_cast<const uint8_t*>(x) + c % each * width_of(p.a)) : 0;
    }
}

// A block has its rows of A and its share of B's columns; its sums are those of its rows and all columns.
void multiply(Warp* w, int lane, const Product& p, uint64_t to, bool from_tensor, uint64_t at_a, uint64_t at_b, bool keeps, uint32_t site) {
  static thread_local float fa[32 * 128], fb[32 * 256], sums[256];
  uint32_t swizzle_a = 16, swizzle_b;
  std::vector<Block*> blocks = sharers(w, p.pair);
  if (blocks.empty()) return note(w, OUT_OF_BOUNDS, site, lane, to, 4, TENSOR, 0);
  for (Block* b : blocks) if (b->has_ended()) return note(w, BLOCK_ENDED, site, lane, to, 4, TENSOR, 0);
  if (!descriptor(at_b, &swizzle_b) || (!from_tensor && !descriptor(at_a, &swizzle_a))) return note(w, BAD_MAP, site, lane, at_b, 8, SHARED, 0);
  std::vector<TensorWork> works;
  int share = p.n / int(blocks.size());
  for (Block* b : blocks) {
    works.push_back({b, column_of(to), uint32_t(p.folded() ? p.n / 2 : p.n), p.m == 64, {}});
    float* out = fb + int(works.size() - 1) * share;
    fetch(w, site, lane, b, p.b, Descriptor(at_b, swizzle_b), p.turn_b, 0, share, p.k, out, p.n, works.back().reads);
  }
  for (TensorWork& work : works) {
    fetch_left(w, lane, work.block, p, from_tensor, at_a, swizzle_a, fa, work.reads, site);
    for (int i = 0; i < p.rows(); i++) {
      uint32_t* row[256];
      for (int j = 0; j < p.n; j++) {
        uint32_t l = lane_of(to) + p.lane_at(i, j), c = column_of(to) + p.column_at(j);
        if (keeps) cell(w, work.block, lane, l, c, false, true, site);
        row[j] = cell(w, work.block, lane, l, c, true, true, site);
        sums[j] = keeps && row[j] && !p.whole ? bits<float>(*row[j]) : 0;
      }
      for (int c = 0; c < p.k; c++) {
        float x = p.negative ? -fa[c * p.rows() + i] : fa[c * p.rows() + i];
        for (int j = 0; j < p.n; j++) sums[j] += x * fb[c * p.n + j];
      }
      for (int j = 0; j < p.n; j++)  // of whole numbers what one instruction adds is exact in a float
        if (row[j]) *row[j] = p.whole ? uint32_t(int32_t(sums[j])) + (keeps ? *row[j] : 0) : bits<uint32_t>(sums[j]);
    }
  }
  for (TensorWork& work : works) w->block->tensor.issued.push_back(std::move(work));
}

void mark(const TensorWork& work, bool pending) {
  Block* b = work.block;
  TensorMemory& t = b->tensor;
  for (uint32_t row = 0; row < ROWS && !t.state.empty(); row++) {
    if (work.half && row % 32 >= 16) continue;
    for (uint32_t c = work.column; c < work.column + work.columns && c < COLUMNS; c++) {
      uint8_t& s = t.state[row * COLUMNS + c];
      s = uint8_t(pending ? s | PENDING : s & ~PENDING);
    }
  }
  for (uint32_t at : work.reads)
    for (uint32_t i = at; i < at + 16; i++) b->shared_shadow[i] = uint8_t(pending ? b->shared_shadow[i] | READING : b->shared_shadow[i] & ~READING);
}

// Where the n-th register of a lane lies in tensor memory, seen from the address.
void place(TensorShape s, int lane, int n, uint32_t split, uint32_t* row, uint32_t* column) {
  switch (s) {
    case T32X32: *row = uint32_t(lane), *column = uint32_t(n); break;
    case T16X32X2: *row = uint32_t(lane % 16), *column = uint32_t(n) + (lane / 16 ? split : 0); break;
    case T16X128: *row = uint32_t(lane / 4 + n % 2 * 8), *column = uint32_t(n / 2 * 4 + lane % 4); break;
    case T16X256: *row = uint32_t(lane / 4 + n / 2 % 2 * 8), *column = uint32_t(n / 4 * 8 + lane % 4 * 2 + n % 2); break;
  }
}
template <class F> void each_cell(Warp* w, Mask m, const b64& address, TensorShape s, int registers, uint32_t split, bool write, uint32_t site, F f) {
  KW_EACH_LANE(i, m) {
    uint64_t at = address.at(int(i));
    if (lane_of(at) / 32 != w->index % 4) { note(w, OUT_OF_BOUNDS, site, int(i), at, 4, TENSOR, 0); continue; }  // not this warp's lanes
    for (int n = 0; n < registers; n++) {
      uint32_t row, column;
      place(s, int(i), n, split, &row, &column);
      if (uint32_t* x = cell(w, w->block, int(i), lane_of(at) + row, column_of(at) + column, write, false, site)) f(int(i), n, *x);
    }
  }
}
}  // namespace

// The first of n columns that nobody has in any of these blocks; COLUMNS where there are none.
static uint32_t free_columns(const std::vector<Block*>& blocks, uint32_t n) {
  for (uint32_t start = 0; start + n <= COLUMNS; start += n) {
    uint32_t free = 0;
    auto taken = [&](const Block* b) { return b->tensor.state[start + free] & THERE; };
    while (free < n && std::none_of(blocks.begin(), blocks.end(), taken)) free++;
    if (free == n) return start;
  }
  return COLUMNS;
}
static void take_columns(const std::vector<Block*>& blocks, uint32_t start, uint32_t n) {
  for (Block* b : blocks)
    for (uint32_t row = 0; row < ROWS; row++) memset(b->tensor.state.data() + row * COLUMNS + start, THERE, n);
}
// Where the columns begin that this block and its peer ask for together: whoever comes second takes them for both.
static uint32_t columns_of_both(Warp* w, int lane, const std::vector<Block*>& blocks, uint32_t n, uint32_t site) {
  TensorMemory& own = w->block->tensor;
  Block* peer = blocks[w->block == blocks[0]];
  size_t turn = own.asked.size();
  own.asked.push_back(n);
  while (own.granted.size() <= turn) {
    uint32_t start = COLUMNS;
    if (peer->has_ended()) return note(w, BLOCK_ENDED, site, lane, 0, n, TENSOR, 0), COLUMNS;
    if (peer->tensor.asked.size() > turn) {
      if (peer->tensor.asked[turn] != n) return note(w, OUT_OF_BOUNDS, site, lane, 0, n, TENSOR, 0), COLUMNS;
      start = free_columns(blocks, n);
    }
    if (start == COLUMNS) { w->fiber->waits_at = site, look(w, true); continue; }
    take_columns(blocks, start, n);
    for (Block* b : blocks) b->tensor.granted.push_back(start);
  }
  return own.granted[turn];
}

void tensor_alloc(Warp* w, Mask m, const b64& to, Space s, const b32& columns, bool pair, uint32_t site) {
  if (!m) return;
  int lane = first_lane(m);
  uint32_t n = columns.at(lane), start;
  std::vector<Block*> blocks = sharers(w, pair);
  for (Block* b : blocks)
    if (b->tensor.state.empty()) b->tensor.cells.resize(ROWS * COLUMNS), b->tensor.state.resize(ROWS * COLUMNS);
  if (blocks.empty() || n < 32 || n > COLUMNS || (n & (n - 1))) return note(w, OUT_OF_BOUNDS, site, lane, 0, n, TENSOR, 0);
  if (pair) {
    if ((start = columns_of_both(w, lane, blocks, n, site)) == COLUMNS) return;
  } else {
    while ((start = free_columns(blocks, n)) == COLUMNS) w->fiber->waits_at = site, look(w, true);  // until others give some back
    take_columns(blocks, start, n);
  }
  w->block->tensor.site = site;
  Access a{w, lane, true, ORDINARY, true, site, 4, to.at(lane), nullptr, reinterpret_cast<const uint8_t*>(&start)};
  if (uint8_t* p = reach(a, s, false, nullptr)) memcpy(p, &start, 4);
}

void tensor_free(Warp* w, Mask m, const b32& address, const b32& columns, uint32_t site) {
  if (!m) return;
  TensorMemory& t = w->block->tensor;
  uint32_t at = address.at(first_lane(m)), n = columns.at(first_lane(m));
  bool held = !t.state.empty() && uint64_t(at) + n <= COLUMNS && n && (t.state[at] & THERE) && (t.state[at + n - 1] & THERE);
  if (!held) return note(w, OUT_OF_BOUNDS, site, first_lane(m), at, n, TENSOR, 0);
  for (uint32_t row = 0; row < ROWS; row++) memset(t.state.data() + row * COLUMNS + at, 0, n);
}

void tensor_left(Warp* w) {
  if (w->block->ended + 1 < w->block->warp_count || !has(w, CHECK)) return;
  for (uint8_t s : w->block->tensor.state)
    if (s & THERE) return note(w, TENSOR_LEFT, w->block->tensor.site, 0, 0, 4, TENSOR, 0);
}

void tensor_load_cells(Warp* w, Mask m, const b64& address, TensorShape s, int registers, uint32_t split, uint32_t site, b32* out) {
  for (int n = 0; n < registers; n++) out[n] = zero<uint32_t>();
  each_cell(w, m, address, s, registers, split, false, site, [&](int lane, int n, uint32_t& x) { out[n].set(lane, x); });
}
void tensor_store_cells(Warp* w, Mask m, const b64& address, TensorShape s, int registers, uint32_t split, uint32_t site, const b32* in) {
  each_cell(w, m, address, s, registers, split, true, site, [&](int lane, int n, uint32_t& x) { x = in[n].at(lane); });
}

void tensor_multiply(Warp* w, Mask m, int kind, bool pair, const b64& to, bool from_tensor, const b64& a, const b64& b, const b32& how,
                     Mask keeps, uint32_t site) {
  KW_EACH_LANE(i, m) {
    Product p(how.at(int(i)), kind, pair);
    if (!p.known || (from_tensor && p.folded())) stop(w, TOO_MANY, site);
    if (has(w, COUNT)) {
      SiteCount& s = w->block->worker->sites[site];
      s.requests++, s.units += 2 * uint64_t(p.m) * uint64_t(p.n) * uint64_t(p.k);
    }
    auto& issued = w->block->tensor.issued;
    size_t before = issued.size();
    multiply(w, int(i), p, to.at(int(i)), from_tensor, a.at(int(i)), b.at(int(i)), keeps >> i & 1, site);
    if (has(w, CHECK)) for (size_t k = before; k < issued.size(); k++) mark(issued[k], true);
  }
}

void tensor_commit(Warp* w, Mask m, const b64& barrier, bool many, const b32& blocks, uint32_t site) {
  KW_EACH_LANE(i, m) {
    std::vector<uint64_t> told;
    if (!many) told.push_back(barrier.at(int(i)));
    else for (int rank = 0; rank < 16; rank++) if (blocks.at(int(i)) >> rank & 1) told.push_back(of_rank(barrier.at(int(i)), rank));
    auto& issued = w->block->tensor.issued;
    for (uint64_t at : told) {
      uint32_t offset;
      if (Block* b = owner_of(w, at, &offset))
        for (const TensorWork& work : issued) b->tensor.committed.push_back({offset, work});
      mbarrier_arrive(w, Mask(1) << i, splat<uint64_t>(at), splat<uint32_t>(1), zero<uint32_t>(), ARRIVES, site);
    }
    issued.clear();
  }
}

void tensor_landed(Block* b, uint32_t barrier) {
  TensorMemory& t = b->tensor;
  size_t kept = 0;
  for (size_t k = 0; k < t.committed.size(); k++) {
    if (t.committed[k].first == barrier) mark(t.committed[k].second, false);
    else if (kept++ != k) t.committed[kept - 1] = std::move(t.committed[k]);
  }
  if (kept == t.committed.size()) return;
  t.committed.resize(kept);
  for (const auto& [at, work] : t.committed) mark(work, true);
  for (const TensorWork& work : t.issued) mark(work, true);
}
}  // namespace kw
