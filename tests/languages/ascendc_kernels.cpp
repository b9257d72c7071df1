// Right kernels in Ascend C, and one that goes wrong in a way for each number; "// @name" marks where that shows.
#include "kernel_operator.h"
#include "kernelwright.h"
using namespace AscendC;

constexpr uint32_t TILE = 256;

// ---- right --------------------------------------------------------------------------------------------------

template <typename T>
__aicore__ inline void add_kernel(GM_ADDR x, GM_ADDR y, GM_ADDR z, uint32_t n) {
  TPipe pipe;
  TQue<TPosition::VECIN, 2> in_x, in_y;
  TQue<TPosition::VECOUT, 2> out_z;
  pipe.InitBuffer(in_x, 2, TILE * sizeof(T));
  pipe.InitBuffer(in_y, 2, TILE * sizeof(T));
  pipe.InitBuffer(out_z, 2, TILE * sizeof(T));
  GlobalTensor<T> gx, gy, gz;
  gx.SetGlobalBuffer((__gm__ T*)x, n);
  gy.SetGlobalBuffer((__gm__ T*)y, n);
  gz.SetGlobalBuffer((__gm__ T*)z, n);
  for (uint32_t at = GetBlockIdx() * TILE; at < n; at += GetBlockNum() * TILE) {
    const uint32_t count = n - at < TILE ? n - at : TILE;
    const DataCopyExtParams part{1, count * (uint32_t)sizeof(T), 0, 0, 0};
    const DataCopyPadExtParams<T> pad{true, 0, 0, T(0.0f)};
    LocalTensor<T> a = in_x.template AllocTensor<T>(), b = in_y.template AllocTensor<T>();
    DataCopyPad(a, gx[at], part, pad);
    DataCopyPad(b, gy[at], part, pad);
    in_x.EnQue(a);
    in_y.EnQue(b);
    a = in_x.template DeQue<T>();
    b = in_y.template DeQue<T>();
    LocalTensor<T> c = out_z.template AllocTensor<T>();
    Add(c, a, b, count);
    out_z.EnQue(c);
    in_x.FreeTensor(a);
    in_y.FreeTensor(b);
    c = out_z.template DeQue<T>();
    DataCopyPad(gz[at], c, part);
    out_z.FreeTensor(c);
  }
}
KW_KERNEL(add) {
  auto x = args.tensor<const float>(0), y = args.tensor<const float>(1);
  auto z = args.tensor<float>(2);
  ICPU_RUN_KF(add_kernel<float>, 3, kw::gm(x), kw::gm(y), kw::gm(z), (uint32_t)x.numel());
}
KW_KERNEL(add_half) {
  auto x = args.tensor<const half>(0), y = args.tensor<const half>(1);
  auto z = args.tensor<half>(2);
  ICPU_RUN_KF(add_kernel<half>, 3, kw::gm(x), kw::gm(y), kw::gm(z), (uint32_t)x.numel());
}

// Rows of a matrix, a block for every few: the largest and the sum go by way of the scalar unit.
extern "C" __global__ __aicore__ void softmax_kernel(GM_ADDR x, GM_ADDR z, uint32_t rows, uint32_t n) {
  TPipe pipe;
  TQue<TPosition::VECIN, 1> in;
  TQue<TPosition::VECOUT, 1> out;
  TBuf<TPosition::VECCALC> work_buffer, one_buffer;
  pipe.InitBuffer(in, 2, n * sizeof(float));
  pipe.InitBuffer(out, 2, n * sizeof(float));
  pipe.InitBuffer(work_buffer, n * sizeof(float));
  pipe.InitBuffer(one_buffer, 32);
  LocalTensor<float> work = work_buffer.Get<float>(), one = one_buffer.Get<float>();
  GlobalTensor<float> gx, gz;
  gx.SetGlobalBuffer((__gm__ float*)x, rows * n);
  gz.SetGlobalBuffer((__gm__ float*)z, rows * n);
  const DataCopyExtParams part{1, n * (uint32_t)sizeof(float), 0, 0, 0};
  for (uint32_t row = GetBlockIdx(); row < rows; row += GetBlockNum()) {
    LocalTensor<float> a = in.AllocTensor<float>();
    DataCopyPad(a, gx[row * n], part, DataCopyPadExtParams<float>{false, 0, 0, 0});
    in.EnQue(a);
    a = in.DeQue<float>();
    LocalTensor<float> c = out.AllocTensor<float>();
    ReduceMax(one, a, work, n);
    event_t event = static_cast<event_t>(pipe.FetchEventID(HardEvent::V_S));
    SetFlag<HardEvent::V_S>(event);
    WaitFlag<HardEvent::V_S>(event);
    const float most = one.GetValue(0);
    Adds(c, a, -most, n);
    Exp(c, c, n);
    in.FreeTensor(a);
    event = static_cast<event_t>(pipe.FetchEventID(HardEvent::S_V));
    SetFlag<HardEvent::S_V>(event);
    WaitFlag<HardEvent::S_V>(event);
    ReduceSum(one, c, work, n);
    PipeBarrier<PIPE_ALL>();
    Muls(c, c, 1 / one.GetValue(0), n);
    PipeBarrier<PIPE_ALL>();
    out.EnQue(c);
    c = out.DeQue<float>();
    DataCopyPad(gz[row * n], c, part);
    out.FreeTensor(c);
  }
}
KW_KERNEL(softmax) {
  auto x = args.tensor<const float>(0);
  auto z = args.tensor<float>(1);
  if (x.ndim() != 2) KW_UNSUPPORTED("x must be a matrix");
  ICPU_RUN_KF(softmax_kernel, 4, kw::gm(x), kw::gm(z), (uint32_t)x.shape(0), (uint32_t)x.shape(1));
}

