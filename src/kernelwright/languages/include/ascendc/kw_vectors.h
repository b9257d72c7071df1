// kw_vectors.h: instructions of the vector pipe, element by element. Part of kernel_operator.h, inside its namespace.
//
// An instruction takes its first `count` elements; or as many repeats as it is told, of 8 blocks of 32 bytes each, whose
// starts `...BlkStride` and `...RepStride` give, and in each repeat the elements that the mask names. What is written in
// one repeat may not be read in a later one, and what is written may overlap what is read in the same repeat only wholly.
//
// Source: Ascend C API reference, "Vector Computation" (types for Atlas A2), "High-dimensional Sharding", "Mask",
// "SetVectorMask", "General Restrictions" (overlaps), "Cast".

struct UnaryRepeatParams {
  UnaryRepeatParams() = default;
  UnaryRepeatParams(uint16_t dst_block, uint16_t src_block, uint8_t dst_repeat, uint8_t src_repeat)
      : dstBlkStride(dst_block), srcBlkStride(src_block), dstRepStride(dst_repeat), srcRepStride(src_repeat) {}
  uint16_t dstBlkStride = 1, srcBlkStride = 1;
  uint8_t dstRepStride = 8, srcRepStride = 8;
};
struct BinaryRepeatParams {
  BinaryRepeatParams() = default;
  BinaryRepeatParams(uint8_t dst_block, uint8_t src0_block, uint8_t src1_block, uint8_t dst_repeat, uint8_t src0_repeat,
                     uint8_t src1_repeat)
      : dstBlkStride(dst_block), src0BlkStride(src0_block), src1BlkStride(src1_block), dstRepStride(dst_repeat),
        src0RepStride(src0_repeat), src1RepStride(src1_repeat) {}
  uint8_t dstBlkStride = 1, src0BlkStride = 1, src1BlkStride = 1, dstRepStride = 8, src0RepStride = 8, src1RepStride = 8;
};
enum class MaskMode : uint8_t { NORMAL = 0, COUNTER };
constexpr uint64_t MASK_PLACEHOLDER = 0;

inline void SetMaskNorm() { core()->counter = false; }
inline void SetMaskCount() { core()->counter = true; }
template <typename T, MaskMode mode = MaskMode::NORMAL>
void SetVectorMask(uint64_t high, uint64_t low) {
  core()->mask[0] = low;
  core()->mask[1] = high;
}
namespace detail {
constexpr uint64_t first_bits(int64_t n) { return n <= 0 ? 0 : n >= 64 ? ~0ull : (1ull << n) - 1; }
}
template <typename T, MaskMode mode = MaskMode::NORMAL>
void SetVectorMask(int32_t count) {
  const bool counts = mode == MaskMode::COUNTER;
  core()->mask[0] = counts ? static_cast<uint64_t>(count) : detail::first_bits(count);
  core()->mask[1] = counts ? 0 : detail::first_bits(count - 64);
}
inline void ResetMask() { core()->mask[0] = core()->mask[1] = ~0ull; }

