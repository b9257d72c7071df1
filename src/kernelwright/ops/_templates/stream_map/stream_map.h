// Walks over what is read once and written once: threads, whole lines past the caches, 16-bit outputs too.
//
// An output that is larger than the caches leaves by streaming stores: the machine then does not read its lines first,
// so a write costs one transfer, not two. Fresh memory is asked for in large pages.
#pragma once
#include "rows.h"

#ifndef KW_INLINED
#define KW_INLINED __attribute__((always_inline))  // of a function object
#endif

namespace kw {

constexpr int64_t kStreamFrom = 12 << 20;     // bytes of output that will not be found in cache again
constexpr int64_t kSerialElements = 1 << 15;  // elements of work below which waking a thread costs more than it saves
constexpr int64_t kLine = 64;

// Asks for the line `apart` elements further on: of the next row, while this one is written, so that memory is read all
// the time.
template <class T> KW_INLINE void ask(const T* p, int64_t apart) {
  if (apart) __builtin_prefetch(p + apart, 0, 2);
}

// What storage in T leaves of v.
template <class T> KW_INLINE F rounded(F v) {
  if constexpr (std::is_same_v<T, bfloat16>) {
#if defined(__AVX512BF16__)
    if (__builtin_expect(!_mm512_fpclass_ps_mask((__m512)v, 0x20), 1)) {  // none is denormal
      const __m256i narrow = (__m256i)_mm512_cvtneps_pbh((__m512)v);
      return (F)_mm512_slli_epi32(_mm512_cvtepu16_epi32(narrow), 16);
    }
#endif
    const U u = (U)bits(v), even = u + 0x7fffu + ((u >> 16) & 1u);
    return (v != v) ? v : from_bits((M)(even & 0xffff0000u));
  }
  return v;
}

// A store; past the caches if STREAM, where p must be on a boundary of W elements.
template <bool STREAM, class T, class Lanes> KW_INLINE void write(T* p, F v, Lanes lanes) {
#if defined(__AVX512F__)
  if constexpr (STREAM && std::is_same_v<T, bfloat16> && std::is_same_v<Lanes, Full>) {
    alignas(32) bfloat16 held[W];
    store(held, v, lanes);
    _mm256_stream_si256(reinterpret_cast<__m256i*>(p), _mm256_load_si256(reinterpret_cast<const __m256i*>(held)));
    return;
  }
#endif
  put<STREAM>(p, v, lanes);
}

// Copies what was staged in cache past the caches, whole lines of it. A loop that loads and streams at once stands still
// where a load's address has the low 12 bits of a store that still waits for its line; this one has loads of its own.
inline void stream_bytes(void* to, const void* from, int64_t bytes) {
  char* out = static_cast<char*>(to);
  const char* in = static_cast<const char*>(from);
  int64_t i = std::min<int64_t>(bytes, -reinterpret_cast<uintptr_t>(out) % kLine);
  std::memcpy(out, in, static_cast<size_t>(i));
  for (; i + kLine <= bytes; i += kLine)
    for (int64_t k = 0; k < kLine; k += W * 4) {
      F v;
      std::memcpy(&v, in + i + k, sizeof v);
      stream(reinterpret_cast<float*>(out + i + k), v, Full{});
    }
  std::memcpy(out + i, in + i, static_cast<size_t>(bytes - i));
}

// Whether outputs are large enough to stream, and lie alike, so that one head brings all to a boundary.
template <class T, class... More> KW_INLINE bool streams(int64_t elements, const T* first, const More*... more) {
  const auto at = [](const void* p) { return reinterpret_cast<uintptr_t>(p) % kLine; };
  return elements * int64_t(sizeof(T)) >= kStreamFrom && at(first) % sizeof(T) == 0 &&
         ((at(more) == at(first)) && ... && true);
}

// `sweep` after a part that brings `out + begin` to a vector's boundary, for any T.
template <bool STREAM, int UNROLL, class T, class Body>
KW_INLINE void sweep_lines(const T* out, int64_t begin, int64_t end, Body body) {
  if constexpr (!STREAM) return sweep<UNROLL>(begin, end, body);
  const int64_t past = reinterpret_cast<uintptr_t>(out + begin) / sizeof(T) % W;
  const int64_t head = past ? std::min<int64_t>(W - past, end - begin) : 0;
  if (head > 0) body(begin, Part{static_cast<int>(head)}, 0);
  sweep<UNROLL>(begin + head, end, body);
}

// Calls body(begin, end) for shares of `count` items that cost `work` elements together, on as many threads as they earn.
template <class Body> void in_shares(int64_t count, int64_t work, int64_t grain, Body body) {
  const int64_t most = std::min<int64_t>(work / (kSerialElements / 2), (count + grain - 1) / grain);
  const int threads = static_cast<int>(std::clamp<int64_t>(most, 1, omp_get_max_threads()));
  if (threads == 1) {
    body(int64_t{0}, count);
    fence();
    return;
  }
#pragma omp parallel num_threads(threads)
  {
    const Range mine = share(count, omp_get_thread_num(), omp_get_num_threads(), grain);
    body(mine.begin, mine.end);
    fence();
  }
}

// A vector of n numbers as floats: where they lie if they are, else copied; `otherwise` in each place if there are none.
class Floats {
 public:
  Floats(const Args& args, int i, int64_t n, float otherwise, float offset = 0) {
    if (!args.is_none(i) && args.is<float>(i) && offset == 0) {
      data = args.tensor<const float>(i).data();
      return;
    }
    held_.reset(new float[static_cast<size_t>(n)]);
    data = held_.get();
    const auto fill = [&](auto value) {
      sweep<1>(0, n, [&](int64_t k, auto lanes, int) KW_INLINED { store(held_.get() + k, value(k, lanes) + offset, lanes); });
    };
    if (args.is_none(i)) {
      std::fill_n(held_.get(), n, otherwise);
    } else if (args.is<float>(i)) {
      const float* from = args.tensor<const float>(i).data();
      fill([&](int64_t k, auto lanes) KW_INLINED { return load(from + k, lanes); });
    } else {
      const bfloat16* from = args.tensor<const bfloat16>(i).data();
      fill([&](int64_t k, auto lanes) KW_INLINED { return load(from + k, lanes); });
    }
  }
  const float* data;

