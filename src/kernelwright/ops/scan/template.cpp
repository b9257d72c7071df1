// Scans along one axis with an accumulator in double: x is (outer, length, inner), sizes at run time.
// inner == 1: a vector is scanned in log2(W) shuffles and the carry is one operation a vector.
// inner > 1: a tile of columns is carried down the axis. Memory is read once and written once.
using namespace kw;

constexpr int V = W / 2;  // doubles in the width of one F
typedef double G __attribute__((vector_size(V * 8)));
typedef int64_t L __attribute__((vector_size(V * 8)));
typedef float Half __attribute__((vector_size(V * 4)));

constexpr double kNeutral = PRODUCT ? 1.0 : 0.0;
template <class T> KW_INLINE T join(T a, T b) { return PRODUCT ? a * b : a + b; }

KW_INLINE G widen(const float* p) {
  Half h;
  std::memcpy(&h, p, sizeof h);
  return __builtin_convertvector(h, G);
}
KW_INLINE void narrow(float* p, G v) {
  const Half h = __builtin_convertvector(v, Half);
  std::memcpy(p, &h, sizeof h);
}
KW_INLINE G backwards(G v) {
  L order;
  for (int i = 0; i < V; ++i) order[i] = V - 1 - i;
  return __builtin_shuffle(v, order);
}

// Inclusive scan of the lanes.
KW_INLINE G scan_lanes(G v) {
  const G neutral = splat<G>(kNeutral);
#pragma GCC unroll 4
  for (int step = 1; step < V; step *= 2) {
    L from;
    for (int i = 0; i < V; ++i) from[i] = i < step ? V + i : i - step;
    v = join(v, __builtin_shuffle(v, neutral, from));
  }
  return v;
}

// Scans n values from `carry` and returns the carry after them; reversed, from the last to the first.
static inline double scan_run(float* to, const float* from, int64_t n, double carry) {
  int64_t i = 0;
  for (; i + UNROLL * V <= n; i += UNROLL * V) {
    G part[UNROLL];
#pragma GCC unroll 8
    for (int u = 0; u < UNROLL; ++u) {
      const int64_t at = REVERSE ? n - i - (u + 1) * V : i + u * V;
      part[u] = scan_lanes(REVERSE ? backwards(widen(from + at)) : widen(from + at));
    }
#pragma GCC unroll 8
    for (int u = 0; u < UNROLL; ++u) {
      const int64_t at = REVERSE ? n - i - (u + 1) * V : i + u * V;
      const G all = join(splat<G>(carry), part[u]);
      carry = join(carry, part[u][V - 1]);
      narrow(to + at, REVERSE ? backwards(all) : all);
    }
  }
  for (; i < n; ++i) {
    const int64_t at = REVERSE ? n - 1 - i : i;
    carry = join(carry, double(from[at]));
    to[at] = float(carry);
  }
  return carry;
}

static inline double total_run(const float* from, int64_t n) {
  G sum[4];
  for (G& s : sum) s = splat<G>(kNeutral);
  int64_t i = 0;
  for (; i + 4 * V <= n; i += 4 * V)
    for (int u = 0; u < 4; ++u) sum[u] = join(sum[u], widen(from + i + u * V));
  const G four = join(join(sum[0], sum[1]), join(sum[2], sum[3]));
  double total = kNeutral;
  for (int u = 0; u < V; ++u) total = join(total, four[u]);
  for (; i < n; ++i) total = join(total, double(from[i]));
  return total;
}

// What is scanned: n values of the inputs' expression from element `at`, in `buffer` unless it is plain memory.
struct Inputs {
  FIELDS
  const float* values(int64_t at, int64_t n, float* buffer) const {
    if constexpr (PLAIN) return a0 + at;
    int64_t i = 0;
    for (; i + W <= n; i += W) vstore(buffer + i, value(at + i, Full{}));
    if (i < n) store(buffer + i, value(at + i, Part{int(n - i)}), Part{int(n - i)});
    return buffer;
  }
  template <class Lanes>
  inline __attribute__((always_inline)) F value(int64_t i, Lanes lanes) const { STATEMENTS }
};

struct Shape {
  int64_t outer;   // lines
  int64_t in;      // length of a line of x
  int64_t out;     // length of a line of the result
  int64_t length;  // values scanned a line: out, less the leading neutral of an exclusive scan
  int64_t inner;   // distance of neighbours on the axis
};

constexpr int64_t kChunk = 1024;

// Scans [first, last) of the line whose input starts at `in` and output at `out`; returns the carry.
template <bool kStreamed>
static double scan_part(const Inputs& x, int64_t in, float* out, int64_t first, int64_t last, double carry) {
  float buffer[kChunk];
  alignas(64) float stage[kChunk];
  const int64_t n = last - first;
  for (int64_t done = 0; done < n; done += kChunk) {
    const int64_t part = min(kChunk, n - done), at = REVERSE ? last - done - part : first + done;
    const float* from = x.values(in + at, part, buffer);
    carry = scan_run(kStreamed ? stage : out + at, from, part, carry);
    if (kStreamed) stream_copy(out + at, stage, part);
  }
  return carry;
}