namespace detail {
template <typename T>
constexpr bool computes() {
  return std::is_same<T, float>::value || std::is_same<T, half>::value || std::is_same<T, int32_t>::value ||
         std::is_same<T, int16_t>::value;
}
template <typename T>
constexpr bool floats() {
  return std::is_same<T, float>::value || std::is_same<T, half>::value;
}
template <typename T>
constexpr bool integers() {
  return std::is_integral<T>::value && (sizeof(T) == 2 || sizeof(T) == 4);
}
template <typename T>
constexpr bool bits16() {
  return std::is_same<T, int16_t>::value || std::is_same<T, uint16_t>::value;
}

// Which elements take part, in repeats of `lanes`.
struct Part {
  uint32_t lanes, repeats;
  int64_t count;     // of the whole instruction; below 0: `bits` say it for each repeat
  uint64_t bits[2];
  bool has(uint32_t repeat, uint32_t lane) const {
    return count >= 0 ? int64_t{repeat} * lanes + lane < count : (bits[lane / 64] >> (lane % 64)) & 1;
  }
};
constexpr uint32_t lanes_of(size_t size) { return kw::ascend::kRepeat / static_cast<uint32_t>(size); }
inline Part part_of_count(uint32_t lanes, int64_t count, Where at, const char* what) {
  if (count < 0) fault("length", at, "%s of %lld elements", what, static_cast<long long>(count));
  return {lanes, static_cast<uint32_t>((count + lanes - 1) / lanes), count, {0, 0}};
}
inline Part part_of_bits(uint32_t lanes, uint64_t low, uint64_t high, uint32_t repeats, Where at, const char* what) {
  if ((lanes < 64 && low >> (lanes % 64)) || (lanes <= 64 && high && high != ~0ull))
    fault("mask", at, "%s: the mask names elements beyond the %u of a repeat", what, lanes);
  return {lanes, low || high ? repeats : 0, -1, {low, lanes <= 64 ? 0 : high}};
}
template <bool set_here>
Part part_of(uint32_t lanes, uint64_t mask, uint32_t repeats, Where at, const char* what) {
  const uint64_t* state = core()->mask;
  if (!set_here && core()->counter) return part_of_count(lanes, static_cast<int64_t>(state[0]), at, what);
  if (!set_here) return part_of_bits(lanes, state[0], state[1], repeats, at, what);
  if (mask > lanes) fault("mask", at, "%s: a mask of %llu elements, of the %u of a repeat", what, static_cast<unsigned long long>(mask), lanes);
  return part_of_bits(lanes, first_bits(static_cast<int64_t>(mask)), first_bits(static_cast<int64_t>(mask) - 64), repeats, at, what);
}
template <bool set_here>
Part part_of(uint32_t lanes, const uint64_t* mask, uint32_t repeats, Where at, const char* what) {
  return set_here ? part_of_bits(lanes, mask[0], lanes > 64 ? mask[1] : 0, repeats, at, what)
                  : part_of<false>(lanes, uint64_t{0}, repeats, at, what);
}

// An operand: a tensor, and where its blocks and repeats start, in units of 32 bytes.
template <typename T>
struct Operand {
  const LocalTensor<T>& tensor;
  uint32_t block, repeat;
  bool adds_up = false;  // may be what an earlier repeat wrote, as a running sum is
  uint32_t at(uint32_t r, uint32_t lane) const {
    constexpr uint32_t in_block = kBlock / sizeof(T);
    return (r * repeat + lane / in_block * block) * kBlock + lane % in_block * static_cast<uint32_t>(sizeof(T));
  }
  bool dense(uint32_t lanes) const { return block == 1 && repeat * kBlock == lanes * sizeof(T); }
  const LocalTensor<T>& checked(Where where, const char* what) const {
    return tensor.in(kw::ascend::UB, where, what).aligned(where, what);
  }
  const T& read(uint32_t r, uint32_t lane, Where where, const char* what) const {
    const LocalTensor<T> one = tensor.at_byte(at(r, lane));
    const T* value = one.read(kw::ascend::V, sizeof(T), where, what, true);
    if (!adds_up && core()->just_written(kw::ascend::V, one.address()))
      fault("overlap", where, "%s reads in a repeat what an earlier repeat of it writes", what);
    return *value;
  }
  bool known(uint32_t r, uint32_t lane) const { return core()->known(tensor.address() + at(r, lane), sizeof(T)); }
};

// What is written may be what is read, and within one repeat all or nothing of it.
template <typename To, typename From>
void overlap(const Part& part, const Operand<To>& to, const Operand<From>& from, Where where, const char* what) {
  const int64_t apart = int64_t{to.tensor.address()} - int64_t{from.tensor.address()}, count = part.count;
  const int64_t reaches = apart > 0 ? count * int64_t{sizeof(From)} : count * int64_t{sizeof(To)};
  const bool same = apart == 0 && sizeof(To) <= sizeof(From);
  if (!same && std::abs(apart) < reaches && apart > -int64_t{kw::ascend::kRepeat})
    fault("overlap", where, "%s writes what it reads %lld bytes away: the tensors must be the same or not overlap", what,
          static_cast<long long>(apart));
}

// Runs `lane` on the elements of every repeat: all of a repeat are read, then all are written. What comes of elements that
// nobody wrote is nobody's either: kernels compute on whole blocks, and store the part that counts.
template <typename To, typename Lane, typename... From>
void elementwise(const Part& part, Where where, const char* what, const Lane& lane, const Operand<To>& to,
                 const Operand<From>&... from) {
  core()->issue(kw::ascend::V, where, what);
  to.checked(where, what);
  (from.checked(where, what), ...);
  if (!part.repeats) return;
  if (part.count >= 0 && to.dense(part.lanes) && (from.dense(part.lanes) && ...)) {
    const auto n = static_cast<uint32_t>(part.count);
    (overlap(part, to, from, where, what), ...);
    const std::tuple<const From*...> x{from.tensor.read(kw::ascend::V, n * sizeof(From), where, what, true)...};
    std::vector<uint32_t> doubtful;
    if (!(core()->known(from.tensor.address(), n * sizeof(From)) && ...))
      for (uint32_t i = 0; i < n; ++i)
        if (!(from.known(i / part.lanes, i % part.lanes) && ...)) doubtful.push_back(i);
    To* out = to.tensor.write(kw::ascend::V, n * sizeof(To), where, what);
    for (uint32_t i = 0; i < n; ++i) out[i] = std::apply([&](const From*... one) { return lane(one[i]...); }, x);
    for (uint32_t i : doubtful) core()->doubt(to.tensor.address() + to.at(i / part.lanes, i % part.lanes), sizeof(To), where);
    return;
  }
  if (part.repeats > 255) fault("length", where, "%s with %u repeats, of at most 255", what, part.repeats);
  To results[kw::ascend::kRepeat];
  bool known[kw::ascend::kRepeat];
  for (uint32_t r = 0; r < part.repeats; ++r) {
    for (uint32_t i = 0; i < part.lanes; ++i) {
      if (!part.has(r, i)) continue;
      results[i] = lane(from.read(r, i, where, what)...);
      known[i] = (from.known(r, i) && ...);
    }
    for (uint32_t i = 0; i < part.lanes; ++i) {
      if (!part.has(r, i)) continue;
      const LocalTensor<To> at = to.tensor.at_byte(to.at(r, i));
      *at.write(kw::ascend::V, sizeof(To), where, what) = results[i];
      if (!known[i]) core()->doubt(at.address(), sizeof(To), where);
    }
  }
}
template <typename T>
Operand<T> dense(const LocalTensor<T>& tensor, uint32_t lanes) {
  return {tensor, 1, lanes * static_cast<uint32_t>(sizeof(T)) / kBlock};
}

// The three forms of an instruction, by what tells the elements.
template <typename T, typename Lane>
void binary(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, const Part& part,
            const BinaryRepeatParams& by, bool sums, Where at, const char* what, const Lane& lane) {
  const bool adds_up = sums && dst.address() == src1.address() && (!by.src1RepStride || !by.dstRepStride);
  elementwise(part, at, what, lane, Operand<T>{dst, by.dstBlkStride, by.dstRepStride},
              Operand<T>{src0, by.src0BlkStride, by.src0RepStride},
              Operand<T>{src1, by.src1BlkStride, by.src1RepStride, adds_up});
}
template <typename To, typename From, typename Lane>
void unary(const LocalTensor<To>& dst, const LocalTensor<From>& src, const Part& part, const UnaryRepeatParams& by, Where at,
           const char* what, const Lane& lane) {
  elementwise(part, at, what, lane, Operand<To>{dst, by.dstBlkStride, by.dstRepStride},
              Operand<From>{src, by.srcBlkStride, by.srcRepStride});
}
template <typename To, typename From, typename Lane>
void unary(const LocalTensor<To>& dst, const LocalTensor<From>& src, int64_t count, Where at, const char* what,
           const Lane& lane) {
  const uint32_t lanes = lanes_of(std::max(sizeof(To), sizeof(From)));
  elementwise(part_of_count(lanes, count, at, what), at, what, lane, dense(dst, lanes), dense(src, lanes));
}
}  // namespace detail

