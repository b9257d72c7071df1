// kw_reductions.h: reductions, comparisons, selection, broadcast of the vector pipe. Part of kernel_operator.h, inside its
// namespace.
//
// Source: Ascend C API reference, "ReduceSum" (the order of its sums: a tree in each 256 bytes, one after the other),
// "WholeReduceSum", "BlockReduceSum", "PairReduceSum" (the units of dstRepStride, alignment, what a mask leaves out),
// "Compare", "Select", "Brcb".

enum class ReduceOrder : uint8_t { ORDER_VALUE_INDEX, ORDER_INDEX_VALUE, ORDER_ONLY_VALUE, ORDER_ONLY_INDEX };
enum class CMPMODE : uint8_t { LT = 0, GT, EQ, LE, GE, NE };
enum class SELMODE : uint8_t { VSEL_CMPMASK_SPR = 0, VSEL_TENSOR_SCALAR_MODE, VSEL_TENSOR_TENSOR_MODE };
struct BrcbRepeatParams {
  BrcbRepeatParams() = default;
  BrcbRepeatParams(uint16_t block, uint16_t repeat) : dstBlkStride(block), dstRepStride(repeat) {}
  uint16_t dstBlkStride = 1, dstRepStride = 8;
};

namespace detail {
struct SumOf {
  template <typename T>
  static T of(T x, T y) { return static_cast<T>(static_cast<float>(x) + static_cast<float>(y)); }
};
struct MaxOf {
  template <typename T>
  static T of(T x, T y) { return static_cast<float>(x) < static_cast<float>(y) ? y : x; }
};
struct MinOf {
  template <typename T>
  static T of(T x, T y) { return static_cast<float>(y) < static_cast<float>(x) ? y : x; }
};
template <typename Fold, typename T>
T tree(std::vector<T> row) {
  while (row.size() > 1) {
    std::vector<T> next;
    for (size_t i = 0; i < row.size(); i += 2) next.push_back(i + 1 < row.size() ? Fold::of(row[i], row[i + 1]) : row[i]);
    row.swap(next);
  }
  return row[0];
}
template <typename T>
T index_as(uint32_t index) {  // an index is stored by its bits
  T value;
  memcpy(&value, &index, sizeof(value));
  return value;
}
template <typename T>
void one_index(const LocalTensor<T>& dst, T found, uint32_t index, Where at, const char* what) {
  T* to = dst.write(kw::ascend::V, 2 * sizeof(T), at, what);
  to[0] = found;
  to[1] = index_as<T>(index);
}

template <typename Fold, typename T>
void reduce(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& work, int32_t count, bool index,
            Where at, const char* what) {
  static_assert(floats<T>(), "reductions take float and half");
  if (count < 1) fault("length", at, "%s of %d elements", what, count);
  core()->issue(kw::ascend::V, at, what);
  const T* x = Operand<T>{src, 1, 8}.checked(at, what).read(kw::ascend::V, static_cast<uint32_t>(count) * sizeof(T), at, what);
  work.aligned(at, what).write(kw::ascend::V, sizeof(T), at, what, false);
  constexpr int32_t lanes = kw::ascend::kRepeat / sizeof(T);
  T total = T();
  for (int32_t begin = 0; begin < count; begin += lanes) {
    const T part = tree<Fold>(std::vector<T>(x + begin, x + std::min(count, begin + lanes)));
    total = begin ? Fold::of(total, part) : part;
  }
  if (index) {
    const T* found = std::find_if(x, x + count, [&](T one) { return static_cast<float>(one) == static_cast<float>(total); });
    one_index(dst, total, static_cast<uint32_t>(found - x), at, what);
  } else {
    *dst.write(kw::ascend::V, sizeof(T), at, what) = total;
  }
}

// The same over repeats of masked elements: the index counts from the first of `src`.
template <typename Fold, typename T>
void reduce_repeats(const LocalTensor<T>& dst, const Operand<T>& src, const LocalTensor<T>& work, const Part& part, bool index,
                    Where at, const char* what) {
  static_assert(floats<T>(), "reductions take float and half");
  if (index && !src.dense(part.lanes) && part.repeats > 1)
    fault("not-executed", at, "%s with an index, of repeats that do not stand side by side", what);
  core()->issue(kw::ascend::V, at, what);
  src.checked(at, what);
  work.aligned(at, what).write(kw::ascend::V, sizeof(T), at, what, false);
  bool any = false;
  T total = T();
  uint32_t where = 0;
  for (uint32_t r = 0; r < part.repeats; ++r)
    for (uint32_t lane = 0; lane < part.lanes; ++lane) {
      if (!part.has(r, lane)) continue;
      const T one = src.read(r, lane, at, what), next = any ? Fold::of(total, one) : one;
      if (!any || static_cast<float>(next) != static_cast<float>(total)) where = r * part.lanes + lane;
      total = next, any = true;
    }
  if (!any) fault("length", at, "%s of no element", what);
  if (index) return one_index(dst, total, where, at, what);
  *dst.write(kw::ascend::V, sizeof(T), at, what) = total;
}

// One result for each `piece` of elements in each repeat, of those that the mask names; `store(repeat, piece, row, first)`.
template <typename T, typename Store>
void pieces(const Part& part, const Operand<T>& src, uint32_t piece, Where at, const char* what, const Store& store) {
  static_assert(floats<T>(), "reductions take float and half");
  core()->issue(kw::ascend::V, at, what);
  src.checked(at, what);
  for (uint32_t r = 0; r < part.repeats; ++r)
    for (uint32_t begin = 0; begin < part.lanes; begin += piece) {
      std::vector<T> row;
      std::vector<uint32_t> lanes;
      for (uint32_t i = begin; i < begin + piece; ++i)
        if (part.has(r, i)) row.push_back(src.read(r, i, at, what)), lanes.push_back(i);
      if (!row.empty()) store(r, begin / piece, row, lanes);
    }
}
template <typename Fold, typename T>
void whole_reduce(const LocalTensor<T>& dst, const Operand<T>& src, const Part& part, uint32_t stride, ReduceOrder order,
                  Where at, const char* what) {
  const bool both = order == ReduceOrder::ORDER_VALUE_INDEX || order == ReduceOrder::ORDER_INDEX_VALUE;
  const uint32_t unit = order == ReduceOrder::ORDER_ONLY_INDEX ? 4 : static_cast<uint32_t>(sizeof(T)) * (both ? 2 : 1);
  dst.aligned(at, what, unit);
  kw::ascend::Extreme all;
  all.side_by_side = src.dense(part.lanes) || (src.block == 1 && part.repeats == 1);
  pieces(part, src, part.lanes, at, what, [&](uint32_t r, uint32_t, const std::vector<T>& row, const std::vector<uint32_t>& lanes) {
    const T found = tree<Fold>(row);
    size_t where = 0;
    while (where + 1 < row.size() && static_cast<float>(row[where]) != static_cast<float>(found)) ++where;
    const float value = static_cast<float>(found);
    if (!all.is || Fold::of(all.value, value) != all.value) all.value = value, all.index = r * part.lanes + lanes[where];
    all.is = true;
    T* to = dst.at_byte(r * stride * unit).write(kw::ascend::V, unit, at, what);
    if (order == ReduceOrder::ORDER_ONLY_INDEX) memcpy(to, &lanes[where], 4);
    if (order == ReduceOrder::ORDER_ONLY_VALUE) to[0] = found;
    if (both) to[order == ReduceOrder::ORDER_INDEX_VALUE] = found, to[order == ReduceOrder::ORDER_VALUE_INDEX] = index_as<T>(lanes[where]);
  });
  if (std::is_same<Fold, SumOf>::value) return;
  all.tick = core()->seen[kw::ascend::V].at[kw::ascend::V];
  core()->extreme = all;
}
template <typename Fold, typename T>
void piece_reduce(const LocalTensor<T>& dst, const Operand<T>& src, const Part& part, uint32_t piece, uint32_t stride, Where at,
                  const char* what) {
  const uint32_t results = part.lanes / piece, size = static_cast<uint32_t>(sizeof(T));
  dst.aligned(at, what, std::min(kBlock, results * size));
  pieces(part, src, piece, at, what, [&](uint32_t r, uint32_t i, const std::vector<T>& row, const std::vector<uint32_t>&) {
    *dst.at_byte((r * stride * results + i) * size).write(kw::ascend::V, size, at, what) = tree<Fold>(row);
  });
}
}  // namespace detail

