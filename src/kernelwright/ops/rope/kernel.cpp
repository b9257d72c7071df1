// Rotary embedding of queries and keys in one call: angles are read once for all heads of a few positions.
//
// Every element is read once and written once. Tensors may be views, as those of one projection are: only the elements
// of a head lie side by side.
#include "parts.h"
#include "stream_map.h"

namespace kw {
namespace {

constexpr int64_t kPositions = 16;  // whose angles are held while all heads are turned

constexpr int64_t kMostStaged = 1024;  // elements of a head that is staged in the nearest cache, then streamed

// (batch, length, heads, size) in whatever order, by its strides.
template <class T> struct Heads {
  const T* from;
  T* to;
  int64_t heads, batch, position, head;              // elements from one to the next, of `from`
  int64_t to_batch, to_position, to_head;            // and of `to`
};

struct Angles {
  const DLTensor *cos, *sin;
  void (*read)(const DLTensor*, int64_t, int64_t, float, float*);  // `read_row` of the tables' type
  const int64_t* positions;  // [batch, length], or none: from 0
  int64_t half, size;        // pairs that are turned, elements of a head
  float sign;
};

template <bool NEIGHBOURS, class T>
KW_INLINE void turn_head(const T* from, T* to, const float* cos, const float* sin, const Angles& angles) {
  const int64_t half = angles.half;
  sweep<2>(0, half, [&](int64_t j, auto lanes, int) KW_INLINED {
    const F a = load_part<NEIGHBOURS>(from, 0, j, half, lanes), b = load_part<NEIGHBOURS>(from, 1, j, half, lanes);
    const F c = load(cos + j, lanes), s = load(sin + j, lanes);
    store_parts<NEIGHBOURS>(to, j, half, fma(a, c, -(b * s)), fma(b, c, a * s), lanes);
  });
  sweep<2>(2 * half, angles.size, [&](int64_t j, auto lanes, int) KW_INLINED {
    store(to + j, load(from + j, lanes), lanes);
  });
}

// Row `position` of a table of angles as floats.
template <class T> void read_row(const DLTensor* table, int64_t position, int64_t half, float sign, float* to) {
  const T* from = Tensor<const T>(table).data() + position * half;
  sweep<1>(0, half, [&](int64_t j, auto lanes, int) KW_INLINED { store(to + j, load(from + j, lanes) * sign, lanes); });
}

template <bool NEIGHBOURS, bool STREAM, class T>
void turn(const Heads<T> (&tensors)[2], int64_t batches, int64_t length, bool heads_first, const Angles& angles) {
  const int64_t blocks = (length + kPositions - 1) / kPositions, half = angles.half;
  const int64_t work = batches * length * (tensors[0].heads + tensors[1].heads) * angles.size;
  in_shares(batches * blocks, 2 * work, 1, [&](int64_t begin, int64_t end) {
    const std::unique_ptr<float[]> held(new float[static_cast<size_t>(2 * kPositions * half + 1)]);
    alignas(kLine) T stage[STREAM ? kMostStaged : 1];  // a head
    float *cos = held.get(), *sin = held.get() + kPositions * half;
    for (int64_t item = begin; item < end; ++item) {
      const int64_t batch = item / blocks, first = item % blocks * kPositions;
      const int64_t count = std::min(kPositions, length - first);
      for (int64_t p = 0; p < count; ++p) {
        const int64_t row = angles.positions ? angles.positions[batch * length + first + p] : first + p;
        angles.read(angles.cos, row, half, 1.0f, cos + p * half);
        angles.read(angles.sin, row, half, angles.sign, sin + p * half);
      }
      for (const Heads<T>& t : tensors) {
        const int64_t outer = heads_first ? t.heads : count, inner = heads_first ? count : t.heads;
        for (int64_t i = 0; i < outer; ++i)
          for (int64_t j = 0; j < inner; ++j) {
            const int64_t p = heads_first ? j : i, h = heads_first ? i : j;
            const T* from = t.from + batch * t.batch + (first + p) * t.position + h * t.head;
            T* to = t.to + batch * t.to_batch + (first + p) * t.to_position + h * t.to_head;
            turn_head<NEIGHBOURS>(from, STREAM ? stage : to, cos + p * half, sin + p * half, angles);
            if constexpr (STREAM) stream_bytes(to, stage, angles.size * int64_t(sizeof(T)));
          }
      }
    }
  });
}

template <class T> Heads<T> heads_of(const Args& args, int from, int to, bool heads_first) {
  const auto x = args.tensor<const T>(from);
  const auto out = args.tensor<T>(to);
  const int length = heads_first ? 2 : 1, heads = heads_first ? 1 : 2;
  if (x.shape(3) > 1 && x.stride(3) != 1) KW_UNSUPPORTED("the elements of a head are not side by side");
  ask_large_pages(out.data(), out.numel() * int64_t(sizeof(T)));
  return {x.data(), out.data(), x.shape(heads), x.stride(0), x.stride(length), x.stride(heads),
          out.stride(0), out.stride(length), out.stride(heads)};
}

void check_positions(const Angles& angles, int64_t count, int64_t rows, int64_t length) {
  char text[128];
  int64_t wrong = 0;
  bool found = !angles.positions && length > rows;
  if (found) wrong = length - 1;
  for (int64_t i = 0; angles.positions && i < count; ++i) {
    if (angles.positions[i] < 0 || angles.positions[i] >= rows) found = true, wrong = angles.positions[i];
  }
  if (!found) return;
  snprintf(text, sizeof text, "rope.rope: positions is %lld somewhere; expected 0 to %lld, the rows of cos",
                static_cast<long long>(wrong), static_cast<long long>(rows - 1));
  raise("ValueError", "", text);
}

}  // namespace
}  // namespace kw

