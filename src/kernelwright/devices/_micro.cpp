// Measures this CPU's peaks: bandwidth of each memory level, multiply-add rates, fork-join latency.
//
//   micro THREADS LEVEL=BYTES_A_THREAD ...        prints one "name value" a line: bytes/s, flop/s, seconds
//
// Whatever else runs on a core's other hardware thread halves the rate of its vector units, and no clock of
// ours shows it. But float32 has twice the lanes of float64: where the rates of the two say otherwise, they are
// measured again after each level, and a few times more at the end.
//
// Every thread works on memory of its own that it touched first. A pattern is repeated until its time is
// up; its rate is the median of its three fastest repeats: a peak is a maximum, but one lucky reading of
// the clock is not. A name may be printed more than once, for more than one way to do it: the highest
// counts. For DRAM the other ways are software prefetch, and stores that bypass the caches, so that no
// byte is moved that the pattern does not name.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <omp.h>
#include <time.h>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "../compiler/printers/cpp/tile_unit.h"

namespace {

// Bytes of one access: a vector register, for compilers take wider ones apart into single elements; and how many sums
// fit into the registers, enough to hide the latency of a multiply-add.
#if defined(__AVX512F__)
constexpr int kLane = 64, kSums = 16;
#elif defined(__AVX__)
constexpr int kLane = 32, kSums = 12;
#else
constexpr int kLane = 16, kSums = 12;
#endif
constexpr double kPatternSeconds = 0.1;   // of measuring, for each pattern and level
constexpr double kRepeatSeconds = 5e-4;   // of one repeat: short, so that some fall between disturbances
constexpr double kMostSeconds = 0.5;      // where few repeats are undisturbed
constexpr int kLeastRepeats = 9;
constexpr int kMoreRounds = 4;            // of multiply-adds whose rates are not plausible
constexpr int kDramSlices = 16;            // a repeat visits one of these parts of the buffer, in turn
constexpr int kPrefetchBytes = 2048;      // read ahead by so many

using Vec = float __attribute__((vector_size(kLane)));
using VecD = double __attribute__((vector_size(kLane)));

double now() {
  using clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(clock::now().time_since_epoch()).count();
}

// Seconds that this thread ran: what the machine gave to others is not in it.
double thread_seconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}

void stream(Vec *to, Vec value) {
#if defined(__AVX512F__)
  _mm512_stream_ps(reinterpret_cast<float *>(to), (__m512)value);
#elif defined(__AVX__)
  _mm256_stream_ps(reinterpret_cast<float *>(to), (__m256)value);
#elif defined(__SSE2__)
  _mm_stream_ps(reinterpret_cast<float *>(to), (__m128)value);
#else
  *to = value;
#endif
}

void keep(const void *memory) { asm volatile("" : : "r"(memory) : "memory"); }

template <bool kAhead>
void fetch_ahead(const Vec *a) {
  if (kAhead) __builtin_prefetch(a + kPrefetchBytes / kLane);
}

template <bool kStreaming>
void store(Vec *to, Vec value) {
  if (kStreaming) stream(to, value);
  else *to = value;
}

// Patterns: `n` vectors at `a`, in disjoint parts. Each returns the bytes it moved.
template <bool kAhead>
size_t read(Vec *a, size_t n) {
  Vec sums[8] = {};
  for (size_t i = 0; i + 8 <= n; i += 8)
    for (int j = 0; j < 8; j++) {
      fetch_ahead<kAhead>(a + i + j);
      sums[j] += a[i + j];
    }
  keep(sums);
  return n / 8 * 8 * kLane;
}

template <bool kStreaming>
size_t write(Vec *a, size_t n) {
  const Vec value = Vec{} + 1.f;
  for (size_t i = 0; i < n; i++) store<kStreaming>(a + i, value);
  keep(a);
  return n * kLane;
}

template <bool kStreaming>
size_t copy(Vec *a, size_t n) {
  const size_t part = n / 2;
  Vec *b = a + part;
  for (size_t i = 0; i < part; i++) {
    fetch_ahead<kStreaming>(a + i);
    store<kStreaming>(b + i, a[i]);
  }
  keep(a);
  return part * 2 * kLane;
}

