// tcgen05: tensor memory of 128 lanes of 512 columns of 32 bits, and products whose sums stay there.
// Source: PTX ISA, "TensorCore 5th Generation Family Instructions": addressing, data movement shapes, matrix and
// instruction descriptors, data path layouts of M = 64 (F) and M = 128 (D).
//
// A product is executed when it is issued. Until somebody has waited with success at the mbarrier that it was committed to,
// its sums must not be touched and what it reads of shared memory must not be written.
#include "tcgen05.h"

#include "operands.h"

namespace kw {
namespace {
constexpr uint32_t COLUMNS = 512, ROWS = 128;

uint32_t lane_of(uint64_t address) { return uint32_t(address >> 16) & 0xffff; }
uint32_t column_of(uint64_t address) { return uint32_t(address) & 0xffff; }

// The place of a cell; none where it was not allocated, or is touched too early.
uint32_t* cell(Warp* w, int lane, uint32_t row, uint32_t column, bool write, bool by_product, uint32_t site) {
  TensorMemory& t = w->block->tensor;
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

// What a product does, of its instruction descriptor; `kind`: f16, tf32 or f8f6f4.
struct Product {
  Element a, b;
  int m, n, k;
  bool turn_a, turn_b, negative, known;

  Product(uint32_t d, int kind) {
    static const Element halves[] = {F16, BF16}, bytes[] = {E4M3, E5M2};
    uint32_t of_a = d >> 7 & 7, of_b = d >> 10 & 7;
    k = kind == 0 ? 16 : kind == 1 ? 8 : 32;
    m = int(d >> 24 & 31) * 16, n = int(d >> 17 & 63) * 8;
    turn_a = d >> 15 & 1, turn_b = d >> 16 & 1, negative = (d >> 13 & 1) != (d >> 14 & 1);
    a = kind == 1 ? TF32 : (kind ? bytes : halves)[of_a & 1], b = kind == 1 ? TF32 : (kind ? bytes : halves)[of_b & 1];
    bool types = kind == 1 ? of_a == 2 && of_b == 2 : of_a < 2 && of_b < 2;
    bool shape = (m == 64 && n % 8 == 0) || (m == 128 && n % 16 == 0);
    known = types && shape && n >= 8 && n <= 256 && (d >> 4 & 3) == 1 && !(d & 15) && !(kind == 1 && (turn_a || turn_b));
  }
  uint32_t row(int i) const { return m == 128 ? uint32_t(i) : uint32_t(i / 16 * 32 + i % 16); }
};

bool descriptor(uint64_t d, uint32_t* swizzle) {
  static const uint32_t widths[] = {16, 0, 128, 0, 64, 0, 32, 0};
  *swizzle = widths[d >> 61];
  return *swizzle && (d >> 46 & 7) == 1 && !(d >> 49 & 15);
}

void multiply(Warp* w, int lane, const Product& p, uint64_t to, bool from_tensor, uint64_t at_a, uint64_t at_b, bool keeps, uint32_t site) {
  static thread_local float fa[32 * 128], fb[32 * 256], sums[256];
  uint32_t swizzle_a = 16, swizzle_b;
  if (!descriptor(at_b, &swizzle_b) || (!from_tensor && !descriptor(at_a, &swizzle_a))) return note(w, BAD_MAP, site, lane, at_b, 8, SHARED, 0);
  TensorWork work{column_of(to), uint32_t(p.n), p.m == 64, {}};
  if (from_tensor) {
    int each = 4 / width_of(p.a);
    for (int i = 0; i < p.m; i++)
      for (int c = 0; c < p.k; c++) {
        const uint32_t* x = cell(w, lane, lane_of(at_a) + p.row(i), column_of(at_a) + uint32_t(c / each), false, true, site);
        fa[c * p.m + i] = x ? element_of(p.a, reinterpret_cast<const uint8_t*>(x) + c % each * width_of(p.a)) : 0;
      }
  } else {
    fetch(w, site, lane, p.a, Descriptor(at_a, swizzle_a), p.turn_a, 0, p.m, p.k, fa, p.m, work.reads);
  }
  fetch(w, site, lane, p.b, Descriptor(at_b, swizzle_b), p.turn_b, 0, p.n, p.k, fb, p.n, work.reads);
  for (int i = 0; i < p.m; i++) {
    uint32_t* row[256];
    for (int j = 0; j < p.n; j++) {
      if (keeps) cell(w, lane, lane_of(to) + p.row(i), column_of(to) + uint32_t(j), false, true, site);
      row[j] = cell(w, lane, lane_of(to) + p.row(i), column_of(to) + uint32_t(j), true, true, site);
      sums[j] = keeps && row[j] ? bits<float>(*row[j]) : 0;
    }
    for (int c = 0; c < p.k; c++) {
      float x = p.negative ? -fa[c * p.m + i] : fa[c * p.m + i];
      for (int j = 0; j < p.n; j++) sums[j] += x * fb[c * p.n + j];
    }
    for (int j = 0; j < p.n; j++) if (row[j]) *row[j] = bits<uint32_t>(sums[j]);
  }
  w->block->tensor.issued.push_back(std::move(work));
}

void mark(Block* b, const TensorWork& work, bool pending) {
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
      if (uint32_t* x = cell(w, int(i), lane_of(at) + row, column_of(at) + column, write, false, site)) f(int(i), n, *x);
    }
  }
}
}  // namespace

