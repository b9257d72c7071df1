// Products of `dots.h` for ctypes, and what can be said of the tile unit, or of its model, that made them.
#include "vector.h"

#include "dots.h"

using namespace kw;

namespace {

template <class Dot, class T>
void products(const char* a, int64_t apart, int64_t rows, const uint32_t* panels, int64_t columns, int64_t steps, T* out) {
  multiply_dots<Dot>(a, apart, rows, panels, (columns + kDotColumns - 1) / kDotColumns, steps,
                     [&](typename Dot::Sum sum, int64_t m, int64_t n) {
                       for (int i = 0; i < W && n + i < columns; ++i) out[m * columns + n + i] = sum[i];
                     });
}

#if KW_TILES == 2 && defined(__FMA__)
uint32_t random_bits() {
  static uint64_t state = 88172645463325252u;
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return static_cast<uint32_t>(state >> 16);
}
bool same(float x, float y) { return (x != x && y != y) || detail::bits_of(x) == detail::bits_of(y); }
// By the processor's own instruction, told to take subnormals for zero and to make zero of them.
__attribute__((noinline)) float by_processor(float x, float y, float z) {
  const unsigned before = _mm_getcsr();
  _mm_setcsr(0x9fc0);
  const __m128 sum = _mm_fmadd_ss(_mm_set_ss(x), _mm_set_ss(y), _mm_set_ss(z));
  float value;
  _mm_store_ss(&value, sum);
  _mm_setcsr(before);
  return value;
}
#endif

}  // namespace

extern "C" {
void pairs(const char* a, int64_t apart, int64_t rows, const uint32_t* panels, int64_t columns, int64_t steps, float* out) {
  products<Pairs>(a, apart, rows, panels, columns, steps, out);
}
void quads(const char* a, int64_t apart, int64_t rows, const uint32_t* panels, int64_t columns, int64_t steps, int32_t* out) {
  products<Quads>(a, apart, rows, panels, columns, steps, out);
}
void choose(int64_t number) { chosen_number = number; }
int usable() {
#if KW_TILES
  return tile_unit_usable();
#else
  return 0;
#endif
}
#if KW_TILES == 2
// What the thread's model has done: configurations, releases, products; and whether it is configured still.
void counted(int64_t* to) {
  const tile_model::Unit& u = tile_model::unit();
  to[0] = u.configurations, to[1] = u.releases, to[2] = u.products, to[3] = u.configured;
}
// One TDPBF16PS of 16 rows, 16 columns and 16 pairs: [16][32], [16][16][2], [16][16].
void one_product(const char* left, const char* right, float* sums) {
  TileShapes shapes;
  shapes.set(16, 0, 16);
  KW_TILE_LOAD(0, sums, 64);
  KW_TILE_LOAD(4, left, 64);
  KW_TILE_LOAD(6, right, 64);
  KW_TILE_PAIRS(0, 4, 6);
  KW_TILE_STORE(0, sums, 64);
}
// Of so many triples of numbers, most of them near the least normal one, how many the processor's instruction multiplies and
// adds, and how many otherwise than the model.
void arithmetic(int64_t count, int64_t* compared, int64_t* different) {
  *compared = *different = 0;
#if defined(__FMA__)
  for (int64_t i = 0; i < count; ++i) {
    const auto number = [&](uint32_t bits, uint32_t exponent) {
      return detail::float_of((bits & 0x807fffffu) | (exponent & 255u) << 23);
    };
    // Any numbers; products about the least normal number, 2^-126; such next to it that round to it or are below.
    const int64_t kind = i % 3;
    const uint32_t e = kind == 0 ? random_bits() % 256 : 20 + random_bits() % 70;
    const uint32_t f = kind == 0 ? random_bits() % 256 : (kind == 1 ? 120 : 100) + random_bits() % 10 - e;
    const float x = number(random_bits() & 0xffff0000u, e), y = number(random_bits() & 0xffff0000u, f);
    float z = number(random_bits(), kind == 0 ? random_bits() % 256 : random_bits() % 3);
    if (kind == 2) z = detail::float_of((random_bits() & 0x80000000u) | (0x00800000u + random_bits() % 2));
    ++*compared;
    *different += !same(by_processor(x, y, z), tile_model::fma(x, y, z));
  }
#else
  (void)count;
#endif
}
#endif
}
