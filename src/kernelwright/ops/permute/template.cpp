// A contiguous copy of a permuted tensor; elements of BYTES bytes, sizes at run time, axes at compile time.
// Neighbouring axes that stay neighbours are joined and axes of one element dropped. What is left is either
// runs of consecutive elements, copied whole, or a transpose of two axes, done in tiles of W by W registers
// so that reads and writes are whole cache lines. What exceeds the caches, where rows begin within lines,
// is written in strips of rows, staged so that only whole lines leave for memory.
using namespace kw;

#if BYTES == 4
typedef float E;  // moved as vectors of float; no arithmetic touches the bits
#elif BYTES == 8
typedef int64_t E;
#elif BYTES == 2
typedef int16_t E;
#else
typedef int8_t E;
#endif

constexpr int kAxes = AXES;
constexpr int kOrder[kAxes] = {ORDER};

struct Loop {
  int64_t size, in, out;  // elements, strides
};

// out[i * out_step + j] = in[j * in_step + i] for i < rows, j < columns.
template <bool kStreamed>
static void transpose_block(const E* in, E* out, int64_t rows, int64_t columns, int64_t in_step, int64_t out_step) {
#if BYTES == 4
  const bool aligned = kStreamed && out_step % W == 0 && reinterpret_cast<uintptr_t>(out) % (4 * W) == 0;
  int64_t j = 0;
  for (; j + W <= columns; j += W) {
    int64_t i = 0;
    for (; i + W <= rows; i += W) {
      F r[W];
#pragma GCC unroll 16
      for (int k = 0; k < W; ++k) r[k] = vload(in + (j + k) * in_step + i);
      transpose_lanes(r);
      E* to = out + i * out_step + j;
      if (aligned) {
#pragma GCC unroll 16
        for (int k = 0; k < W; ++k) stream(to + k * out_step, r[k], Full{});
      } else {
#pragma GCC unroll 16
        for (int k = 0; k < W; ++k) vstore(to + k * out_step, r[k]);
      }
    }
    for (; i < rows; ++i)
      for (int k = 0; k < W; ++k) out[i * out_step + j + k] = in[(j + k) * in_step + i];
  }
  for (; j < columns; ++j)
    for (int64_t i = 0; i < rows; ++i) out[i * out_step + j] = in[j * in_step + i];
#else
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) out[i * out_step + j] = in[j * in_step + i];
#endif
}

#if BYTES == 4
constexpr int64_t kStrip = 64;  // rows of the output that are written together
constexpr int64_t kStep = 64;   // columns that are staged at a time
constexpr int64_t kLine = 16;   // floats in a cache line

// The same for a strip of at most kStrip rows, past the caches. What fills no line waits for the next step.
static void stream_strip(const E* in, E* out, int64_t rows, int64_t columns, int64_t in_step, int64_t out_step) {
  alignas(64) E stage[kStrip][kLine + kStep + kLine];  // the last line of the step before, then a step
  int64_t done[kStrip] = {};
  for (int64_t j = 0; j < columns; j += kStep) {
    const int64_t end = min(j + kStep, columns);
    for (int64_t k = end; k < min(end + kStep, columns); ++k)  // the next step's rows of the input, each on its own page
      for (int64_t i = 0; i < rows; i += kLine) prefetch(in + k * in_step + i);
    for (int64_t i = 0; j > 0 && i < rows; ++i) std::memcpy(stage[i], stage[i] + kStep, kLine * sizeof(E));
    transpose_block<false>(in + j * in_step, stage[0] + kLine, rows, end - j, in_step, sizeof stage[0] / sizeof(E));
    for (int64_t i = 0; i < rows; ++i) {
      E* row = out + i * out_step;
      const int64_t over = end < columns ? reinterpret_cast<uintptr_t>(row + end) / sizeof(E) % kLine : 0;
      stream_copy(row + done[i], stage[i] + kLine + done[i] - j, end - over - done[i]);
      done[i] = end - over;
    }
  }
}
#endif

template <bool kStreamed>
static void copy_run(E* to, const E* from, int64_t n) {
#if BYTES == 4
  if (kStreamed) return stream_copy(to, from, n);
#endif
  if (n >= 32) std::memcpy(to, from, n * sizeof(E));
  else for (int64_t i = 0; i < n; ++i) to[i] = from[i];
}

// Offsets of the item that the outer loops number `index`.
struct Offsets {
  int64_t in, out;
};
static inline Offsets offsets(const Loop* loops, int count, int64_t index) {
  Offsets at = {0, 0};
  for (int i = count - 1; i >= 0; --i) {
    const int64_t k = index % loops[i].size;
    index /= loops[i].size;
    at.in += k * loops[i].in;
    at.out += k * loops[i].out;
  }
  return at;
}

