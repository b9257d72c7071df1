// Split of work over threads, and outputs that leave for memory in whole cache lines.
#include <omp.h>

#include <algorithm>
#include <vector>

namespace kw {

// A call that writes more than this many bytes will not find them in cache again.
constexpr int64_t kStreamBytes = int64_t(STREAM_MIB) << 20;
// Elements of work that are worth waking one more thread.
constexpr int64_t kGrain = 16384;

KW_INLINE F vload(const float* p) { return load(p, Full{}); }
KW_INLINE void vstore(float* p, F v) { store(p, v, Full{}); }
KW_INLINE int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }
KW_INLINE int64_t max(int64_t a, int64_t b) { return a > b ? a : b; }

static inline int threads_for(int64_t work) {
  return int(max(1, min(work / kGrain, omp_get_max_threads())));
}

// Calls body(first, last) on each thread's share of `count` items that cost `work` elements together.
template <class Body>
static inline void parallel(int64_t count, int64_t work, Body body) {
  const int64_t threads = min(threads_for(work), count);
  if (threads < 2) {
    if (count > 0) body(int64_t(0), count);
    return;
  }
#pragma omp parallel num_threads(int(threads))
  {
    const int64_t t = omp_get_thread_num(), n = omp_get_num_threads();
    body(count * t / n, count * (t + 1) / n);
  }
}

// Copies n floats to memory that will not be read soon; lines shared with neighbours go through the cache.
static inline void stream_copy(float* to, const float* from, int64_t n) {
  int64_t i = min(n, (64 - (reinterpret_cast<uintptr_t>(to) & 63)) / 4 & 15);
  std::memcpy(to, from, i * 4);
  for (; i + 16 <= n; i += 16)
    for (int k = 0; k < 16; k += W) stream(to + i + k, vload(from + i + k), Full{});
  std::memcpy(to + i, from + i, (n - i) * 4);
}

// A thread's run of consecutive outputs, staged so that only whole lines leave for memory.
template <bool kStreamed>
class Writer {
 public:
  explicit Writer(float* to) : to_(to) {}
  ~Writer() {
    if (!kStreamed) return;
    flush();
    std::memcpy(to_, stage_, held_ * 4);
    fence();
  }
  static constexpr int64_t kRoom = 1024;
  // Room for n more floats, n <= kRoom; `wrote` must follow.
  float* room(int64_t n) {
    if (!kStreamed) return to_;
    if (held_ + n > kStage) flush();
    return stage_ + held_;
  }
  void wrote(int64_t n) {
    if (kStreamed) held_ += n;
    else to_ += n;
  }
  void write(const float* from, int64_t n) {
    for (int64_t i = 0; i < n; i += kRoom) {
      const int64_t part = min(kRoom, n - i);
      std::memcpy(room(part), from + i, part * 4);
      wrote(part);
    }
  }

 private:
  static constexpr int64_t kStage = 2 * kRoom;
  void flush() {
    int64_t done = min(held_, (64 - (reinterpret_cast<uintptr_t>(to_) & 63)) / 4 & 15);
    std::memcpy(to_, stage_, done * 4);
    for (; done + 16 <= held_; done += 16)
      for (int k = 0; k < 16; k += W) stream(to_ + done + k, vload(stage_ + done + k), Full{});
    to_ += done;
    held_ -= done;
    std::memmove(stage_, stage_ + done, held_ * 4);
  }
  float* to_;
  int64_t held_ = 0;
  alignas(64) float stage_[kStreamed ? kStage + 64 : 1];
};

}  // namespace kw
