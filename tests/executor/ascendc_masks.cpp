// Vector instructions by masks, repeats and strides, and cores that wait for each other: right kernels, and wrong ones by
// name; "// @name" marks where a fault shows.
#include "kernel_operator.h"
#include "kernelwright.h"
using namespace AscendC;

// Rows of 64 floats at a time in a repeat each: maximum, sum and quotient of a row by masks, a row's tail masked off.
extern "C" __global__ __aicore__ void softmax_kernel(GM_ADDR x, GM_ADDR z, uint32_t rows, uint32_t n) {
  TPipe pipe;
  TQue<TPosition::VECIN, 1> in;
  TQue<TPosition::VECOUT, 1> out;
  TBuf<TPosition::VECCALC> per_row, spread;
  const uint32_t most = 16, pitch = (n + 7) / 8 * 8;
  pipe.InitBuffer(in, 2, most * pitch * sizeof(float));
  pipe.InitBuffer(out, 2, most * pitch * sizeof(float));
  pipe.InitBuffer(per_row, most * sizeof(float));
  pipe.InitBuffer(spread, most * 32);
  LocalTensor<float> one = per_row.Get<float>(), blocks = spread.Get<float>();
  GlobalTensor<float> gx, gz;
  gx.SetGlobalBuffer((__gm__ float*)x, rows * n);
  gz.SetGlobalBuffer((__gm__ float*)z, rows * n);
  const BinaryRepeatParams by_row(1, 1, 0, pitch / 8, pitch / 8, 1);
  for (uint32_t row = GetBlockIdx() * most; row < rows; row += GetBlockNum() * most) {
    const uint32_t count = rows - row < most ? rows - row : most;
    const DataCopyExtParams part{(uint16_t)count, n * (uint32_t)sizeof(float), 0, 0, 0};
    LocalTensor<float> a = in.AllocTensor<float>();
    DataCopyPad(a, gx[row * n], part, DataCopyPadExtParams<float>{false, 0, 0, 0});
    in.EnQue(a);
    a = in.DeQue<float>();
    LocalTensor<float> c = out.AllocTensor<float>();
    Duplicate(one, 0.0f, (int32_t)most);
    WholeReduceMax(one, a, n, count, 1, 1, pitch / 8, ReduceOrder::ORDER_ONLY_VALUE);
    Brcb(blocks, one, (count + 7) / 8, BrcbRepeatParams(1, 8));
    Sub(c, a, blocks, (uint64_t)n, count, by_row);
    Exp(c, c, (uint64_t)n, count, UnaryRepeatParams(1, 1, pitch / 8, pitch / 8));
    in.FreeTensor(a);
    WholeReduceSum(one, c, n, count, 1, 1, pitch / 8);
    Brcb(blocks, one, (count + 7) / 8, BrcbRepeatParams(1, 8));
    Div(c, c, blocks, (uint64_t)n, count, by_row);
    out.EnQue(c);
    c = out.DeQue<float>();
    DataCopyPad(gz[row * n], c, part);
    out.FreeTensor(c);
  }
}
KW_KERNEL(softmax) {
  auto x = args.tensor<const float>(0);
  auto z = args.tensor<float>(1);
  if (x.ndim() != 2 || x.shape(1) > 64) KW_UNSUPPORTED("x must be a matrix of at most 64 columns");
  ICPU_RUN_KF(softmax_kernel, 3, kw::gm(x), kw::gm(z), (uint32_t)x.shape(0), (uint32_t)x.shape(1));
}

// One buffer in, one out, for what follows; whole copies of 512 floats.
template <typename In, typename Out, typename Compute>
__aicore__ inline void through(GM_ADDR x, GM_ADDR z, uint32_t n, uint32_t results, const Compute& compute) {
  TPipe pipe;
  TQue<TPosition::VECIN, 1> in;
  TQue<TPosition::VECOUT, 1> out;
  TBuf<TPosition::VECCALC> work;
  pipe.InitBuffer(in, 1, n * sizeof(In));
  pipe.InitBuffer(out, 1, results * sizeof(Out));
  pipe.InitBuffer(work, 4096);
  GlobalTensor<In> gx;
  GlobalTensor<Out> gz;
  gx.SetGlobalBuffer((__gm__ In*)x, n);
  gz.SetGlobalBuffer((__gm__ Out*)z, results);
  LocalTensor<In> a = in.AllocTensor<In>();
  DataCopy(a, gx, n);
  in.EnQue(a);
  a = in.DeQue<In>();
  LocalTensor<Out> c = out.AllocTensor<Out>();
  Duplicate(c, (Out)0, (int32_t)results);
  compute(c, a, work);
  in.FreeTensor(a);
  out.EnQue(c);
  c = out.DeQue<Out>();
  DataCopy(gz, c, results);
  out.FreeTensor(c);
}
#define THROUGH(name, In, Out, ...)                                                                               \
  KW_KERNEL(name) {                                                                                               \
    auto x = args.tensor<const In>(0);                                                                            \
    auto z = args.tensor<Out>(1);                                                                                 \
    const int64_t option = args.integer(2);                                                                       \
    (void)option;                                                                                                 \
    const auto compute = [&](LocalTensor<Out> c, LocalTensor<In> a, TBuf<TPosition::VECCALC>& work) {             \
      (void)work;                                                                                                 \
      __VA_ARGS__;                                                                                                \
    };                                                                                                            \
    ICPU_RUN_KF((through<In, Out>), 1, kw::gm(x), kw::gm(z), (uint32_t)x.numel(), (uint32_t)z.numel(), compute);  \
  }
