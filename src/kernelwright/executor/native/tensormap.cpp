// Tensor maps: tiles of tensors of one to five dimensions and columns of pixels (im2col), with swizzles, and bulk
// reductions.
//
// The 128 bytes of a map are opaque in the PTX ISA. Here: address, rank - 1, type, interleave, swizzle, fill (a byte
// each, by the numbers of `tensormap.replace`), whether it is im2col, sizes, strides in bytes, box, element strides;
// `_tensormap.py` and `host/cudart.cpp` write the same. The box of an im2col map: channels, pixels, and of W, H, D the
// corners of the bounding box, the lower one in the low half.
// Source: PTX ISA, "Tensors", "im2col mode", "tensormap.replace", "Swizzling Modes".
#include <algorithm>

#include "bulk.h"

namespace kw {
uint8_t* reach(const Access& a, Space s, bool is_atomic, bool* shared);

namespace {
struct Map {
  uint64_t address;
  uint8_t rank, type, interleave, swizzle, fill, im2col, unused[2];
  uint32_t sizes[5], unused_too;
  uint64_t strides[4];  // of the dimensions from the second on
  uint32_t box[5], steps[5];
  uint8_t rest[16];
  int64_t lower(int d) const { return int16_t(box[d + 1]); }
  int64_t upper(int d) const { return int64_t(sizes[d]) - 1 + int16_t(box[d + 1] >> 16); }
};
static_assert(sizeof(Map) == 128, "a tensor map has 128 bytes");

enum Type { U8, U16, U32, I32, U64, I64, H16, R32, R32_FTZ, R64, B16 };
int bytes_of(int type) {
  switch (type) {
    case U8: return 1;
    case U16: case H16: case B16: return 2;
    case U32: case I32: case R32: return 4;
    case U64: case I64: case R64: return 8;
    default: return 0;
  }
}

struct Tile {
  Map map;
  int64_t at[5];
  int64_t offset[5];  // of im2col, from the second dimension on
  int each;           // bytes of an element
  uint32_t line;      // bytes of the box along the first dimension, or of a pixel's channels
  uint32_t lines;     // of the box, or pixels of the column
  uint32_t bytes() const { return line * lines; }
  uint64_t swizzled(uint64_t a) const {
    uint64_t mask = map.swizzle == 3 ? 7 : map.swizzle == 2 ? 3 : map.swizzle == 1 ? 1 : 0;
    return a ^ ((a >> 7 & mask) << 4);
  }
  // Elements of a tile in a dimension: of its box those that steps reach.
  uint32_t count(int d) const { return d ? (map.box[d] + map.steps[d] - 1) / map.steps[d] : map.box[0]; }
  // Where a line of the tile, or a pixel, begins in global memory; false where it lies outside.
  bool begin(uint32_t number, int64_t* start) const {
    int64_t where = 0, left = number;
    for (int d = 1; d <= map.rank; d++) {
      int64_t x = map.im2col ? pixel(d, &left) : at[d] + left % count(d) * map.steps[d];
      if (!map.im2col) left /= count(d);
      if (x < 0 || x >= int64_t(map.sizes[d])) return false;
      where += x * int64_t(map.strides[d - 1]);
    }
    *start = int64_t(map.address) + where;
    return true;
  }
  // A pixel's place in one dimension: through the bounding box in steps, W first, then H and D, then the next image.
  int64_t pixel(int d, int64_t* left) const {
    if (d == map.rank) return at[d] + *left;
    int64_t step = map.steps[d], count = (map.upper(d) - map.lower(d)) / step + 1, k = *left + (at[d] - map.lower(d)) / step;
    *left = k / count;
    return map.lower(d) + k % count * step + offset[d];
  }
  bool has_bounding_box() const {
    for (int d = 1; d < map.rank; d++)
      if (map.steps[d] < 1 || map.steps[d] > 8 || map.lower(d) > map.upper(d)) return false;
    return map.rank >= 2 && map.steps[map.rank] == 1;
  }
  bool has_steps() const {
    return std::any_of(map.steps + 1, map.steps + map.rank + 1, [](uint32_t s) { return s != 1; });
  }
  // Whether the first pixel is one that steps from the lower corner reach: the ISA does not say what follows others.
  bool begins_in_box() const {
    for (int d = 1; d < map.rank; d++) {
      int64_t from = at[d] - map.lower(d);
      if (at[d] > map.upper(d) || from < 0 || from % map.steps[d]) return false;
    }
    return true;
  }
  // Elements of sixteen bytes of a line that lie inside: from `low` up to `high`.
  void inside(uint32_t within, int* low, int* high) const {
    int64_t x = at[0] + int64_t(within) / each, n = 16 / each;
    *low = int(std::clamp<int64_t>(-x, 0, n)), *high = int(std::clamp<int64_t>(int64_t(map.sizes[0]) - x, 0, n));
  }
};

// Read a map and the place of a tile in it; false where it is none, which is noted.
bool read(Warp* w, int lane, int rank, bool im2col, uint64_t address, const b32* coordinates, uint32_t site, Tile& t) {
  for (int k = 0; k < 128; k += 16) {
    uint8_t* p = reach({w, lane, false, ORDINARY, false, site, 16, address + uint64_t(k), nullptr, nullptr}, GENERIC, false, nullptr);
    if (!p) return false;
    memcpy(reinterpret_cast<uint8_t*>(&t.map) + k, p, 16);
  }
  const Map& m = t.map;
  t.each = bytes_of(m.type);
  bool ok = m.rank + 1 == rank && t.each && m.swizzle < 4 && m.fill < 2 && m.interleave == 0 && m.address % 16 == 0 && m.im2col == im2col;
  t.lines = 1;
  for (int d = 0; ok && d < rank; d++) {
    t.at[d] = int32_t(coordinates[d].at(lane));
    ok = d == 0 || m.strides[d - 1] % 16 == 0;
    if (im2col) t.offset[d] = d && d < m.rank ? uint16_t(coordinates[rank + d - 1].at(lane)) : 0;
    else ok = ok && m.box[d] >= 1 && m.box[d] <= 256 && (d == 0 || (m.steps[d] >= 1 && m.steps[d] <= 8));
    if (ok && d && !im2col) t.lines *= t.count(d);
  }
  if (im2col) ok = ok && m.box[0] >= 1 && m.box[0] <= 256 && m.box[1] >= 1 && m.box[1] <= 1024 && t.has_bounding_box(), t.lines = m.box[1];
  t.line = ok ? m.box[0] * uint32_t(t.each) : 0;
  ok = ok && t.line % 16 == 0 && (m.swizzle == 0 || t.line == 16u << m.swizzle || (t.line < 16u << m.swizzle && t.lines == 1));
  if (!ok) note(w, BAD_MAP, site, lane, address, 128, 0, 0);
  if (ok && im2col && !t.begins_in_box()) stop(w, TOO_MANY, site);
  // Found on an H200, of which it is an illegal instruction to begin within sixteen bytes.
  if (ok && t.at[0] * t.each % 16) note(w, MISALIGNED, site, lane, m.address + uint64_t(t.at[0] * t.each), 16, GLOBAL, 0);
  return ok;
}

void fill(const Tile& t, uint8_t* out) {
  memset(out, 0, 16);
  if (!t.map.fill) return;
  bool real = t.map.type == H16 || t.map.type == B16 || t.map.type == R32 || t.map.type == R64;
  uint64_t nan = real ? 0x7ff77ff77ff77ff7ull : 0;  // what an H200 fills f32 with
  for (int k = 0; k < 16; k += t.each) memcpy(out + k, &nan, size_t(t.each));
}
}  // namespace

void tensor_load(Warp* w, Mask m, int rank, bool im2col, const b64& to, const b64& map, const b32* coordinates, const b64& barrier, bool many,
                 const b32& ctas, uint32_t site) {
  KW_EACH_LANE(i, m) {
    Tile t;
    if (!read(w, int(i), rank, im2col, map.at(i), coordinates, site, t)) continue;
    if (to.at(i) % 128) { note(w, MISALIGNED, site, int(i), to.at(i), 128, SHARED, 0); continue; }
    std::vector<uint8_t> data(t.bytes());
    for (uint32_t line = 0, at = 0; line < t.lines; line++) {
      int64_t start = 0;
      bool there = t.begin(line, &start);
      for (uint32_t within = 0; within < t.line; within += 16, at += 16) {
        int low, high;
        t.inside(within, &low, &high);
        fill(t, data.data() + at);
        if (there && low < high)
          bulk_read(w, int(i), site, uint64_t(start + (t.at[0] + low) * t.each + within), GLOBAL, uint32_t((high - low) * t.each), uint32_t(t.each),
                    data.data() + at + low * t.each);
      }
    }
    count_bulk(w, site, t.bytes(), true);
    for (int r = 0; r < (many ? 16 : 1); r++) {
      if (many && !((ctas.at(i) >> r) & 1)) continue;
      Transaction made{0, t.bytes(), site, 0, {}};
      uint64_t start = many ? of_rank(to.at(i), r) : to.at(i);
      for (uint32_t at = 0; at < t.bytes(); at += 16) bulk_add(w, int(i), made, t.swizzled(start + at), data.data() + at);
      bulk_issue(w, int(i), std::move(made), many ? of_rank(barrier.at(i), r) : barrier.at(i));
    }
  }
  tick(w);
}

void tensor_store(Warp* w, Mask m, int rank, bool im2col, const b64& map, const b32* coordinates, const b64& from, int op, uint32_t site) {
  KW_EACH_LANE(i, m) {
    Tile t;
    if (!read(w, int(i), rank, im2col, map.at(i), coordinates, site, t)) continue;
    // The driver's reference speaks of loads only, and one such store was an illegal instruction of an H200.
    if (t.has_steps()) stop(w, TOO_MANY, site);
    uint32_t offset;
    if (owner_of(w, from.at(i), &offset) != w->block || offset % 128) { note(w, MISALIGNED, site, int(i), from.at(i), 128, SHARED, 0); continue; }
    BulkStore s{0, site, op, t.map.type, -1, {}};
    if (offset + t.bytes() > w->launch->shared_bytes) { note(w, OUT_OF_BOUNDS, site, int(i), from.at(i), t.bytes(), SHARED, 0); continue; }
    check_proxy(w, int(i), offset, t.bytes(), site);
    for (uint32_t line = 0, at = 0; line < t.lines; line++) {
      int64_t start = 0;
      bool there = t.begin(line, &start);
      for (uint32_t within = 0; within < t.line; within += 16, at += 16) {
        int low, high;
        t.inside(within, &low, &high);
        if (!there || low >= high) continue;
        uint32_t place = uint32_t(t.swizzled(offset + at)) + uint32_t(low * t.each);
        s.parts.push_back({uint64_t(start + (t.at[0] + low) * t.each + within), place, uint32_t((high - low) * t.each)});
      }
    }
    count_bulk(w, site, t.bytes(), true);
    bulk_hold(w, int(i), std::move(s));
  }
  tick(w);
}

// ---- reductions: each element by itself ------------------------------------------------------------------------

namespace {
template <class T> T combined(int op, T old, T x) {
  switch (op) {
    case ADD: return T(old + x);
    case MIN: return x < old ? x : old;
    case MAX: return x > old ? x : old;
    default: break;
  }
  if constexpr (std::is_unsigned<T>::value) {
    switch (op) {
      case AND: return old & x;
      case OR: return old | x;
      case XOR: return old ^ x;
      case INC: return old >= x ? 0 : old + 1;
      case DEC: return old == 0 || old > x ? x : old - 1;
      default: break;
    }
  }
  return x;
}
template <class U, class F> void exchange(uint8_t* at, F f) {
  U* p = reinterpret_cast<U*>(at);
  U old = __atomic_load_n(p, __ATOMIC_SEQ_CST);
  while (!__atomic_compare_exchange_n(p, &old, f(old), false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {}
}
template <class T> void reduce_one(uint8_t* at, const uint8_t* data, int op) {
  using U = Unsigned<T>;
  T x;
  memcpy(&x, data, sizeof x);
  exchange<U>(at, [&](U old) { return bits<U>(combined<T>(op, bits<T>(old), x)); });
}
template <class H> void reduce_half(uint8_t* at, const uint8_t* data, int op) {
  uint16_t x;
  memcpy(&x, data, 2);
  exchange<uint16_t>(at, [&](uint16_t old) { return from_double<H>(combined<double>(op, to_float(H{old}), to_float(H{x}))).u; });
}
}  // namespace

void reduce_elements(Warp* w, int lane, uint32_t site, uint64_t to, const uint8_t* data, uint32_t bytes, int op, int type, Space s) {
  uint32_t each = uint32_t(bytes_of(type));
  for (uint32_t at = 0; each && at < bytes; at += each) {
    uint8_t* p = reach({w, lane, true, STRONG, s != GLOBAL, site, each, to + at, nullptr, nullptr}, s, true, nullptr);
    if (!p) continue;
    switch (type) {
      case U32: reduce_one<uint32_t>(p, data + at, op); break;
      case I32: reduce_one<int32_t>(p, data + at, op); break;
      case U64: reduce_one<uint64_t>(p, data + at, op); break;
      case I64: reduce_one<int64_t>(p, data + at, op); break;
      case R32: reduce_one<float>(p, data + at, op); break;
      case R64: reduce_one<double>(p, data + at, op); break;
      case H16: reduce_half<half>(p, data + at, op); break;
      case B16: reduce_half<bfloat>(p, data + at, op); break;
      default: note(w, BAD_MAP, site, lane, to, each, 0, 0);
    }
  }
}

// ---- maps that kernels write -----------------------------------------------------------------------------------

void map_replace(Warp* w, Mask m, const b64& map, Space s, int field, int number, const b64& value, uint32_t site) {
  enum { ADDRESS, RANK, TYPE, INTERLEAVE, SWIZZLE, FILL, BOX, SIZE, STRIDE, STEP };
  static const int start[] = {0, 8, 9, 10, 11, 12, 72, 16, 40, 92}, width[] = {8, 1, 1, 1, 1, 1, 4, 4, 8, 4};
  KW_EACH_LANE(i, m) {
    uint64_t x = value.at(i), at = map.at(i) + uint64_t(start[field] + number * width[field]);
    uint8_t* fresh = reinterpret_cast<uint8_t*>(&x);
    if (uint8_t* p = reach({w, int(i), true, ORDINARY, s == SHARED, site, uint32_t(width[field]), at, nullptr, fresh}, s, false, nullptr))
      memcpy(p, &x, size_t(width[field]));
  }
}

void map_copy(Warp* w, Mask m, const b64& to, const b64& from, uint32_t site) {
  if (!m) return;
  int lane = first_lane(m);
  uint8_t data[128] = {};
  bulk_read(w, lane, site, from.at(lane), SHARED, 128, 16, data);
  for (int k = 0; k < 128; k += 16) {
    Access a{w, lane, true, ORDINARY, false, site, 16, to.at(lane) + uint64_t(k), nullptr, data + k};
    if (uint8_t* p = reach(a, GLOBAL, false, nullptr)) memcpy(p, data + k, 16);
  }
}
}  // namespace kw