// The first of n columns that nobody has; COLUMNS where there are none.
static uint32_t free_columns(const TensorMemory& t, uint32_t n) {
  for (uint32_t start = 0; start + n <= COLUMNS; start += n) {
    uint32_t free = 0;
    while (free < n && !(t.state[start + free] & THERE)) free++;
    if (free == n) return start;
  }
  return COLUMNS;
}

void tensor_alloc(Warp* w, Mask m, const b64& to, Space s, const b32& columns, uint32_t site) {
  if (!m) return;
  TensorMemory& t = w->block->tensor;
  int lane = first_lane(m);
  uint32_t n = columns.at(lane), start;
  if (t.state.empty()) t.cells.resize(ROWS * COLUMNS), t.state.resize(ROWS * COLUMNS);
  if (n < 32 || n > COLUMNS || (n & (n - 1))) return note(w, OUT_OF_BOUNDS, site, lane, 0, n, TENSOR, 0);
  while ((start = free_columns(t, n)) == COLUMNS) w->fiber->waits_at = site, look(w, true);  // until others give some back
  for (uint32_t row = 0; row < ROWS; row++) memset(t.state.data() + row * COLUMNS + start, THERE, n);
  t.site = site;
  Access a{w, lane, true, false, true, site, 4, to.at(lane), nullptr, reinterpret_cast<const uint8_t*>(&start)};
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

void tensor_multiply(Warp* w, Mask m, int kind, const b64& to, bool from_tensor, const b64& a, const b64& b, const b32& how, Mask keeps,
                     uint32_t site) {
  KW_EACH_LANE(i, m) {
    Product p(how.at(int(i)), kind);
    if (!p.known) stop(w, TOO_MANY, site);
    if (has(w, COUNT)) {
      SiteCount& s = w->block->worker->sites[site];
      s.requests++, s.units += 2 * uint64_t(p.m) * uint64_t(p.n) * uint64_t(p.k);
    }
    multiply(w, int(i), p, to.at(int(i)), from_tensor, a.at(int(i)), b.at(int(i)), keeps >> i & 1, site);
    if (has(w, CHECK)) mark(w->block, w->block->tensor.issued.back(), true);
  }
}

void tensor_commit(Warp* w, Mask m, const b64& barrier, uint32_t site) {
  KW_EACH_LANE(i, m) {
    uint32_t offset;
    Block* b = owner_of(w, barrier.at(int(i)), &offset);
    TensorMemory& t = w->block->tensor;
    if (b == w->block)
      for (TensorWork& work : t.issued) t.committed.push_back({offset, std::move(work)});
    t.issued.clear();
  }
  mbarrier_arrive(w, m, barrier, splat<uint32_t>(1), zero<uint32_t>(), true, site);
}

void tensor_landed(Block* b, uint32_t barrier) {
  TensorMemory& t = b->tensor;
  size_t kept = 0;
  for (size_t k = 0; k < t.committed.size(); k++) {
    if (t.committed[k].first == barrier) mark(b, t.committed[k].second, false);
    else if (kept++ != k) t.committed[kept - 1] = std::move(t.committed[k]);
  }
  if (kept == t.committed.size()) return;
  t.committed.resize(kept);
  for (const auto& [at, work] : t.committed) mark(b, work, true);
  for (const TensorWork& work : t.issued) mark(b, work, true);
}
}  // namespace kw