// q, k, cos, sin, positions or none, interleaved, heads first, inverse; q and k turned
KW_KERNEL(rope) {
  const bool interleaved = args.boolean(5), heads_first = args.boolean(6);
  kw::Angles angles{};
  const auto tables = [&](auto type) {
    using A = decltype(type);
    angles.cos = args.tensor<const A>(2).dl(), angles.sin = args.tensor<const A>(3).dl(), angles.read = kw::read_row<A>;
  };
  if (args.is<float>(2)) tables(float{});
  else tables(kw::bfloat16{});
  const auto run = [&](auto type) {
    using T = decltype(type);
    const auto q = args.tensor<const T>(0);
    const kw::Tensor<const char> cos(angles.cos), sin(angles.sin);
    if (!cos.contiguous() || !sin.contiguous()) KW_UNSUPPORTED("cos or sin is not contiguous");
    const int64_t batches = q.shape(0), length = q.shape(heads_first ? 2 : 1);
    const int64_t* positions = args.is_none(4) ? nullptr : args.tensor<const int64_t>(4).data();
    angles.positions = positions, angles.half = cos.shape(1), angles.size = q.shape(3);
    angles.sign = args.boolean(7) ? -1.0f : 1.0f;
    kw::check_positions(angles, batches * length, cos.shape(0), length);
    const kw::Heads<T> tensors[2] = {kw::heads_of<T>(args, 0, 8, heads_first), kw::heads_of<T>(args, 1, 9, heads_first)};
    const bool whole = angles.size * sizeof(T) % kw::kLine == 0 && angles.size <= kw::kMostStaged;
    const auto aligned = [](const void* p) { return reinterpret_cast<uintptr_t>(p) % kw::kLine == 0; };
    const bool streamed = whole && aligned(tensors[0].to) && aligned(tensors[1].to) && kw::streams(q.numel(), tensors[0].to);
    const auto with = [&](auto neighbours, auto stream) {
      kw::turn<neighbours.value, stream.value, T>(tensors, batches, length, heads_first, angles);
    };
    const auto by_size = [&](auto neighbours) {
      if (streamed) with(neighbours, std::true_type{});
      else with(neighbours, std::false_type{});
    };
    if (interleaved) by_size(std::true_type{});
    else by_size(std::false_type{});
  };
  if (args.is<float>(0)) run(float{});
  else run(kw::bfloat16{});
}