// bfloat16 in, float inside, bfloat16 out; whole blocks by DataCopy, with a queue from copy to copy for what stays.
extern "C" __global__ __aicore__ void scaled_kernel(GM_ADDR x, GM_ADDR z, float scale, uint32_t n) {
  TPipe pipe;
  TQue<TPosition::VECIN, 2> in;
  TQue<TPosition::VECOUT, 2> out;
  TBuf<TPosition::VECCALC> wide_buffer;
  pipe.InitBuffer(in, 2, TILE * sizeof(bfloat16_t));
  pipe.InitBuffer(out, 2, TILE * sizeof(bfloat16_t));
  pipe.InitBuffer(wide_buffer, TILE * sizeof(float));
  LocalTensor<float> wide = wide_buffer.Get<float>(TILE);
  GlobalTensor<bfloat16_t> gx, gz;
  gx.SetGlobalBuffer((__gm__ bfloat16_t*)x);
  gz.SetGlobalBuffer((__gm__ bfloat16_t*)z);
  for (uint32_t at = GetBlockIdx() * TILE; at < n; at += GetBlockNum() * TILE) {
    LocalTensor<bfloat16_t> a = in.AllocTensor<bfloat16_t>();
    DataCopy(a, gx[at], TILE);
    in.EnQue(a);
    a = in.DeQue<bfloat16_t>();
    Cast(wide, a, RoundMode::CAST_NONE, TILE);
    in.FreeTensor(a);
    Muls(wide, wide, scale, TILE);
    Relu(wide, wide, TILE);
    LocalTensor<bfloat16_t> c = out.AllocTensor<bfloat16_t>();
    Cast(c, wide, RoundMode::CAST_RINT, TILE);
    out.EnQue(c);
    c = out.DeQue<bfloat16_t>();
    DataCopy(gz[at], c, TILE);
    out.FreeTensor(c);
  }
}
KW_KERNEL(scaled) {
  auto x = args.tensor<const bfloat16_t>(0);
  auto z = args.tensor<bfloat16_t>(1);
  ICPU_RUN_KF(scaled_kernel, 2, kw::gm(x), kw::gm(z), 3.0f, (uint32_t)x.numel());
}

// A transposition of blocks of 8 floats, by gaps alone; the tensor goes from copy to copy.
extern "C" __global__ __aicore__ void columns_kernel(GM_ADDR x, GM_ADDR z, uint32_t rows, uint32_t blocks) {
  TPipe pipe;
  TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> through;
  pipe.InitBuffer(through, 1, rows * 32);
  GlobalTensor<float> gx, gz;
  gx.SetGlobalBuffer((__gm__ float*)x, rows * blocks * 8);
  gz.SetGlobalBuffer((__gm__ float*)z, rows * blocks * 8);
  for (uint32_t column = 0; column < blocks; ++column) {
    LocalTensor<float> a = through.AllocTensor<float>();
    DataCopy(a, gx[column * 8], DataCopyParams{(uint16_t)rows, 1, (uint16_t)(blocks - 1), 0});
    through.EnQue(a);
    a = through.DeQue<float>();
    DataCopy(gz[column * rows * 8], a, rows * 8);
    through.FreeTensor(a);
  }
}
KW_KERNEL(columns) {
  auto x = args.tensor<const float>(0);
  auto z = args.tensor<float>(1);
  ICPU_RUN_KF(columns_kernel, 1, kw::gm(x), kw::gm(z), (uint32_t)x.shape(0), (uint32_t)(x.shape(1) / 8));
}