THROUGH(every_other_block, float, float, Adds(c, a, 1.0f, (uint64_t)64, (uint8_t)4, UnaryRepeatParams(1, 2, 8, 16)))
THROUGH(every_third_element, half, half, {
  uint64_t mask[2] = {0x9249249249249249ull, 0x4924924924924924ull};
  Muls(c, a, (half)2.0f, mask, (uint8_t)4, UnaryRepeatParams());
})
THROUGH(counted, float, float, {
  SetMaskCount();
  SetVectorMask<float, MaskMode::COUNTER>(100);
  Exp<float, false>(c, a, MASK_PLACEHOLDER, 1, UnaryRepeatParams());
  SetMaskNorm();
  ResetMask();
})
THROUGH(running_sum, float, float, Add(c, a, c, (uint64_t)64, (uint8_t)8, BinaryRepeatParams(1, 1, 1, 0, 8, 0)))
THROUGH(largest_of_repeats, float, float, WholeReduceMax(c, a, 64, 8, 1, 1, 8))
template <typename T>
__aicore__ inline void least_of_all(const LocalTensor<T>& c, const LocalTensor<T>& a, TBuf<TPosition::VECCALC>& work, bool ordered) {
  WholeReduceMin(work.Get<T>(), a, 64, 8, 1, 1, 8);
  if (ordered) SetFlag<HardEvent::V_S>(EVENT_ID0), WaitFlag<HardEvent::V_S>(EVENT_ID0);
  T value = 0, index = 0;
  GetReduceMaxMinCount<T>(value, index);  // @extreme_early
  SetFlag<HardEvent::V_S>(EVENT_ID1);
  WaitFlag<HardEvent::V_S>(EVENT_ID1);
  c.SetValue(0, value);
  c.SetValue(1, index);
  SetFlag<HardEvent::S_MTE3>(EVENT_ID0);
  WaitFlag<HardEvent::S_MTE3>(EVENT_ID0);
}
THROUGH(extreme, float, float, least_of_all(c, a, work, true))
THROUGH(largest_of_masked, float, float, {
  uint64_t mask[2] = {0x5555555555555555ull, 0};
  ReduceMax(c, a, work.Get<float>(), mask, 8, 8, true);
})
THROUGH(smallest, float, float, ReduceMin(c, a, work.Get<float>(), 512, true))
THROUGH(sums_of_blocks, float, float, BlockReduceSum(c, a, 8, 64, 1, 1, 8))
THROUGH(sums_of_pairs, half, half, PairReduceSum(c, a, 4, 128, 1, 1, 8))
THROUGH(copied, float, float, Copy(c, a, (uint64_t)32, (uint8_t)4, CopyRepeatParams(1, 2, 4, 16)))
THROUGH(multiplied_on, float, float, {
  Adds(c, a, 1.0f, 512);
  FusedMulAdd(c, a, a, 512);
})
template <typename T>
__aicore__ inline void gathered(const LocalTensor<T>& c, const LocalTensor<T>& a, TBuf<TPosition::VECCALC>& work, int64_t option) {
  LocalTensor<int32_t> places = work.Get<int32_t>();
  for (uint32_t i = 0; i < 200; ++i) places.SetValue(i, (int32_t)((199 - i) * sizeof(T) + (i == 150 ? option & ~1 : 0)));
  SetFlag<HardEvent::S_V>(EVENT_ID0);
  WaitFlag<HardEvent::S_V>(EVENT_ID0);
  Gather(c, a, places.ReinterpretCast<uint32_t>(), (uint32_t)(8 * sizeof(T)), option == 1 ? 300 : 200);  // @gather_odd @gather_far @gather_unwritten
}
THROUGH(gathered_float, float, float, gathered(c, a, work, option))
THROUGH(gathered_half, half, half, gathered(c, a, work, option))
THROUGH(there_and_back, float, float, Duplicate(c, ToFloat(ToBfloat16(1.01f)), 512))
THROUGH(chosen, float, float, {
  LocalTensor<uint8_t> bits = work.Get<uint8_t>();
  CompareScalar(bits, a, 0.5f, CMPMODE::GT, 512);
  Select(c, bits, a, -1.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, 512);
})
#define MODES(name, In, Out) THROUGH(name, In, Out, Cast(c, a, static_cast<RoundMode>(option), (uint32_t)a.GetSize()))
MODES(cast_float_half, float, half)
MODES(cast_float_bfloat16, float, bfloat16_t)
MODES(cast_float_int32, float, int32_t)
MODES(cast_half_int16, half, int16_t)
MODES(cast_float_float, float, float)
MODES(cast_half_float, half, float)
THROUGH(cast_repeats, half, float, Cast(c, a, RoundMode::CAST_NONE, (uint64_t)64, (uint8_t)8, UnaryRepeatParams(1, 1, 8, 4)))

