// mma.sync and ldmatrix. A register of a fragment holds an 8 x 8 tile of 16-bit elements, row by row: lane i
// holds elements 2 (i % 4) and the next of row i / 4. Source: PTX ISA, "Warp Level Matrix Instructions".
//
// Products are exact in float and summed in float in the order of k (the order and the precision of the sum
// are the device's choice; see docs/executor.md).
#include "accesses.h"
#include "sums.h"

namespace kw {
namespace {
typedef float f8 __attribute__((vector_size(32)));
typedef uint16_t tile_half __attribute__((vector_size(64)));

// Eight 16-bit elements as floats.
inline f8 row_of(Element e, const uint16_t* u) {
#if defined(__F16C__) && !__has_builtin(__builtin_ia32_vcvtph2ps256)  // a clang of late
  typedef _Float16 h8 __attribute__((vector_size(16)));
  if (e == F16) {
    h8 v;
    memcpy(&v, u, sizeof v);
    return __builtin_convertvector(v, f8);
  }
#elif defined(__F16C__)
  typedef short s8 __attribute__((vector_size(16)));
  if (e == F16) {
    s8 v;
    memcpy(&v, u, sizeof v);
    return __builtin_ia32_vcvtph2ps256(v);
  }
#endif
  alignas(32) uint32_t w[8];
  if (e == BF16) {
    for (int i = 0; i < 8; i++) w[i] = uint32_t(u[i]) << 16;
  } else {
    for (int i = 0; i < 8; i++) w[i] = bits<uint32_t>(to_float(half{u[i]}));
  }
  f8 r;
  memcpy(&r, w, sizeof r);
  return r;
}

// The 8 x 8 tile of a register with rows and columns exchanged.
inline void turn(const void* tile, uint16_t* out) {
#ifdef __clang__  // which has no shuffle by variables, and makes one of this
  uint16_t in[64];
  memcpy(in, tile, 128);
  for (int i = 0; i < 64; i++) out[i] = in[i % 8 * 8 + i / 8];
#else
  tile_half low, high, to_low, to_high;
  memcpy(&low, tile, 64);
  memcpy(&high, static_cast<const char*>(tile) + 64, 64);
  for (int i = 0; i < 32; i++) to_low[i] = uint16_t(i % 8 * 8 + i / 8), to_high[i] = uint16_t(i % 8 * 8 + i / 8 + 4);
  tile_half a = __builtin_shuffle(low, high, to_low), b = __builtin_shuffle(low, high, to_high);
  memcpy(out, &a, 64);
  memcpy(out + 32, &b, 64);
#endif
}

// The same with each sum as a device takes it; of halves it is rounded once, to nearest.
template <int K> void multiply_fused(const float (*a)[K], const f8* b, float (*d)[8], bool narrow) {
  alignas(32) float of[K][8];
  memcpy(of, b, sizeof of);
  for (int i = 0; i < 16; i++)
    for (int j = 0; j < 8; j++) {
      double s = fused(PRECISE, K, a[i], 1, &of[0][j], 8, d[i][j]);
      d[i][j] = narrow ? to_float(from_double<half>(s)) : cut(s);
    }
}

// d[16][8] += a[16][k] b[k][8]. Products of 16-bit and tf32 elements are exact, so fused or not is the same.
template <int K> void multiply(const float (*a)[K], const f8* b, float (*d)[8]) {
  for (int i = 0; i < 16; i += 4) {
    f8 s[4];
    memcpy(s, d[i], sizeof s);
    for (int k = 0; k < K; k++)
      for (int r = 0; r < 4; r++) s[r] += a[i + r][k] * b[k];
    memcpy(d[i], s, sizeof s);
  }
}

// Accumulators: register 2 h + p of lane i: row i / 4 + 8 h, column 2 (i % 4) + p.
template <class T> void gather_accumulator(const b32* c, T (*d)[8]) {
  alignas(64) uint32_t v[4][LANES];
  memcpy(v, c, sizeof v);
  for (int h = 0; h < 2; h++) {
    T* out = d[8 * h];
    for (int i = 0; i < LANES; i++) out[2 * i] = bits<T>(v[2 * h][i]), out[2 * i + 1] = bits<T>(v[2 * h + 1][i]);
  }
}
template <class T> void scatter_accumulator(const T (*d)[8], b32* c) {
  alignas(64) uint32_t v[4][LANES];
  for (int h = 0; h < 2; h++) {
    const T* from = d[8 * h];
    for (int i = 0; i < LANES; i++) v[2 * h][i] = bits<uint32_t>(from[2 * i]), v[2 * h + 1][i] = bits<uint32_t>(from[2 * i + 1]);
  }
  memcpy(c, v, sizeof v);
}

template <int K> void fragments16(Element e, const b32* a, const b32* b, float (*fa)[K], f8* fb) {
  alignas(64) uint16_t u[64];
  for (int r = 0; r < K / 4; r++) {
    memcpy(u, &a[r], sizeof u);
    for (int row = 0; row < 8; row++) {
      f8 v = row_of(e, u + 8 * row);
      memcpy(&fa[8 * (r % 2) + row][8 * (r / 2)], &v, sizeof v);
    }
  }
  for (int r = 0; r < K / 8; r++) {
    turn(&b[r], u);
    for (int k = 0; k < 8; k++) fb[8 * r + k] = row_of(e, u + 8 * k);
  }
}
inline float tf32(uint32_t u) { return bits<float>(u & ~0x1fffu); }
template <int K> void fragments32(const b32* a, const b32* b, float (*fa)[K], f8* fb) {
  for (int r = 0; r < K / 2; r++)
    for (int i = 0; i < LANES; i++) fa[i / 4 + 8 * (r % 2)][i % 4 + 4 * (r / 2)] = tf32(a[r].at(i));
  for (int r = 0; r < K / 4; r++)
    for (int i = 0; i < LANES; i++) fb[i % 4 + 4 * r][i / 4] = tf32(b[r].at(i));
}
template <int K, bool wide> void mma_any(Warp* w, Element e, const b32* a, const b32* b, float (*d)[8], bool narrow = false) {
  alignas(32) float fa[16][K];
  f8 fb[K];
  if constexpr (wide) fragments32<K>(a, b, fa, fb);
  else fragments16<K>(e, a, b, fa, fb);
  if (has(w, HOPPER_SUMS)) multiply_fused<K>(fa, fb, d, narrow);
  else multiply<K>(fa, fb, d);
}
}  // namespace

void mma_f32(Warp* w, Element e, int k, const b32* a, const b32* b, const b32* c, b32* d) {
  alignas(64) float acc[16][8];
  gather_accumulator<float>(c, acc);
  if (e == TF32) k == 8 ? mma_any<8, true>(w, e, a, b, acc) : mma_any<4, true>(w, e, a, b, acc);
  else k == 16 ? mma_any<16, false>(w, e, a, b, acc) : mma_any<8, false>(w, e, a, b, acc);
  scatter_accumulator<float>(acc, d);
}

void mma_f16(Warp* w, int k, const b32* a, const b32* b, const b32* c, b32* d) {
  alignas(64) float acc[16][8];
  for (int h = 0; h < 2; h++) {
    alignas(64) uint16_t u[64];
    memcpy(u, &c[h], sizeof u);
    for (int row = 0; row < 8; row++) {
      f8 v = row_of(F16, u + 8 * row);
      memcpy(acc[8 * h + row], &v, sizeof v);
    }
  }
  k == 16 ? mma_any<16, false>(w, F16, a, b, acc, true) : mma_any<8, false>(w, F16, a, b, acc, true);
  for (int h = 0; h < 2; h++) {
    alignas(64) uint16_t u[64];
    for (int i = 0; i < 64; i++) u[i] = from_double<half>(acc[8 * h + i / 8][i % 8]).u;
    memcpy(&d[h], u, sizeof u);
  }
}

static int whole_of(Element e, uint32_t word, int at) {
  switch (e) {
    case S8: return int8_t(word >> (8 * at));
    case U8: return uint8_t(word >> (8 * at));
    case S4: return int32_t(word << (28 - 4 * at)) >> 28;
    case U4: return word >> (4 * at) & 15;
    default: return word >> at & 1;
  }
}
void mma_s32(Element ea, Element eb, int m, int k, bool satfinite, const b32* a, const b32* b, const b32* c, b32* d) {
  int64_t acc[16][8] = {};
  int halves = m / 8, each = ea == S8 || ea == U8 ? 4 : ea == S4 || ea == U4 ? 8 : 32;  // elements of a register
  for (int r = 0; r < 2 * halves; r++)
    for (int i = 0; i < LANES; i++) acc[i / 4 + 8 * (r / 2)][2 * (i % 4) + r % 2] = int32_t(c[r].at(i));
  int fa[16][256], fb[256][8];
  for (int r = 0; r < halves * k / (4 * each); r++)
    for (int i = 0; i < LANES; i++)
      for (int x = 0; x < each; x++)
        fa[i / 4 + 8 * (r % halves)][each * (i % 4) + x + 4 * each * (r / halves)] = whole_of(ea, a[r].at(i), x);
  for (int r = 0; r < k / (4 * each); r++)
    for (int i = 0; i < LANES; i++)
      for (int x = 0; x < each; x++) fb[each * (i % 4) + x + 4 * each * r][i / 4] = whole_of(eb, b[r].at(i), x);
  for (int i = 0; i < m; i++)
    for (int j = 0; j < 8; j++)
      for (int x = 0; x < k; x++) acc[i][j] += ea == XOR_B1 ? fa[i][x] ^ fb[x][j] : fa[i][x] * fb[x][j];
  for (int r = 0; r < 2 * halves; r++) {
    alignas(64) uint32_t v[LANES];
    for (int i = 0; i < LANES; i++) {
      int64_t s = acc[i / 4 + 8 * (r / 2)][2 * (i % 4) + r % 2];
      v[i] = satfinite ? uint32_t(clamp_int<int32_t, int64_t>(s)) : uint32_t(s);
    }
    memcpy(&d[r], v, sizeof v);
  }
}

void mma_f64(int m, int k, Round how, const b64* a, const b64* b, const b64* c, b64* d) {
  int halves = m / 8;
  for (int r = 0; r < 2 * halves; r++) {
    alignas(64) double sums[LANES];
    for (int i = 0; i < LANES; i++) {
      double s = bits<double>(c[r].at(i));
      for (int x = 0; x < k; x++) {
        uint64_t left = a[x / 4 * halves + r / 2].at(i / 4 * 4 + x % 4), right = b[x / 4].at((2 * (i % 4) + r % 2) * 4 + x % 4);
        s = how == RN ? std::fma(bits<double>(left), bits<double>(right), s) : fma_rounded(bits<double>(left), bits<double>(right), s, how);
      }
      sums[i] = s;
    }
    memcpy(&d[r], sums, sizeof sums);
  }
}

// m8n8k4 of halves: four products, each of the lanes 4 q to 4 q + 3 and those sixteen behind them.
void mma_four(bool turn_a, bool turn_b, bool narrow_c, bool narrow_d, const b32* a, const b32* b, const b32* c, b32* d) {
  alignas(64) uint32_t out[8][LANES] = {};
  auto part = [](const b32* v, int i, int x) { return to_float(half{uint16_t(v[x / 2].at(i) >> 16 * (x % 2))}); };
  for (int q = 0; q < 4; q++) {
    float fa[8][4], fb[4][8], acc[8][8];
    auto lane = [&](int t, bool high) { return 4 * q + t + (high ? 16 : 0); };
    auto each_sum = [&](bool narrow, auto f) {
      for (int t = 0; t < 8; t++)
        for (int x = 0; x < 8; x++) {
          int i = t % 4, below = t / 4 * 4;
          if (narrow) f(i + below, x, lane(i, below), x / 2, 16 * (x % 2));
          else f((i & 1) + (x & 2) + below, (x & 4) + (i & 2) + (x & 1), lane(i, below), x, 0);
        }
    };
    for (int t = 0; t < 8; t++)
      for (int x = 0; x < 4; x++) {
        int i = t % 4, below = t / 4 * 4;
        float of_a = part(a, lane(i, below), x), of_b = part(b, lane(i, below), x);
        (turn_a ? fa[x + below][i] : fa[i + below][x]) = of_a;
        (turn_b ? fb[i][x + below] : fb[x][i + below]) = of_b;
      }
    each_sum(narrow_c, [&](int row, int column, int i, int r, int shift) {
      uint32_t word = c[r].at(i);
      acc[row][column] = narrow_c ? to_float(half{uint16_t(word >> shift)}) : bits<float>(word);
    });
    for (int i = 0; i < 8; i++)
      for (int j = 0; j < 8; j++)
        for (int x = 0; x < 4; x++) acc[i][j] += fa[i][x] * fb[x][j];
    each_sum(narrow_d, [&](int row, int column, int i, int r, int shift) {
      float s = acc[row][column];
      out[r][i] |= narrow_d ? uint32_t(from_double<half>(s).u) << shift : bits<uint32_t>(s);
    });
  }
  memcpy(d, out, (narrow_d ? 4 : 8) * sizeof out[0]);
}

// Passes in which eight rows of sixteen bytes are read, each from one of eight groups of banks.
static uint32_t passes(const b64& address, int first_lane) {
  uint64_t rows[8], n = 0;
  uint32_t load_of[8] = {}, most = 1;
  for (int i = first_lane; i < first_lane + 8; i++) {
    uint64_t row = address.at(i) >> 4, j = 0;
    uint32_t& load = load_of[row & 7];
    if (load) while (j < n && rows[j] != row) j++;
    if (load && j < n) continue;
    rows[n++] = row;
    if (++load > most) most = load;
  }
  return most;
}

void load_matrix(Warp* w, Mask m, const b64& address, int count, bool transposed, uint32_t site, b32* out) {
  if (w->launch->flags & COUNT) {
    SiteCount& s = w->block->worker->sites[site];
    s.requests++, s.lanes += 8 * count, s.bytes += 128 * count;
    for (int q = 0; q < count; q++) s.units += passes(address, 8 * q);
  }
  const Accesses all(w, SHARED, 0, site);
  for (int q = 0; q < count; q++) {
    alignas(64) uint16_t tile[8][8] = {};
    for (int row = 0; row < 8; row++) {
      int lane = 8 * q + row;
      if (const uint8_t* p = all.at<16, false>(lane, address.at(lane))) memcpy(tile[row], p, 16);
    }
    if (transposed) turn(tile, reinterpret_cast<uint16_t*>(&out[q]));
    else memcpy(&out[q], tile, sizeof tile);
  }
  (void)m;
}

void store_matrix(Warp* w, Mask m, const b64& address, int count, bool transposed, uint32_t site, const b32* in) {
  const Accesses all(w, SHARED, 0, site);
  for (int q = 0; q < count; q++) {
    alignas(64) uint16_t tile[8][8];
    if (transposed) turn(&in[q], tile[0]);
    else memcpy(tile, &in[q], sizeof tile);
    for (int row = 0; row < 8; row++) {
      int lane = 8 * q + row;
      if (uint8_t* p = all.at<16, true>(lane, address.at(lane), tile[row])) memcpy(p, tile[row], 16);
    }
  }
  (void)m;
}
}  // namespace kw