 private:
  std::unique_ptr<float[]> held_;
};

// A matrix of sums by column, a row for each thread, short float32 runs flushed into float64; then one row of all. Where one
// thread has one run there is nothing to flush into.
class ColumnSums {
 public:
  ColumnSums(int64_t columns, int threads, bool one_run = false)
      : columns_(columns), threads_(threads),
        runs_(new float[static_cast<size_t>(columns * threads)]()),
        totals_(one_run && threads == 1 ? nullptr : new double[static_cast<size_t>(columns * threads)]()) {}
  float* run(int rank) { return runs_.get() + rank * columns_; }
  void flush(int rank) {
    if (!totals_) return;
    float* from = run(rank);
    double* to = totals_.get() + rank * columns_;
    for (int64_t k = 0; k < columns_; ++k) to[k] += from[k], from[k] = 0;
  }
  template <class T> void store_to(T* out) const {
    if (!totals_) {
      sweep<1>(0, columns_, [&](int64_t k, auto lanes, int) KW_INLINED { store(out + k, load(runs_.get() + k, lanes), lanes); });
      return;
    }
    for (int64_t k = 0; k < columns_; ++k) {
      double sum = 0;
      for (int t = 0; t < threads_; ++t) sum += totals_[t * columns_ + k];
      out[k] = static_cast<T>(static_cast<float>(sum));
    }
  }

 private:
  int64_t columns_;
  int threads_;
  std::unique_ptr<float[]> runs_;
  std::unique_ptr<double[]> totals_;
};

}  // namespace kw