// Each core adds its part to a sum, or takes what another one wrote before all of them have met.
enum Meeting { meeting_none, meeting_missing, meeting_some, meeting_no_atomic };
__aicore__ inline void meet(Meeting fault, GM_ADDR x, GM_ADDR shared, GM_ADDR sum) {
  LocalMemAllocator<> ub;
  LocalTensor<float> a = ub.Alloc<float>(64), b = ub.Alloc<float>(64);
  GlobalTensor<float> gx, gs, gz;
  gx.SetGlobalBuffer((__gm__ float*)x);
  gs.SetGlobalBuffer((__gm__ float*)shared);
  gz.SetGlobalBuffer((__gm__ float*)sum, 64);
  const uint32_t own = GetBlockIdx() * 64, next = (GetBlockIdx() + 1) % GetBlockNum() * 64;
  DataCopy(a, gx[own], 64);
  PipeBarrier<PIPE_ALL>();
  Muls(a, a, 2.0f, 64);
  PipeBarrier<PIPE_ALL>();
  DataCopy(gs[own], a, 64);  // @meeting_missing
  if (fault == meeting_some && GetBlockIdx() == 3) return;
  if (fault != meeting_missing) SyncAll();  // @meeting_some
  DataCopy(b, gs[next], 64);
  PipeBarrier<PIPE_ALL>();
  if (fault != meeting_no_atomic) SetAtomicAdd<float>();
  DataCopy(gz, b, 64);  // @meeting_no_atomic
  SetAtomicNone();
}
#define MEET(fault)                                                                                  \
  KW_KERNEL(fault) {                                                                                 \
    auto x = args.tensor<const float>(0);                                                            \
    auto shared = args.tensor<float>(1), sum = args.tensor<float>(2);                                \
    ICPU_RUN_KF(meet, x.numel() / 64, fault, kw::gm(x), kw::gm(shared), kw::gm(sum));                \
  }
MEET(meeting_none)
MEET(meeting_missing)
MEET(meeting_some)
MEET(meeting_no_atomic)

// ---- wrong --------------------------------------------------------------------------------------------------------

#define WRONG(name, In, Out, ...) THROUGH(wrong_##name, In, Out, __VA_ARGS__)
WRONG(mask_count, float, float, Exp(c, a, (uint64_t)65, (uint8_t)1, UnaryRepeatParams()))  // @mask_count
WRONG(mask_bits, float, float, SetVectorMask<float>(1, 1), Exp<float, false>(c, a, MASK_PLACEHOLDER, 1, UnaryRepeatParams()))  // @mask_bits
WRONG(stride_beyond, float, float, Exp(c, a, (uint64_t)64, (uint8_t)8, UnaryRepeatParams(1, 2, 8, 16)))  // @stride_beyond
WRONG(partly_over, float, float, Add(c, c[8], a, 64))  // @partly_over
WRONG(later_repeat, float, float, Adds(c[64], c, 1.0f, (uint64_t)64, (uint8_t)4, UnaryRepeatParams()))  // @later_repeat
WRONG(masked_off, float, float, Exp(work.Get<float>(), a, (uint64_t)32, (uint8_t)1, UnaryRepeatParams()), Add(c, work.Get<float>(), a, 64))  // @masked_off
static float a_float;
WRONG(extreme_early, float, float, least_of_all(c, a, work, false))
WRONG(extreme_apart, float, float, WholeReduceMax(c, a, 64, 2, 1, 1, 16), GetReduceMaxMinCount(a_float, a_float))  // @extreme_apart
WRONG(index_start, float, float, WholeReduceMax(c[1], a, 64, 1, 1, 1, 8))  // @index_start
WRONG(block_start, float, float, BlockReduceSum(c[4], a, 1, 64, 1, 1, 8))  // @block_start
WRONG(compared_part, float, float, CompareScalar(work.Get<uint8_t>(), a, 0.0f, CMPMODE::LT, 40))  // @compared_part
WRONG(round_lossless, half, float, Cast(c, a, RoundMode::CAST_RINT, 512))  // @round_lossless
WRONG(round_odd, float, int32_t, Cast(c, a, RoundMode::CAST_ODD, 512))  // @round_odd
WRONG(cast_in_place, half, half, Cast(c.ReinterpretCast<float>(), c, RoundMode::CAST_NONE, 128))  // @cast_in_place