template <bool kStreamed>
static void scan_lines(const Inputs& x, float* y, const Shape& s) {
  parallel(s.outer, s.outer * s.out, [&](int64_t first, int64_t last) {
    float buffer[kChunk];
    Writer<kStreamed> writer(y + first * s.out);
    for (int64_t o = first; o < last; ++o) {
      if (kStreamed && s.out > kChunk) {
        float* line = y + o * s.out;
        if (EXCLUSIVE) line[0] = float(kNeutral);
        scan_part<true>(x, o * s.in, line + EXCLUSIVE, 0, s.length, kNeutral);
      } else if (s.out <= kChunk) {
        float* line = writer.room(s.out);
        if (EXCLUSIVE) line[0] = float(kNeutral);
        scan_run(line + EXCLUSIVE, x.values(o * s.in, s.length, buffer), s.length, kNeutral);
        writer.wrote(s.out);
      } else {
        float* line = y + o * s.out;
        if (EXCLUSIVE) line[0] = float(kNeutral);
        scan_part<false>(x, o * s.in, line + EXCLUSIVE, 0, s.length, kNeutral);
      }
    }
    if (kStreamed) fence();
  });
}

// Few long lines: the threads take neighbouring parts that fit their caches, total them, then scan them.
template <bool kStreamed>
static void scan_long(const Inputs& x, float* y, const Shape& s) {
  const int64_t part = int64_t(PART_KIB) * 256;
  std::vector<double> totals(omp_get_max_threads() * 8);
#pragma omp parallel
  {
    const int64_t t = omp_get_thread_num(), threads = omp_get_num_threads();
    float buffer[kChunk];
    for (int64_t o = 0; o < s.outer; ++o) {
      float* line = y + o * s.out;
      if (EXCLUSIVE && t == 0) line[0] = float(kNeutral);
      double carry = kNeutral;
      for (int64_t done = 0; done < s.length; done += part * threads) {
        const int64_t a = min(s.length, done + t * part), b = min(s.length, a + part);
        const int64_t first = REVERSE ? s.length - b : a, last = REVERSE ? s.length - a : b;
        double total = kNeutral;
        for (int64_t i = first; i < last; i += kChunk) {
          const int64_t n = min(kChunk, last - i);
          total = join(total, total_run(x.values(o * s.in + i, n, buffer), n));
        }
        totals[t * 8] = total;
#pragma omp barrier
        double before = carry;
        for (int64_t k = 0; k < threads; ++k) {
          if (k < t) before = join(before, totals[k * 8]);
          carry = join(carry, totals[k * 8]);
        }
        scan_part<kStreamed>(x, o * s.in, line + EXCLUSIVE, first, last, before);
#pragma omp barrier
      }
    }
    if (kStreamed) fence();
  }
}

// The axis is not the innermost: tiles of columns are carried down it.
template <bool kStreamed>
static void scan_columns(const Inputs& x, float* y, const Shape& s) {
  const int64_t threads = threads_for(s.outer * s.out * s.inner);
  int64_t tile = min(TILE, s.inner);
  if (s.outer * ((s.inner + tile - 1) / tile) < threads) tile = (s.inner / threads + 15) / 16 * 16;
  tile = max(1, min(tile, s.inner));
  const int64_t tiles = (s.inner + tile - 1) / tile;
  parallel(s.outer * tiles, s.outer * s.out * s.inner, [&](int64_t begin, int64_t end) {
    alignas(64) double carry[TILE + V];
    alignas(64) float stage[TILE + V], buffer[TILE + W];
    for (int64_t k = begin; k < end; ++k) {
      const int64_t column = k % tiles * tile, n = min(tile, s.inner - column);
      const int64_t in = k / tiles * s.in * s.inner + column;
      float* line = y + k / tiles * s.out * s.inner + column;
      for (int64_t j = 0; j < n; ++j) carry[j] = kNeutral;
      if (EXCLUSIVE) {
        for (int64_t j = 0; j < n; ++j) line[j] = float(kNeutral);
        line += s.inner;
      }
      for (int64_t i = 0; i < s.length; ++i) {
        const int64_t at = (REVERSE ? s.length - 1 - i : i) * s.inner;
        const float* from = x.values(in + at, n, buffer);
        float* to = kStreamed ? stage : line + at;
        int64_t j = 0;
        for (; j + V <= n; j += V) {
          G c;
          std::memcpy(&c, carry + j, sizeof c);
          c = join(c, widen(from + j));
          std::memcpy(carry + j, &c, sizeof c);
          narrow(to + j, c);
        }
        for (; j < n; ++j) to[j] = float(carry[j] = join(carry[j], double(from[j])));
        if (kStreamed) stream_copy(line + at, stage, n);
      }
    }
    if (kStreamed) fence();
  });
}

KW_KERNEL(scan) {
  const auto y = args.tensor<float>(OUTPUT);
  const int64_t in_length = args.any_tensor(INPUT)->shape[AXIS], out_length = y.shape(AXIS);
  const Shape s = {y.numel(0, AXIS), in_length, out_length, out_length - EXCLUSIVE, y.numel(AXIS + 1, y.ndim())};
  if (y.numel() == 0) return;
  const Inputs x = {ARGUMENTS};
  ask_large_pages(y.data(), y.numel() * 4);
  const bool streamed = y.numel() * 4 > kStreamBytes;
  const bool wide = s.outer < omp_get_max_threads() && s.length > 4 * kGrain;
  const auto run = s.inner > 1 ? (streamed ? scan_columns<true> : scan_columns<false>)
                   : wide      ? (streamed ? scan_long<true> : scan_long<false>)
                               : (streamed ? scan_lines<true> : scan_lines<false>);
  run(x, y.data(), s);
}
