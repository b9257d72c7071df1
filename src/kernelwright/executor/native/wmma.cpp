// wmma: matrices in pieces whose layout over lanes the PTX ISA leaves open. Here slot s of lane i holds element
// (32 s + `element`(i)) modulo the matrix's elements, counted along its rows: where the ISA gives a piece more slots
// than the matrix has elements, some stand there twice, with the same value. Kernels that fill shared memory by lanes
// in order must not find their own elements in their own lanes, which would hide that lanes did not wait for each other.
// Source: PTX ISA, "Warp-level Matrix Load Instruction: wmma.load", "wmma.store", "wmma.mma".
#include "elements.h"
#include "sums.h"

namespace kw {
namespace {
int element(int lane) { return lane % 8 * 4 + lane / 8; }

struct Piece {
  int rows, columns, width;  // width of an element in bytes
  int slots() const { return rows * columns / LANES; }
  // Where a slot of a lane lies in the registers.
  size_t place(int slot, int lane) const {
    int bytes = width < 4 ? 4 : width, each = bytes / width;
    return size_t(slot / each) * LANES * bytes + size_t(lane) * bytes + size_t(slot % each) * width;
  }
};

template <class U> V<uint64_t> places(const Piece& p, int slot, uint64_t start, uint64_t stride, bool by_columns) {
  alignas(64) uint64_t at[LANES];
  for (int i = 0; i < LANES; i++) {
    uint64_t e = uint64_t(slot) * LANES + element(i), row = e / p.columns, column = e % p.columns;
    at[i] = start + (by_columns ? column * stride + row : row * stride + column) * sizeof(U);
  }
  return bits<V<uint64_t>>(at);
}

template <class U>
void fetch(Warp* w, Mask m, const Piece& p, uint64_t start, Space s, uint64_t stride, bool by_columns, uint32_t site, uint8_t* out, int held) {
  for (int slot = 0; slot < held; slot++) {
    V<U> v;
    int real = slot % p.slots();
    if (slot == real) load<U, 1>(w, m, places<U>(p, slot, start, stride, by_columns), s, WEAK, site, &v);
    for (int i = 0; i < LANES; i++) {
      if (slot == real) { U x = v.at(i); memcpy(out + p.place(slot, i), &x, sizeof x); }
      else memcpy(out + p.place(slot, i), out + p.place(real, i), sizeof(U));
    }
  }
}
template <class U>
void put(Warp* w, Mask m, const Piece& p, uint64_t start, Space s, uint64_t stride, bool by_columns, uint32_t site, const uint8_t* in) {
  for (int slot = 0; slot < p.slots(); slot++) {
    V<U> v;
    for (int i = 0; i < LANES; i++) { U x; memcpy(&x, in + p.place(slot, i), sizeof x); v.set(i, x); }
    store<U, 1>(w, m, places<U>(p, slot, start, stride, by_columns), s, WEAK, site, &v);
  }
}
// Rows must begin at multiples of 16 bytes.
void check_rows(Warp* w, Mask m, uint64_t start, uint64_t stride, int width, Space s, uint32_t site) {
  if ((start | stride * width) & 15) note(w, MISALIGNED, site, first_lane(m), start, 16, s, 0);
}

template <class T, class F> void unpack(const Piece& p, const void* from, T* out, F value) {
  for (int slot = 0; slot < p.slots(); slot++)
    for (int i = 0; i < LANES; i++) out[slot * LANES + element(i)] = value(static_cast<const uint8_t*>(from) + p.place(slot, i));
}
template <class T, class U, class F> void pack(const Piece& p, const T* from, void* to, int held, F value) {
  for (int slot = 0; slot < held; slot++)
    for (int i = 0; i < LANES; i++) {
      U x = value(from[slot % p.slots() * LANES + element(i)]);
      memcpy(static_cast<uint8_t*>(to) + p.place(slot, i), &x, sizeof x);
    }
}
template <class T> void multiply(int m, int n, int k, const T* a, const T* b, T* d) {
  for (int i = 0; i < m; i++)
    for (int x = 0; x < k; x++)
      for (int j = 0; j < n; j++) d[i * n + j] += a[i * k + x] * b[x * n + j];
}
// Elements of four bits or one, from words along k: out[row][k].
void unpack_words(const Piece& p, Element e, const void* from, int64_t* out) {
  int bits_each = e == S4 || e == U4 ? 4 : 1, each = 32 / bits_each;
  uint32_t words[8 * 4];
  unpack(p, from, words, [](const uint8_t* x) { uint32_t v; memcpy(&v, x, 4); return v; });
  for (int i = 0; i < 8 * 4 * each; i++) {
    uint32_t v = words[i / each] >> (i % each * bits_each);
    out[i] = e == S4 ? int32_t(v << 28) >> 28 : v & ((1u << bits_each) - 1);
  }
}
}  // namespace

void wmma_load(Warp* w, Mask m, Element e, int rows, int columns, uint64_t start, Space s, uint32_t stride, bool by_columns, int held,
               uint32_t site, void* out) {
  Piece p{rows, columns, width_of(e)};
  auto* to = static_cast<uint8_t*>(out);
  check_rows(w, m, start, stride, p.width, s, site);
  switch (p.width) {
    case 1: return fetch<uint8_t>(w, m, p, start, s, stride, by_columns, site, to, held);
    case 2: return fetch<uint16_t>(w, m, p, start, s, stride, by_columns, site, to, held);
    case 4: return fetch<uint32_t>(w, m, p, start, s, stride, by_columns, site, to, held);
    default: return fetch<uint64_t>(w, m, p, start, s, stride, by_columns, site, to, held);
  }
}

void wmma_store(Warp* w, Mask m, Element e, int rows, int columns, uint64_t start, Space s, uint32_t stride, bool by_columns,
                uint32_t site, const void* in) {
  Piece p{rows, columns, width_of(e)};
  auto* from = static_cast<const uint8_t*>(in);
  check_rows(w, m, start, stride, p.width, s, site);
  switch (p.width) {
    case 2: return put<uint16_t>(w, m, p, start, s, stride, by_columns, site, from);
    case 4: return put<uint32_t>(w, m, p, start, s, stride, by_columns, site, from);
    default: return put<uint64_t>(w, m, p, start, s, stride, by_columns, site, from);
  }
}

void wmma_multiply(Warp* w, Element e, Element into, Element of, int m, int n, int k, bool satfinite, const void* a, const void* b,
                   const void* c, void* d) {
  Piece pa{m, k, width_of(e)}, pb{k, n, width_of(e)}, pc{m, n, width_of(of)}, pd{m, n, width_of(into)};
  if (e == S4 || e == U4 || e == XOR_B1 || e == AND_B1) {
    int64_t fa[8 * 128], fb[8 * 128], fd[8 * 8];
    unpack_words({8, 4, 4}, e, a, fa);
    unpack_words({8, 4, 4}, e, b, fb);
    unpack(pc, c, fd, [](const uint8_t* x) { int32_t v; memcpy(&v, x, 4); return int64_t(v); });
    for (int i = 0; i < 8; i++)
      for (int j = 0; j < 8; j++)
        for (int x = 0; x < k; x++) fd[8 * i + j] += e == XOR_B1 ? fa[k * i + x] ^ fb[k * j + x] : fa[k * i + x] * fb[k * j + x];
    return pack<int64_t, uint32_t>(pd, fd, d, pd.slots(), [&](int64_t v) { return satfinite ? uint32_t(clamp_int<int32_t, int64_t>(v)) : uint32_t(v); });
  }
  if (into == S32) {
    int64_t fa[32 * 16], fb[16 * 32], fd[32 * 32];
    auto value = [&](const uint8_t* x) { return e == S8 ? int64_t(int8_t(*x)) : int64_t(*x); };
    unpack(pa, a, fa, value);
    unpack(pb, b, fb, value);
    unpack(pc, c, fd, [](const uint8_t* x) { int32_t v; memcpy(&v, x, 4); return int64_t(v); });
    multiply(m, n, k, fa, fb, fd);
    return pack<int64_t, uint32_t>(pd, fd, d, pd.slots(), [&](int64_t v) { return satfinite ? uint32_t(clamp_int<int32_t, int64_t>(v)) : uint32_t(v); });
  }
  if (into == F64) {
    double fa[32], fb[32], fd[64];
    auto value = [](const uint8_t* x) { double v; memcpy(&v, x, 8); return v; };
    unpack(pa, a, fa, value);
    unpack(pb, b, fb, value);
    unpack(pc, c, fd, value);
    for (int i = 0; i < m; i++)
      for (int x = 0; x < k; x++)
        for (int j = 0; j < n; j++) fd[i * n + j] = std::fma(fa[i * k + x], fb[x * n + j], fd[i * n + j]);
    return pack<double, uint64_t>(pd, fd, d, pd.slots(), [](double v) { return bits<uint64_t>(v); });
  }
  float fa[32 * 16], fb[16 * 32], fd[32 * 32];
  auto value = [&](const uint8_t* x) { return element_of(e, x); };
  unpack(pa, a, fa, value);
  unpack(pb, b, fb, value);
  unpack(pc, c, fd, [&](const uint8_t* x) { return element_of(of, x); });
  if (has(w, HOPPER_SUMS)) {
    int step = e == TF32 ? 4 : k;
    for (int i = 0; i < m; i++)
      for (int j = 0; j < n; j++)
        for (int x = 0; x < k; x += step) {
          double s = fused(PRECISE, step, fa + i * k + x, 1, fb + x * n + j, n, fd[i * n + j]);
          fd[i * n + j] = into == F32 ? cut(s) : to_float(from_double<half>(s));
        }
  } else multiply(m, n, k, fa, fb, fd);
  if (into == F32) pack<float, uint32_t>(pd, fd, d, pd.slots(), [](float v) { return bits<uint32_t>(v); });
  else pack<float, uint16_t>(pd, fd, d, pd.slots(), [](float v) { return from_double<half>(v).u; });
}
}  // namespace kw