template <bool kStreamed>
static void permute(const E* in, E* out, const Loop* loops, int count, int64_t total) {
  const Loop last = count ? loops[count - 1] : Loop{1, 1, 1};
  if (last.in == 1) {
    parallel(total / last.size, total, [&](int64_t first, int64_t end) {
      for (int64_t r = first; r < end; ++r) {
        const Offsets at = offsets(loops, count - 1, r);
        copy_run<kStreamed>(out + at.out, in + at.in, last.size);
      }
      if (kStreamed) fence();
    });
    return;
  }
  Loop outer[kAxes];
  Loop row = {1, 1, 1};
  int n = 0;
  for (int i = 0; i + 1 < count; ++i)
    if (loops[i].in == 1) row = loops[i];
    else outer[n++] = loops[i];
  const int64_t slices = total / (row.size * last.size);
#if BYTES == 4
  if (kStreamed && row.out % kLine != 0) {
    const int64_t strips = (row.size + kStrip - 1) / kStrip;
    const int64_t parts = max(1, min(last.size / 1024, 4 * omp_get_max_threads() / (slices * strips)));
    parallel(slices * strips * parts, total, [&](int64_t first, int64_t end) {
      for (int64_t s = first; s < end; ++s) {
        const int64_t i = s / parts % strips * kStrip, part = s % parts;
        const int64_t j = last.size * part / parts, columns = last.size * (part + 1) / parts - j;
        const Offsets at = offsets(outer, n, s / (parts * strips));
        stream_strip(in + at.in + j * last.in + i, out + at.out + i * row.out + j, min(kStrip, row.size - i), columns,
                     last.in, row.out);
      }
      fence();
    });
    return;
  }
#endif
  // A block is BLOCK_ROWS of the input's inner axis by BLOCK_COLUMNS of the output's.
  const int64_t rows = min(row.size, BLOCK_ROWS), columns = min(last.size, BLOCK_COLUMNS);
  const int64_t down = (row.size + rows - 1) / rows, across = (last.size + columns - 1) / columns;
  parallel(slices * down * across, total, [&](int64_t first, int64_t end) {
    for (int64_t b = first; b < end; ++b) {
      const int64_t slice = b / (down * across), rest = b % (down * across);
      const int64_t i = (INPUT_ORDER ? rest % down : rest / across) * rows;
      const int64_t j = (INPUT_ORDER ? rest / down : rest % across) * columns;
      const Offsets at = offsets(outer, n, slice);
      transpose_block<kStreamed>(in + at.in + j * last.in + i, out + at.out + i * row.out + j,
                                 min(rows, row.size - i), min(columns, last.size - j), last.in, row.out);
    }
    if (kStreamed) fence();
  });
}

KW_KERNEL(permute) {
  const DLTensor* x = args.any_tensor(INPUT);
  const DLTensor* y = args.any_tensor(OUTPUT);
  const E* in = static_cast<const E*>(x->data);
  E* out = static_cast<E*>(y->data);
  int64_t sizes[kAxes], strides[kAxes], total = 1;
  const int64_t known[kAxes] = {SIZES};
  for (int i = 0; i < kAxes; ++i) sizes[i] = known[i];
  for (int i = kAxes - 1; i >= 0; --i) {
    strides[i] = total;
    total *= sizes[i];
  }
  int64_t there = 1;
  for (int i = 0; i < y->ndim; ++i) there *= y->shape[i];
  KW_REQUIRE(total == there, "the output has another size than the input");
  if (total == 0) return;
  Loop loops[kAxes];
  int count = 0;
  for (int i = 0; i < kAxes; ++i) {
    const Loop loop = {sizes[kOrder[i]], strides[kOrder[i]], 0};
    if (loop.size == 1) continue;
    if (count && loops[count - 1].in == loop.in * loop.size) {
      loops[count - 1] = {loops[count - 1].size * loop.size, loop.in, 0};
    } else {
      loops[count++] = loop;
    }
  }
  int64_t step = 1;
  for (int i = count - 1; i >= 0; --i) {
    loops[i].out = step;
    step *= loops[i].size;
  }
  ask_large_pages(out, total * int64_t(sizeof(E)));
  const bool streamed = total * int64_t(sizeof(E)) > kStreamBytes;
  (streamed ? permute<true> : permute<false>)(in, out, loops, count, total);
}