template <bool kStreaming>
size_t add(Vec *a, size_t n) {
  const size_t part = n / 3;
  Vec *b = a + part, *c = b + part;
  for (size_t i = 0; i < part; i++) {
    fetch_ahead<kStreaming>(a + i);
    fetch_ahead<kStreaming>(b + i);
    store<kStreaming>(c + i, a[i] + b[i]);
  }
  keep(a);
  return part * 3 * kLane;
}

template <typename V>
size_t multiply_add(size_t rounds) {
  V sums[kSums], factor = V{} + 0.999f, term = V{} + 0.001f;
  for (auto &s : sums) s = term;
  for (size_t i = 0; i < rounds; i++)
#pragma GCC unroll 16
    for (int j = 0; j < kSums; j++) sums[j] = sums[j] * factor + term;
  keep(sums);
  return rounds * kSums * 2 * (sizeof(V) / sizeof(V{}[0]));
}

// Pairs of bfloat16, multiplied and summed in float32; nothing where the machine has no instruction for it.
size_t multiply_pairs(size_t rounds) {
#if defined(__AVX512BF16__)
  __m512 sums[16];
  const Vec factor = Vec{} + 0.5f, term = Vec{} + 0.001f;
  for (auto &s : sums) s = (__m512)term;
  for (size_t i = 0; i < rounds; i++)
#pragma GCC unroll 16
    for (int j = 0; j < 16; j++) sums[j] = _mm512_dpbf16_ps(sums[j], (__m512bh)factor, (__m512bh)term);
  keep(sums);
  return rounds * 16 * 4 * (sizeof(Vec) / sizeof(float));
#else
  return 0;
#endif
}

// The same by the tile unit, four registers of sums as in products; nothing where it may not be used.
size_t multiply_tiles(size_t rounds) {
#if KW_TILES
  if (!kw::tile_unit_usable()) return 0;
  alignas(64) static const char zeros[16 * 64] = {};
  kw::TileShapes shapes;
  shapes.set(16, 16, 16);
  KW_TILE_LOAD(4, zeros, 64);
  KW_TILE_LOAD(5, zeros, 64);
  KW_TILE_LOAD(6, zeros, 64);
  KW_TILE_LOAD(7, zeros, 64);
  for (size_t i = 0; i < rounds; i++) {
    KW_TILE_PAIRS(0, 4, 6);
    KW_TILE_PAIRS(1, 4, 7);
    KW_TILE_PAIRS(2, 5, 6);
    KW_TILE_PAIRS(3, 5, 7);
  }
  return rounds * 4 * 2 * 16 * 16 * 32;
#else
  return 0 * rounds;
#endif
}

struct Run {
  double units;
  double wall_seconds;
  double busy_seconds;  // of the thread that ran longest

  bool disturbed() const { return wall_seconds > 1.1 * busy_seconds; }
};

// Runs `work` in all threads at once, `times` times.
template <typename Work>
Run run(Work work, int times) {
  double began = 0, ended = 0, units = 0, busy = 0;
#pragma omp parallel reduction(+ : units) reduction(max : busy)
  {
#pragma omp barrier
#pragma omp master
    began = now();
#pragma omp barrier
    const double start = thread_seconds();
    for (int i = 0; i < times; i++) units += work(omp_get_thread_num());
    busy = thread_seconds() - start;
#pragma omp barrier
#pragma omp master
    ended = now();
  }
  return {units, ended - began, busy};
}