// One fractal by another on the cube unit, and a mask: what tests/executor has at length.
extern "C" __global__ __cube__ void fractal_kernel(GM_ADDR a, GM_ADDR b, GM_ADDR c) {
  TPipe pipe;
  TQue<TPosition::A1, 1> a1, b1;
  TQue<TPosition::A2, 1> a2;
  TQue<TPosition::B2, 1> b2;
  TQue<TPosition::CO1, 1> co;
  pipe.InitBuffer(a1, 1, 512);
  pipe.InitBuffer(b1, 1, 512);
  pipe.InitBuffer(a2, 1, 512);
  pipe.InitBuffer(b2, 1, 512);
  pipe.InitBuffer(co, 1, 1024);
  GlobalTensor<half> ga, gb;
  GlobalTensor<float> gc;
  ga.SetGlobalBuffer((__gm__ half*)a, 256);
  gb.SetGlobalBuffer((__gm__ half*)b, 256);
  gc.SetGlobalBuffer((__gm__ float*)c, 256);
  LocalTensor<half> x = a1.AllocTensor<half>(), y = b1.AllocTensor<half>();
  DataCopy(x, ga, Nd2NzParams{1, 16, 16, 0, 16, 16, 1, 0});
  DataCopy(y, gb, Nd2NzParams{1, 16, 16, 0, 16, 16, 1, 0});
  a1.EnQue(x);
  b1.EnQue(y);
  x = a1.DeQue<half>(), y = b1.DeQue<half>();
  LocalTensor<half> left = a2.AllocTensor<half>(), right = b2.AllocTensor<half>();
  LoadData(left, x, LoadData2DParams(0, 1, 1, 0, 0, false, 0));
  LoadData(right, y, LoadData2DParams(0, 1, 1, 0, 0, true, 0));
  a1.FreeTensor(x);
  b1.FreeTensor(y);
  a2.EnQue(left);
  b2.EnQue(right);
  left = a2.DeQue<half>(), right = b2.DeQue<half>();
  LocalTensor<float> out = co.AllocTensor<float>();
  Mmad(out, left, right, MmadParams(16, 16, 16, 0, false, true));
  a2.FreeTensor(left);
  b2.FreeTensor(right);
  co.EnQue(out);
  out = co.DeQue<float>();
  Fixpipe(gc, out, FixpipeParamsV220(16, 16, 16, 16, true));
  co.FreeTensor(out);
}
KW_KERNEL(fractal) {
  auto a = args.tensor<const half>(0), b = args.tensor<const half>(1);
  auto c = args.tensor<float>(2);
  ICPU_RUN_KF(fractal_kernel, 1, kw::gm(a), kw::gm(b), kw::gm(c));
}

// ---- wrong --------------------------------------------------------------------------------------------------

#define FAULTS(F)                                                                                                   \
  F(none) F(not_dequeued) F(not_enqueued) F(out_not_queued) F(freed_early) F(freed_twice) F(never_freed)            \
  F(exhausted) F(too_large) F(start) F(length) F(beyond) F(unwritten) F(other_queue) F(empty) F(full) F(twice)      \
  F(left_in_queue) F(no_flag_set) F(flag_left) F(flag_twice) F(event_nine) F(scalar_reads) F(scalar_writes)         \
  F(blocks_meet) F(block_reads) F(constant) F(buffer_end) F(freed_output) F(reused) F(nine_tensors) F(padded)       \
  F(not_lent) F(padding_read) F(masked) F(claimed)
enum Fault {
#define NAMED(name) name,
  FAULTS(NAMED)
#undef NAMED
};