#define KW_BINARY(Name, takes, sums, expression)                                                                         \
  namespace detail {                                                                                                     \
  template <typename T>                                                                                                  \
  struct Name##Lane {                                                                                                    \
    static_assert(takes<T>(), #Name " does not take this type on Atlas A2");                                             \
    T operator()(T x, T y) const {                                                                                       \
      const typename Wide<T>::type a = x, b = y;                                                                         \
      return static_cast<T>(expression);                                                                                 \
    }                                                                                                                    \
  };                                                                                                                     \
  }                                                                                                                      \
  template <typename T>                                                                                                  \
  void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, int32_t count, KW_AT) {   \
    detail::binary(dst, src0, src1, detail::part_of_count(detail::lanes_of(sizeof(T)), count, KW_HERE, #Name), {}, sums, \
                   KW_HERE, #Name, detail::Name##Lane<T>());                                                             \
  }                                                                                                                      \
  template <typename T, bool isSetMask = true, typename Mask>                                                            \
  void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, Mask mask, uint8_t repeat, \
            const BinaryRepeatParams& by, KW_AT) {                                                                       \
    detail::binary(dst, src0, src1, detail::part_of<isSetMask>(detail::lanes_of(sizeof(T)), mask, repeat, KW_HERE, #Name), \
                   by, sums, KW_HERE, #Name, detail::Name##Lane<T>());                                                   \
  }
#define KW_UNARY_FORMS(Name, lane, parameters, ...)                                                                      \
  template <typename T parameters>                                                                                       \
  void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, __VA_ARGS__ int32_t count, KW_AT) {                    \
    detail::unary(dst, src, count, KW_HERE, #Name, lane);                                                                \
  }                                                                                                                      \
  template <typename T, bool isSetMask = true parameters, typename Mask>                                                 \
  void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, __VA_ARGS__ Mask mask, uint8_t repeat,                 \
            const UnaryRepeatParams& by, KW_AT) {                                                                        \
    detail::unary(dst, src, detail::part_of<isSetMask>(detail::lanes_of(sizeof(T)), mask, repeat, KW_HERE, #Name), by,   \
                  KW_HERE, #Name, lane);                                                                                 \
  }
#define KW_COMMA ,
#define KW_SCALAR(Name, takes, expression)                                                                               \
  namespace detail {                                                                                                     \
  template <typename T>                                                                                                  \
  struct Name##Lane {                                                                                                    \
    static_assert(takes<T>(), #Name " does not take this type on Atlas A2");                                             \
    typename Wide<T>::type b;                                                                                            \
    T operator()(T x) const {                                                                                            \
      const typename Wide<T>::type a = x;                                                                                \
      return static_cast<T>(expression);                                                                                 \
    }                                                                                                                    \
  };                                                                                                                     \
  }                                                                                                                      \
  KW_UNARY_FORMS(Name, detail::Name##Lane<T>{static_cast<T>(scalar)}, KW_COMMA typename U, U scalar, )
#define KW_UNARY(Name, takes, expression)                                                                                \
  namespace detail {                                                                                                     \
  template <typename T>                                                                                                  \
  struct Name##Lane {                                                                                                    \
    static_assert(takes<T>(), #Name " does not take this type on Atlas A2");                                             \
    T operator()(T x) const {                                                                                            \
      const typename Wide<T>::type a = x;                                                                                \
      return static_cast<T>(expression);                                                                                 \
    }                                                                                                                    \
  };                                                                                                                     \
  }                                                                                                                      \
  KW_UNARY_FORMS(Name, detail::Name##Lane<T>{}, , )
KW_BINARY(Add, computes, true, a + b)
KW_BINARY(Sub, computes, true, a - b)
KW_BINARY(Mul, computes, true, a * b)
KW_BINARY(Div, floats, false, a / b)
KW_BINARY(Max, computes, true, a < b ? b : a)
KW_BINARY(Min, computes, true, b < a ? b : a)
KW_BINARY(And, bits16, false, a & b)
KW_BINARY(Or, bits16, false, a | b)
KW_SCALAR(Adds, computes, a + b)
KW_SCALAR(Muls, computes, a * b)
KW_SCALAR(Maxs, computes, a < b ? b : a)
KW_SCALAR(Mins, computes, b < a ? b : a)
KW_SCALAR(LeakyRelu, floats, a < 0 ? a * b : a)
KW_SCALAR(ShiftLeft, integers, static_cast<std::make_unsigned_t<T>>(a) << b)
KW_SCALAR(ShiftRight, integers, a >> b)
KW_UNARY(Abs, floats, a < 0 ? -a : a)
KW_UNARY(Exp, floats, expf(a))
KW_UNARY(Ln, floats, logf(a))
KW_UNARY(Sqrt, floats, sqrtf(a))
KW_UNARY(Rsqrt, floats, 1 / sqrtf(a))
KW_UNARY(Reciprocal, floats, 1 / a)
KW_UNARY(Relu, floats, a < 0 ? 0 : a)
KW_UNARY(Not, bits16, ~a)
#undef KW_BINARY
#undef KW_SCALAR
#undef KW_UNARY

template <typename T, typename U>
void Axpy(const LocalTensor<T>& dst, const LocalTensor<U>& src, U scalar, int32_t count, KW_AT) {
  static_assert(detail::floats<T>() && detail::floats<U>() && sizeof(U) <= sizeof(T), "Axpy takes float and half");
  const uint32_t lanes = detail::lanes_of(sizeof(T));
  detail::elementwise(detail::part_of_count(lanes, count, KW_HERE, "Axpy"), KW_HERE, "Axpy",
                      [scalar](T before, U x) {
                        return static_cast<T>(static_cast<float>(x) * static_cast<float>(scalar) + static_cast<float>(before));
                      },
                      detail::dense(dst, lanes), detail::dense(dst, lanes), detail::dense(src, lanes));
}

template <typename T, typename U>
void Duplicate(const LocalTensor<T>& dst, U value, int32_t count, KW_AT) {
  const uint32_t lanes = detail::lanes_of(sizeof(T));
  detail::elementwise(detail::part_of_count(lanes, count, KW_HERE, "Duplicate"), KW_HERE, "Duplicate",
                      [value] { return static_cast<T>(value); }, detail::dense(dst, lanes));
}
template <typename T, bool isSetMask = true, typename U, typename Mask>
void Duplicate(const LocalTensor<T>& dst, U value, Mask mask, uint8_t repeat, uint16_t dst_block, uint8_t dst_repeat, KW_AT) {
  detail::elementwise(detail::part_of<isSetMask>(detail::lanes_of(sizeof(T)), mask, repeat, KW_HERE, "Duplicate"), KW_HERE,
                      "Duplicate", [value] { return static_cast<T>(value); },
                      detail::Operand<T>{dst, dst_block, dst_repeat});
}

struct CopyRepeatParams {
  CopyRepeatParams() = default;
  CopyRepeatParams(uint16_t dst_block, uint16_t src_block, uint16_t dst_repeat, uint16_t src_repeat)
      : dstStride(dst_block), srcStride(src_block), dstRepeatSize(dst_repeat), srcRepeatSize(src_repeat) {}
  uint16_t dstStride = 1, srcStride = 1, dstRepeatSize = 8, srcRepeatSize = 8;
};
template <typename T, bool isSetMask = true, typename Mask>
void Copy(const LocalTensor<T>& dst, const LocalTensor<T>& src, Mask mask, uint8_t repeat, const CopyRepeatParams& by, KW_AT) {
  static_assert(sizeof(T) == 2 || sizeof(T) == 4, "Copy takes types of 16 and 32 bits");
  detail::elementwise(detail::part_of<isSetMask>(detail::lanes_of(sizeof(T)), mask, repeat, KW_HERE, "Copy"), KW_HERE, "Copy",
                      [](T x) { return x; }, detail::Operand<T>{dst, by.dstStride, by.dstRepeatSize},
                      detail::Operand<T>{src, by.srcStride, by.srcRepeatSize});
}

template <typename T>
void FusedMulAdd(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, int32_t count, KW_AT) {
  static_assert(detail::floats<T>(), "FusedMulAdd takes float and half");
  const uint32_t lanes = detail::lanes_of(sizeof(T));
  detail::elementwise(detail::part_of_count(lanes, count, KW_HERE, "FusedMulAdd"), KW_HERE, "FusedMulAdd",
                      [](T before, T x, T y) {
                        return static_cast<T>(static_cast<float>(x) * static_cast<float>(before) + static_cast<float>(y));
                      },
                      detail::dense(dst, lanes), detail::dense(dst, lanes), detail::dense(src0, lanes),
                      detail::dense(src1, lanes));
}

// Elements by their distance from `start` in bytes.
template <typename T>
void Gather(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& offsets, uint32_t start,
            uint32_t count, KW_AT) {
  static_assert(sizeof(T) == 2 || sizeof(T) == 4, "Gather takes types of 16 and 32 bits");
  constexpr auto kV = kw::ascend::V;
  core()->issue(kV, KW_HERE, "Gather");
  dst.in(kw::ascend::UB, KW_HERE, "Gather").aligned(KW_HERE, "Gather");
  src.in(kw::ascend::UB, KW_HERE, "Gather").aligned(KW_HERE, "Gather");
  offsets.in(kw::ascend::UB, KW_HERE, "Gather").aligned(KW_HERE, "Gather");
  constexpr uint32_t kLanes = detail::lanes_of(sizeof(T));
  for (uint32_t first = 0; first < count; first += kLanes) {
    const uint32_t n = std::min(kLanes, count - first);
    const uint32_t* places = offsets[first].read(kV, n * sizeof(uint32_t), KW_HERE, "Gather");
    T found[kLanes];
    bool known[kLanes];
    for (uint32_t i = 0; i < n; ++i) {
      const uint32_t at = start + places[i];
      if (at % sizeof(T))
        fault("misaligned", KW_HERE, "Gather of element %u takes byte %u, no multiple of %zu", first + i, at, sizeof(T));
      const detail::Operand<T> one{src.at_byte(at), 1, 8};
      found[i] = one.read(0, 0, KW_HERE, "Gather");
      known[i] = one.known(0, 0);
    }
    T* out = dst[first].write(kV, n * sizeof(T), KW_HERE, "Gather");
    for (uint32_t i = 0; i < n; ++i) {
      out[i] = found[i];
      if (!known[i]) core()->doubt(dst[first + i].address(), sizeof(T), KW_HERE);
    }
  }
}

#include "kw_cast.h"