// Units a second of all threads together, by the time that they ran. Threads that share the memory must run
// side by side for that to be their rate, so of those only undisturbed repeats count where there are any.
template <typename Work>
double peak(Work work, bool shared) {
  int times = 1;
  const auto least_seconds = [&] {
    double least = run(work, times).busy_seconds;
    for (int i = 0; i < 4; i++) least = std::min(least, run(work, times).busy_seconds);
    return least;
  };
  while (times < (1 << 24) && least_seconds() < kRepeatSeconds) times *= 2;
  std::vector<double> rates, disturbed;
  const double began = now();
  for (double spent = 0; spent < kPatternSeconds || (rates.size() < kLeastRepeats && spent < kMostSeconds);
       spent = now() - began) {
    const Run r = run(work, times);
    (shared && r.disturbed() ? disturbed : rates).push_back(r.units / r.busy_seconds);
  }
  if (rates.size() < 3) rates.insert(rates.end(), disturbed.begin(), disturbed.end());
  while (rates.size() < 2) {
    const Run r = run(work, times);
    rates.push_back(r.units / r.busy_seconds);
  }
  std::sort(rates.rbegin(), rates.rend());
  return rates[1];
}

// A few at a time, for so long that on a busy machine too all threads have their cores at once now and then.
double fork_join_seconds() {
  constexpr int few = 10;
  double best = 1;
  for (const double end = now() + 0.05; now() < end;) {
    const double began = now();
    for (int i = 0; i < few; i++) {
#pragma omp parallel
      keep(&best);
    }
    best = std::min(best, (now() - began) / few);
  }
  return best;
}

void measure_level(const std::string &name, size_t bytes) {
  const size_t n = bytes / kLane;
  std::vector<Vec *> parts(omp_get_max_threads());
#pragma omp parallel
  {
    auto *part = static_cast<Vec *>(std::aligned_alloc(4096, (bytes / 4096 + 1) * 4096));
    write<false>(part, n);
    parts[omp_get_thread_num()] = part;
  }
  const struct {
    const char *name;
    size_t (*run)(Vec *, size_t);
    bool in_cache, in_dram;
  } patterns[] = {
      {"read", read<false>, true, true},    {"read", read<true>, false, true},
      {"write", write<false>, true, false}, {"write", write<true>, false, true},
      {"copy", copy<false>, true, false},   {"copy", copy<true>, false, true},
      {"add", add<false>, true, false},     {"add", add<true>, false, true},
  };
  for (const auto &pattern : patterns) {
    if (!(name == "dram" ? pattern.in_dram : pattern.in_cache)) continue;
    const int slices = name == "dram" ? kDramSlices : 1;
    std::vector<int> visits(parts.size());
    const double value = peak([&](int thread) {
      const int slice = visits[thread]++ % slices;
      return pattern.run(parts[thread] + slice * (n / slices), n / slices);
    }, name == "dram");
    std::printf("%s.%s %.6e\n", name.c_str(), pattern.name, value);
  }
  for (auto *part : parts) std::free(part);
}

// Multiply-adds a second of both widths, and of pairs, the highest so far.
struct Arithmetic {
  double float32 = 0, float64 = 0, pairs = 0;

  void measure() {
    float32 = std::max(float32, peak([](int) { return multiply_add<Vec>(2000); }, false));
    float64 = std::max(float64, peak([](int) { return multiply_add<VecD>(2000); }, false));
    if (multiply_tiles(1)) pairs = std::max(pairs, peak([](int) { return multiply_tiles(2000); }, false));
    if (multiply_pairs(1)) pairs = std::max(pairs, peak([](int) { return multiply_pairs(2000); }, false));
  }

  bool plausible() const { return float32 > 1.6 * float64 && float32 < 2.5 * float64; }
};

}  // namespace

int main(int count, char **arguments) {
  if (count < 2) return 2;
  omp_set_num_threads(std::atoi(arguments[1]));
  Arithmetic rates;
  rates.measure();
  for (int i = 2; i < count; i++) {
    const std::string word = arguments[i];
    const auto equals = word.find('=');
    if (equals == std::string::npos) return 2;
    measure_level(word.substr(0, equals), std::strtoull(word.c_str() + equals + 1, nullptr, 10));
    if (!rates.plausible()) rates.measure();
  }
  for (int again = 0; again < kMoreRounds && !rates.plausible(); again++) rates.measure();
  std::printf("float32 %.6e\nfloat64 %.6e\n", rates.float32, rates.float64);
  if (rates.pairs > 0) std::printf("tensor-bfloat16 %.6e\n", rates.pairs);
  std::printf("fork_join %.6e\n", fork_join_seconds());
  return 0;
}