__aicore__ inline void faulty(Fault fault, GM_ADDR x, GM_ADDR y, GM_ADDR z, uint32_t n) {
  TPipe pipe;
  TQue<TPosition::VECIN, 1> in, other;
  TQue<TPosition::VECOUT, 1> out;
  TBuf<TPosition::VECCALC> buffer;
  pipe.InitBuffer(in, fault == full ? 2 : fault == nine_tensors ? 9 : 1, TILE * 4);
  pipe.InitBuffer(other, 1, TILE * 4);
  pipe.InitBuffer(out, 1, TILE * 4);
  pipe.InitBuffer(buffer, fault == too_large ? 192 << 10 : TILE * 4);  // @too_large
  LocalTensor<float> own = buffer.Get<float>();
  GlobalTensor<float> gx, gy, gz;
  gx.SetGlobalBuffer((__gm__ float*)x, n);
  gy.SetGlobalBuffer((__gm__ float*)y);
  gz.SetGlobalBuffer((__gm__ float*)(fault == constant ? x : z), n);
  const uint32_t from = fault == blocks_meet ? 0 : GetBlockIdx() * TILE;
  const DataCopyPadExtParams<float> pad{false, 0, (uint8_t)(fault == padded ? 9 : 0), 0};

  LocalTensor<float> a = in.AllocTensor<float>();
  if (fault == exhausted) a = in.AllocTensor<float>();  // @exhausted
  if (fault == nine_tensors)
    for (int i = 0; i < 8; ++i) in.AllocTensor<float>();  // @nine_tensors
  if (fault == length) DataCopy(a, gx[from], 7);  // @length
  if (fault == beyond) DataCopy(a, gx[n - 8], 16);  // @beyond
  if (fault == not_lent) DataCopy(a, gy[4096], 16);  // @not_lent
  if (fault == padded) DataCopyPad(a, gx[from], DataCopyExtParams{1, 28, 0, 0, 0}, DataCopyPadExtParams<float>{true, 0, 9, 0});  // @padded
  if (fault == block_reads) DataCopy(a, gz[0], 8);  // @block_reads
  if (fault == unwritten) DataCopy(a, gx[from], TILE / 2);
  else if (fault == padding_read) DataCopyPad(a, gx[from], DataCopyExtParams{1, 28, 0, 0, 0}, pad);
  else DataCopy(a, gx[from], TILE);
  if (fault == other_queue) other.EnQue(a);  // @other_queue
  if (fault == empty) other.DeQue<float>();  // @empty
  if (fault != not_enqueued) {
    in.EnQue(a);
    if (fault == twice) in.EnQue(a);  // @twice
    if (fault == full) in.EnQue(in.AllocTensor<float>());  // @full
    if (fault == left_in_queue) return;
    if (fault != not_dequeued) a = in.DeQue<float>();
  }
  if (fault == freed_early) in.FreeTensor(a);
  if (fault == reused) {
    Muls(own, a, 2.0f, TILE);
    DataCopy(own, gx[from], TILE);  // @reused
  }
  ASSERT(a.GetSize() == TILE && "a whole tile");
  if (fault == claimed) ASSERT(GetBlockNum() == 99);  // @claimed
  printf("a tile of %u\n", a.GetSize());
  PRINTF("and %d more", 1);
  DumpTensor(a, 1, 8);
  LocalTensor<float> c = out.AllocTensor<float>();
  if (fault == start) Adds(c, a[1], 1.0f, 8);  // @start
  if (fault == buffer_end) Adds(c, a, 1.0f, TILE + 8);  // @buffer_end
  if (fault == masked) Adds(c, a, 1.0f, (uint64_t)65, 1, UnaryRepeatParams());  // @masked
  if (fault == padding_read) Adds(c, a, 1.0f, 8);
  Adds(c, a, 1.0f, TILE);  // @not_dequeued @not_enqueued @freed_early @unwritten @padding_read
  if (fault == scalar_reads) gz.SetValue(0, c.GetValue(0));  // @scalar_reads
  if (fault == scalar_writes) {
    SetFlag<HardEvent::V_S>(0);
    WaitFlag<HardEvent::V_S>(0);
    c.SetValue(0, 5.0f);
    DataCopy(gz[from], c, 8);  // @scalar_writes
  }
  in.FreeTensor(a);
  if (fault == freed_twice) in.FreeTensor(a);  // @freed_twice
  if (fault == no_flag_set) WaitFlag<HardEvent::MTE3_V>(1);  // @no_flag_set
  if (fault == flag_left || fault == flag_twice) SetFlag<HardEvent::V_MTE2>(2);  // @flag_left
  if (fault == flag_twice) SetFlag<HardEvent::V_MTE2>(2);  // @flag_twice
  if (fault == event_nine) SetFlag<HardEvent::V_MTE2>(9);  // @event_nine
  if (fault == freed_output) out.FreeTensor(c);
  if (fault != out_not_queued && fault != freed_output) {
    out.EnQue(c);
    c = out.DeQue<float>();
  }
  DataCopy(gz[from], c, TILE);  // @out_not_queued @blocks_meet @constant @freed_output
  if (fault == never_freed) return;
  out.FreeTensor(c);
}

#define ENTRY(name)                                                                                        \
  KW_KERNEL(wrong_##name) {                                                                                \
    auto x = args.tensor<const float>(0), y = args.tensor<const float>(1);                                 \
    auto z = args.tensor<float>(2);                                                                        \
    ICPU_RUN_KF(faulty, 2, name, kw::gm(x), kw::gm(y), kw::gm(z), (uint32_t)x.numel());                    \
  }
FAULTS(ENTRY)
