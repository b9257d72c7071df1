// How fast this processor computes functions, gets fresh memory and reaches pages: what a bound by peaks leaves out.
#include <sys/mman.h>

#include "vector.h"

using namespace kw;

namespace {

constexpr int kVectors = 64;  // in and out, within the first cache

// So many elements on one thread, by the time of which cores that share nothing are known.
template <class Function> void each(int64_t elements, float low, float high, Function function) {
  constexpr int kCount = kVectors * W;
  F in[kVectors], out[kVectors];
  for (int i = 0; i < kCount; ++i) in[i / W][i % W] = low + (high - low) * ((i * 37) % kCount) / kCount;
  for (int64_t round = 0; round < elements / kCount; ++round) {
    for (int i = 0; i < kVectors; ++i) out[i] = function(in[i]);
    asm volatile("" : : "r"(out), "r"(in) : "memory");
  }
}

}  // namespace

#define RATE(name, low, high, value)                                                   \
  KW_KERNEL(name##_rate) {                                                             \
    each(args.integer(0), low, high, [](F x) __attribute__((always_inline)) { return value; });            \
  }

RATE(exp, -8, 8, exp(x))
RATE(exp2, -8, 8, exp2(x))
RATE(expm1, -8, 8, expm1(x))
RATE(log, 0.1f, 9, log(x))
RATE(log2, 0.1f, 9, log2(x))
RATE(log10, 0.1f, 9, log10(x))
RATE(log1p, 0.1f, 9, log1p(x))
RATE(tanh, -4, 4, tanh(x))
RATE(erf, -4, 4, erf(x))
RATE(sigmoid, -8, 8, sigmoid(x))
RATE(silu, -8, 8, silu(x))
RATE(gelu, -4, 4, gelu(x))
RATE(gelu_tanh, -4, 4, gelu_tanh(x))
RATE(softplus, -8, 8, softplus(x, 1.0f, 20.0f))
RATE(mish, -8, 8, mish(x))
RATE(div, 1, 9, 3.0f / x)
RATE(sqrt, 1, 9, sqrt(x))
RATE(pow, 1, 9, pow(x, splat(1.7f)))
RATE(sin, -3, 3, sin(x))
RATE(cos, -3, 3, cos(x))

// Maps so many bytes, writes one word of each page, and gives them back: on one thread, and as kernels do it, which ask
// for large pages. What is mapped begins and ends within such a page, as what `malloc` maps does.
KW_KERNEL(fresh_memory) {
  const int64_t bytes = args.integer(0);
  void* memory = mmap(nullptr, bytes + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  KW_REQUIRE(memory != MAP_FAILED, "no memory to map");
  ask_large_pages(memory, bytes);
  volatile char* page = static_cast<char*>(memory);
  for (int64_t i = 0; i < bytes; i += 4096) page[i] = 1;
  munmap(memory, bytes + 4096);
}

// Reads a word at so many random places of a tensor, each likely on a page whose address no table of the processor
// holds: what a row of a large table costs besides its bytes.
KW_KERNEL(random_pages) {
  const auto memory = args.tensor<const float>(0);
  const int64_t count = args.integer(1);
  uint64_t at = 1;
  float sums[8] = {};
  for (int64_t i = 0; i < count; ++i) {
    at = at * 6364136223846793005u + 1442695040888963407u;
    sums[i % 8] += memory.data()[(at >> 33) % uint64_t(memory.numel())];
  }
  asm volatile("" : : "r"(sums) : "memory");
}

// What a call costs that does nothing.
KW_KERNEL(nothing) { KW_REQUIRE(args.tensor<const float>(0).ndim() == 1, "a vector"); }