#define KW_REDUCE(Name, Fold, indexed)                                                                                  \
  template <typename T>                                                                                                 \
  void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& work, int32_t count,            \
            bool calIndex = false, KW_AT) {                                                                             \
    detail::reduce<detail::Fold>(dst, src, work, count, calIndex && indexed, KW_HERE, #Name);                           \
  }
#define KW_REDUCE_REPEATS(Name, Fold)                                                                                    \
  template <typename T, typename Mask>                                                                                  \
  void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& work, const Mask& mask,         \
            int32_t repeat, int32_t src_repeat, bool calIndex = false, KW_AT) {                                         \
    detail::reduce_repeats<detail::Fold>(                                                                               \
        dst, detail::Operand<T>{src, 1, static_cast<uint32_t>(src_repeat)}, work,                                       \
        detail::part_of<true>(detail::lanes_of(sizeof(T)), mask, static_cast<uint32_t>(repeat), KW_HERE, #Name),        \
        calIndex, KW_HERE, #Name);                                                                                      \
  }
KW_REDUCE(ReduceSum, SumOf, false)
KW_REDUCE(ReduceMax, MaxOf, true)
KW_REDUCE(ReduceMin, MinOf, true)
KW_REDUCE_REPEATS(ReduceMax, MaxOf)
KW_REDUCE_REPEATS(ReduceMin, MinOf)
#undef KW_REDUCE
#undef KW_REDUCE_REPEATS

#define KW_WHOLE(Name, Fold, default_order)                                                                              \
  template <typename T, bool isSetMask = true, typename Mask>                                                            \
  void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, Mask mask, int32_t repeat, int32_t dst_repeat,         \
            int32_t src_block, int32_t src_repeat, ReduceOrder order = ReduceOrder::default_order, KW_AT) {              \
    detail::whole_reduce<detail::Fold>(                                                                                  \
        dst, detail::Operand<T>{src, static_cast<uint32_t>(src_block), static_cast<uint32_t>(src_repeat)},               \
        detail::part_of<isSetMask>(detail::lanes_of(sizeof(T)), mask, static_cast<uint32_t>(repeat), KW_HERE, #Name),    \
        static_cast<uint32_t>(dst_repeat), order, KW_HERE, #Name);                                                       \
  }
KW_WHOLE(WholeReduceSum, SumOf, ORDER_ONLY_VALUE)
KW_WHOLE(WholeReduceMax, MaxOf, ORDER_VALUE_INDEX)
KW_WHOLE(WholeReduceMin, MinOf, ORDER_VALUE_INDEX)
#undef KW_WHOLE

// The greatest or least element of all repeats of the last WholeReduceMax or WholeReduceMin, and the place where it stands.
template <typename T>
void GetReduceMaxMinCount(T& value, T& index, KW_AT) {
  static_assert(detail::floats<T>(), "GetReduceMaxMinCount takes float and half");
  const kw::ascend::Extreme& found = core()->extreme;
  if (!found.is || !found.side_by_side)
    fault("not-executed", KW_HERE, "GetReduceMaxMinCount after no WholeReduceMax or WholeReduceMin of elements side by side");
  if (core()->seen[kw::ascend::S].at[kw::ascend::V] < found.tick)
    fault("race", KW_HERE, "GetReduceMaxMinCount (pipe S) reads what pipe V finds with no flag of V_S that orders them");
  value = static_cast<T>(found.value);
  index = detail::index_as<T>(found.index);
}

#define KW_PIECE(Name, Fold, piece)                                                                                      \
  template <typename T, bool isSetMask = true, typename Mask>                                                            \
  void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, int32_t repeat, Mask mask, int32_t dst_repeat,         \
            int32_t src_block, int32_t src_repeat, KW_AT) {                                                              \
    detail::piece_reduce<detail::Fold>(                                                                                  \
        dst, detail::Operand<T>{src, static_cast<uint32_t>(src_block), static_cast<uint32_t>(src_repeat)},               \
        detail::part_of<isSetMask>(detail::lanes_of(sizeof(T)), mask, static_cast<uint32_t>(repeat), KW_HERE, #Name),    \
        piece, static_cast<uint32_t>(dst_repeat), KW_HERE, #Name);                                                       \
  }
KW_PIECE(BlockReduceSum, SumOf, kBlock / sizeof(T))
KW_PIECE(BlockReduceMax, MaxOf, kBlock / sizeof(T))
KW_PIECE(BlockReduceMin, MinOf, kBlock / sizeof(T))
KW_PIECE(PairReduceSum, SumOf, 2)
#undef KW_PIECE

namespace detail {
template <typename T>
bool compared(T x, T y, CMPMODE mode) {
  const double a = static_cast<double>(x), b = static_cast<double>(y);
  switch (mode) {
    case CMPMODE::LT: return a < b;
    case CMPMODE::GT: return a > b;
    case CMPMODE::EQ: return a == b;
    case CMPMODE::LE: return a <= b;
    case CMPMODE::GE: return a >= b;
    default: return a != b;
  }
}
template <typename T, typename U, typename Second>
void compare(const LocalTensor<U>& dst, const LocalTensor<T>& src, const Second& second, CMPMODE mode, uint32_t count, Where at,
             const char* what) {
  static_assert(sizeof(U) == 1, "Compare writes bits, into bytes");
  static_assert(floats<T>() || std::is_same<T, int32_t>::value, "Compare takes float, half, and int32_t for equality");
  if (std::is_same<T, int32_t>::value && mode != CMPMODE::EQ)
    fault("not-executed", at, "%s of int32_t takes CMPMODE::EQ on Atlas A2", what);
  const auto bytes = static_cast<uint32_t>(count * sizeof(T));
  if (bytes % kw::ascend::kRepeat)
    fault("length", at, "%s of %u bytes: whole multiples of 256 are compared, the rest is dropped", what, bytes);
  core()->issue(kw::ascend::V, at, what);
  const T* x = Operand<T>{src, 1, 8}.checked(at, what).read(kw::ascend::V, bytes, at, what);
  U* to = Operand<U>{dst, 1, 8}.checked(at, what).write(kw::ascend::V, count / 8, at, what);
  std::vector<uint8_t> bits(count / 8);
  for (uint32_t i = 0; i < count; ++i) bits[i / 8] = static_cast<uint8_t>(bits[i / 8] | (compared(x[i], second(i), mode) << (i % 8)));
  memcpy(to, bits.data(), bits.size());
}
template <typename T, typename U, typename Second>
void select(const LocalTensor<T>& dst, const LocalTensor<U>& mask, const LocalTensor<T>& src, const Second& second, SELMODE mode,
            uint32_t count, Where at) {
  static_assert(floats<T>(), "Select takes float and half");
  core()->issue(kw::ascend::V, at, "Select");
  const uint32_t bits = mode == SELMODE::VSEL_CMPMASK_SPR ? std::min(count, lanes_of(sizeof(T))) : count;
  const auto bytes = static_cast<uint32_t>(count * sizeof(T));
  const auto* chosen = reinterpret_cast<const uint8_t*>(
      Operand<U>{mask, 1, 8}.checked(at, "Select").read(kw::ascend::V, (bits + 7) / 8, at, "Select"));
  const T* x = Operand<T>{src, 1, 8}.checked(at, "Select").read(kw::ascend::V, bytes, at, "Select");
  std::vector<T> out(count);
  for (uint32_t i = 0; i < count; ++i) out[i] = (chosen[i % bits / 8] >> (i % bits % 8)) & 1 ? x[i] : second(i);
  memcpy(Operand<T>{dst, 1, 8}.checked(at, "Select").write(kw::ascend::V, bytes, at, "Select"), out.data(), bytes);
}
}  // namespace detail

template <typename T, typename U>
void Compare(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE mode, uint32_t count,
             KW_AT) {
  const T* y = detail::Operand<T>{src1, 1, 8}.checked(KW_HERE, "Compare").read(kw::ascend::V, count * sizeof(T), KW_HERE, "Compare");
  detail::compare(dst, src0, [y](uint32_t i) { return y[i]; }, mode, count, KW_HERE, "Compare");
}
template <typename T, typename U, typename Scalar>
void CompareScalar(const LocalTensor<U>& dst, const LocalTensor<T>& src0, Scalar scalar, CMPMODE mode, uint32_t count, KW_AT) {
  detail::compare(dst, src0, [scalar](uint32_t) { return static_cast<T>(scalar); }, mode, count, KW_HERE, "CompareScalar");
}
template <typename T, typename U>
void Select(const LocalTensor<T>& dst, const LocalTensor<U>& mask, const LocalTensor<T>& src0, const LocalTensor<T>& src1,
            SELMODE mode, uint32_t count, KW_AT) {
  const T* y = detail::Operand<T>{src1, 1, 8}.checked(KW_HERE, "Select").read(kw::ascend::V, count * sizeof(T), KW_HERE, "Select");
  detail::select(dst, mask, src0, [y](uint32_t i) { return y[i]; }, mode, count, KW_HERE);
}
template <typename T, typename U, typename Scalar, typename = std::enable_if_t<std::is_convertible<Scalar, float>::value>>
void Select(const LocalTensor<T>& dst, const LocalTensor<U>& mask, const LocalTensor<T>& src0, Scalar scalar, SELMODE mode,
            uint32_t count, KW_AT) {
  detail::select(dst, mask, src0, [scalar](uint32_t) { return static_cast<T>(scalar); }, mode, count, KW_HERE);
}

template <typename T>
void Brcb(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint8_t repeat, const BrcbRepeatParams& by, KW_AT) {
  static_assert(sizeof(T) == 2 || sizeof(T) == 4, "Brcb takes types of 16 and 32 bits on Atlas A2");
  core()->issue(kw::ascend::V, KW_HERE, "Brcb");
  const detail::Operand<T> to{dst, by.dstBlkStride, by.dstRepStride};
  const T* x = detail::Operand<T>{src, 1, 8}.checked(KW_HERE, "Brcb").read(kw::ascend::V, repeat * 8 * sizeof(T), KW_HERE, "Brcb");
  to.checked(KW_HERE, "Brcb");
  const std::vector<T> values(x, x + repeat * 8);
  for (uint32_t i = 0; i < values.size(); ++i)
    std::fill_n(dst.at_byte((i / 8 * to.repeat + i % 8 * std::max(1u, to.block)) * kBlock).write(kw::ascend::V, kBlock, KW_HERE, "Brcb"),
                kBlock / sizeof(T), values[i]);
}
