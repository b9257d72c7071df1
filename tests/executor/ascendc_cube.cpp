// Products on the cube unit, right ones and one that goes wrong in a way for each name; "// @name" marks where that shows.
#include "kernel_operator.h"
#include "kernelwright.h"
using namespace AscendC;

constexpr uint32_t TM = 32, TN = 32, TK = 32;  // a tile of C, and the depth of a step
__aicore__ inline uint32_t up(uint32_t n, uint32_t by) { return (n + by - 1) / by * by; }
__aicore__ inline uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

// C = A B, or A B + bias with ReLU; tiles go through L1, L0A, L0B and L0C, a block for every few.
template <typename T, typename C, typename Out, bool biased>
class Product {
 public:
  static constexpr uint32_t C0 = 32 / sizeof(T), SLAB = sizeof(T) == 1 ? 32 : 16;
  __aicore__ inline void Init(GM_ADDR a, GM_ADDR b, GM_ADDR bias, GM_ADDR c, uint32_t m, uint32_t n, uint32_t k) {
    ga.SetGlobalBuffer((__gm__ T*)a, m * k);
    gb.SetGlobalBuffer((__gm__ T*)b, k * n);
    gbias.SetGlobalBuffer((__gm__ C*)bias, n);
    gc.SetGlobalBuffer((__gm__ Out*)c, m * n);
    M = m, N = n, K = k;
    pipe.InitBuffer(a1, 2, TM * TK * sizeof(T));
    pipe.InitBuffer(b1, 2, TK * TN * sizeof(T));
    pipe.InitBuffer(a2, 2, TM * TK * sizeof(T));
    pipe.InitBuffer(b2, 2, TK * TN * sizeof(T));
    pipe.InitBuffer(co, 1, TM * TN * sizeof(C));
    if constexpr (biased) {
      pipe.InitBuffer(c1, 1, TN * sizeof(C));
      pipe.InitBuffer(c2, 1, TN * sizeof(C));
    }
  }
  __aicore__ inline void Process() {
    const uint32_t columns = (N + TN - 1) / TN, tiles = (M + TM - 1) / TM * columns;
    for (uint32_t tile = GetBlockIdx(); tile < tiles; tile += GetBlockNum()) Tile(tile / columns * TM, tile % columns * TN);
  }
  __aicore__ inline void Rows() {  // all columns of the first rows, by one core
    for (uint32_t column = 0; column < N; column += TN) Tile(0, column);
  }

 private:
  __aicore__ inline void Tile(uint32_t row, uint32_t column) {
    const uint32_t m = least(TM, M - row), n = least(TN, N - column);
    LocalTensor<C> c = co.template AllocTensor<C>();
    for (uint32_t at = 0; at < K; at += TK) {
      const uint32_t k = least(TK, K - at);
      CopyIn(row, column, at, m, n, k);
      Split(m, n, k);
      LocalTensor<T> a = a2.template DeQue<T>(), b = b2.template DeQue<T>();
      MmadParams by;
      by.m = m, by.n = n, by.k = k;
      by.cmatrixInitVal = at == 0;
      if (at) PipeBarrier<PIPE_M>();
      if (biased && at == 0) {
        LocalTensor<C> from = c2.template DeQue<C>();
        Mmad(c, a, b, from, by);
        c2.FreeTensor(from);
      } else {
        Mmad(c, a, b, by);
      }
      a2.FreeTensor(a);
      b2.FreeTensor(b);
    }
    co.EnQue(c);
    c = co.template DeQue<C>();
    FixpipeParamsV220 out(n, m, up(m, 16), N, biased);
    if (sizeof(Out) == 2) out.quantPre = std::is_same<Out, half>::value ? QuantMode_t::F322F16 : QuantMode_t::F322BF16;
    Fixpipe(gc[row * N + column], c, out);
    co.FreeTensor(c);
  }
  __aicore__ inline void CopyIn(uint32_t row, uint32_t column, uint32_t at, uint32_t m, uint32_t n, uint32_t k) {
    LocalTensor<T> a = a1.template AllocTensor<T>(), b = b1.template AllocTensor<T>();
    DataCopy(a, ga[row * K + at], Nd2NzParams{1, (uint16_t)m, (uint16_t)k, 0, (uint16_t)K, (uint16_t)up(m, 16), 1, 0});
    for (uint32_t slab = 0; slab < k; slab += SLAB)  // Nz of as many rows of B as a square of the transposition has
      DataCopy(b[slab * TN], gb[(at + slab) * N + column],
               Nd2NzParams{1, (uint16_t)least(SLAB, k - slab), (uint16_t)n, 0, (uint16_t)N, (uint16_t)SLAB, 1, 0});
    a1.EnQue(a);
    b1.EnQue(b);
    if (biased && at == 0) {
      LocalTensor<C> bias = c1.template AllocTensor<C>();
      DataCopy(bias, gbias[column], up(n, 8));
      c1.EnQue(bias);
    }
  }
  __aicore__ inline void Split(uint32_t m, uint32_t n, uint32_t k) {
    LocalTensor<T> from = a1.template DeQue<T>(), to = a2.template AllocTensor<T>();
    const uint32_t m1 = up(m, 16) / 16, k1 = up(k, C0) / C0, n1 = up(n, 16) / 16;
    for (uint32_t i = 0; i < m1; ++i) {
      LoadData2DParams by;
      by.repeatTimes = k1;
      by.srcStride = m1;
      LoadData(to[i * k1 * 16 * C0], from[i * 16 * C0], by);
    }
    a1.FreeTensor(from);
    a2.EnQue(to);
    from = b1.template DeQue<T>();
    to = b2.template AllocTensor<T>();
    for (uint32_t slab = 0; slab < k; slab += SLAB) {
      if constexpr (sizeof(T) == 2) {
        LoadData(to[slab * n1 * 16], from[slab * TN], LoadData2DParams(0, n1, 1, 0, 0, true, 0));
      } else {
        LoadData2dTransposeParams by;
        by.repeatTimes = sizeof(T) == 4 ? n1 : (n + 31) / 32;
        by.srcStride = 1;
        by.dstGap = sizeof(T) == 4 ? 0 : 1;
        by.dstFracGap = sizeof(T) == 4 ? n1 - 1 : 0;
        LoadDataWithTranspose(to[slab * (sizeof(T) == 4 ? n1 * 16 : TN)], from[slab * TN], by);
      }
    }
    b1.FreeTensor(from);
    b2.EnQue(to);
    if (biased && c1.HasTensorInQue()) {
      LocalTensor<C> bias = c1.template DeQue<C>(), table = c2.template AllocTensor<C>();
      DataCopy(table, bias, up(n, 8));
      c1.FreeTensor(bias);
      c2.EnQue(table);
    }
  }

  TPipe pipe;
  TQue<TPosition::A1, 2> a1;
  TQue<TPosition::B1, 2> b1;
  TQue<TPosition::A2, 2> a2;
  TQue<TPosition::B2, 2> b2;
  TQue<TPosition::C1, 1> c1;
  TQue<TPosition::C2, 1> c2;
  TQue<TPosition::CO1, 1> co;
  GlobalTensor<T> ga, gb;
  GlobalTensor<C> gbias;
  GlobalTensor<Out> gc;
  uint32_t M, N, K;
};
template <typename T, typename C, typename Out, bool biased = false>
__aicore__ inline void product(GM_ADDR a, GM_ADDR b, GM_ADDR bias, GM_ADDR c, uint32_t m, uint32_t n, uint32_t k) {
  Product<T, C, Out, biased> op;
  op.Init(a, b, bias, c, m, n, k);
  op.Process();
}
#define PRODUCT(name, T, C, Out, biased)                                                                     \
  KW_KERNEL(name) {                                                                                          \
    auto a = args.tensor<const T>(0), b = args.tensor<const T>(1);                                           \
    auto bias = args.tensor<const C>(2);                                                                     \
    auto c = args.tensor<Out>(3);                                                                            \
    ICPU_RUN_KF((product<T, C, Out, biased>), 3, kw::gm(a), kw::gm(b), kw::gm(bias), kw::gm(c),              \
                (uint32_t)a.shape(0), (uint32_t)b.shape(1), (uint32_t)a.shape(1));                           \
  }
PRODUCT(product_half, half, float, float, false)
PRODUCT(product_bfloat16, bfloat16_t, float, bfloat16_t, false)
PRODUCT(product_float, float, float, float, false)
PRODUCT(product_int8, int8_t, int32_t, int32_t, false)
PRODUCT(product_bias, half, float, half, true)

// A row by a matrix: the cube unit takes A without fractals then.
extern "C" __global__ __cube__ void row_kernel(GM_ADDR a, GM_ADDR b, GM_ADDR c) {
  LocalMemAllocator<Hardware::L1> l1;
  LocalMemAllocator<Hardware::L0A> l0a;
  LocalMemAllocator<Hardware::L0B> l0b;
  LocalMemAllocator<Hardware::L0C> l0c;
  auto a1 = l1.Alloc<half>(256), b1 = l1.Alloc<half>(256 * 16), a2 = l0a.Alloc<half>(256), b2 = l0b.Alloc<half>(256 * 16);
  auto product = l0c.Alloc<float>(256);
  GlobalTensor<half> ga, gb;
  GlobalTensor<float> gc;
  ga.SetGlobalBuffer((__gm__ half*)a, 256);
  gb.SetGlobalBuffer((__gm__ half*)b, 256 * 16);
  gc.SetGlobalBuffer((__gm__ float*)c, 16);
  DataCopy(a1, ga, 256);
  DataCopy(b1, gb, Nd2NzParams{1, 256, 16, 0, 16, 256, 1, 0});
  SetFlag<HardEvent::MTE2_MTE1>(EVENT_ID0);
  WaitFlag<HardEvent::MTE2_MTE1>(EVENT_ID0);
  LoadData(a2, a1, LoadData2DParams(0, 1, 1, 0, 0, false, 0));
  LoadData(b2, b1, LoadData2DParams(0, 16, 1, 0, 0, true, 0));
  SetFlag<HardEvent::MTE1_M>(EVENT_ID0);
  WaitFlag<HardEvent::MTE1_M>(EVENT_ID0);
  Mmad(product, a2, b2, MmadParams(1, 16, 256, 0, false, true));
  SetFlag<HardEvent::M_FIX>(EVENT_ID0);
  WaitFlag<HardEvent::M_FIX>(EVENT_ID0);
  Fixpipe(gc, product, FixpipeParamsV220(16, 1, 16, 16, false));
}
KW_KERNEL(row) {
  auto a = args.tensor<const half>(0), b = args.tensor<const half>(1);
  auto c = args.tensor<float>(2);
  ICPU_RUN_KF(row_kernel, 1, kw::gm(a), kw::gm(b), kw::gm(c));
}

// ---- a cube core and its two vector cores -------------------------------------------------------------------------

enum Cross { cross_none, cross_no_flag, cross_no_set, cross_left, cross_often, cross_wrong_pipe, cross_core };
// C = leaky(A B) of 32 rows a block: the cube core writes the product, each vector core takes half of its rows.
__aicore__ inline void leaky(Cross fault, GM_ADDR a, GM_ADDR b, GM_ADDR c, uint32_t n, uint32_t k) {
  GlobalTensor<float> gc;
  const uint32_t group = ASCEND_IS_AIC ? GetBlockIdx() : GetBlockIdx() / 2;
  gc.SetGlobalBuffer((__gm__ float*)c + group * TM * n, TM * n);
  if ASCEND_IS_AIC {
    if (fault == cross_core) {
      LocalMemAllocator<Hardware::UB> ub;
      ub.Alloc<float>(64);  // @cross_core
    }
    Product<half, float, float, false> op;
    op.Init(a + group * TM * k * 2, b, b, c + group * TM * n * 4, TM, n, k);
    op.Rows();
    if (fault == cross_often)
      for (int i = 0; i < 16; ++i) CrossCoreSetFlag<2, PIPE_FIX>(1);  // @cross_often
    if (fault == cross_left) CrossCoreSetFlag<2, PIPE_FIX>(3);  // @cross_left
    if (fault == cross_wrong_pipe) CrossCoreSetFlag<2, PIPE_MTE2>(1);
    else if (fault != cross_no_set) CrossCoreSetFlag<2, PIPE_FIX>(1);
  }
  if ASCEND_IS_AIV {
    LocalMemAllocator<Hardware::UB> ub;
    LocalTensor<float> x = ub.Alloc<float>(TM / 2 * n);
    const uint32_t from = GetSubBlockIdx() * TM / 2 * n;
    if (fault != cross_no_flag) CrossCoreWaitFlag(1);  // @cross_no_set
    DataCopy(x, gc[from], TM / 2 * n);  // @cross_no_flag @cross_wrong_pipe
    SetFlag<HardEvent::MTE2_V>(EVENT_ID0);
    WaitFlag<HardEvent::MTE2_V>(EVENT_ID0);
    LeakyRelu(x, x, 0.5f, TM / 2 * n);
    SetFlag<HardEvent::V_MTE3>(EVENT_ID0);
    WaitFlag<HardEvent::V_MTE3>(EVENT_ID0);
    DataCopy(gc[from], x, TM / 2 * n);
  }
}
#define LEAKY(fault)                                                                                          \
  KW_KERNEL(leaky_##fault) {                                                                                  \
    auto a = args.tensor<const half>(0), b = args.tensor<const half>(1);                                      \
    auto c = args.tensor<float>(2);                                                                           \
    SetKernelMode(KernelMode::MIX_MODE);                                                                      \
    ICPU_RUN_KF(leaky, a.shape(0) / TM, fault, kw::gm(a), kw::gm(b), kw::gm(c), (uint32_t)b.shape(1),         \
                (uint32_t)a.shape(1));                                                                        \
  }
LEAKY(cross_none)
LEAKY(cross_no_flag)
LEAKY(cross_no_set)
LEAKY(cross_left)
LEAKY(cross_often)
LEAKY(cross_wrong_pipe)
LEAKY(cross_core)

// ---- wrong --------------------------------------------------------------------------------------------------------

#define FAULTS(F)                                                                                                     \
  F(none) F(l1_full) F(l0a_full) F(l0c_full) F(a2_start) F(c_start) F(b1_not_queued) F(b2_not_queued)                 \
  F(c_not_queued) F(not_initial) F(no_barrier) F(fractal_beyond) F(position) F(float_transposed) F(k_beyond)          \
  F(quantised) F(rows_meet) F(vector_here) F(l0a_reused) F(c0_stride) F(c0_limit) F(tiles_meet) F(product_size)
enum Fault {
#define NAMED(name) name,
  FAULTS(NAMED)
#undef NAMED
};
// One product of 32 x 32 x 32, in two steps of k = 16.
__aicore__ inline void faulty(Fault fault, GM_ADDR a, GM_ADDR b, GM_ADDR c) {
  TPipe pipe;
  TQue<TPosition::A1, 1> a1;
  TQue<TPosition::B1, 1> b1;
  TQue<TPosition::A2, 2> a2;
  TQue<TPosition::B2, 2> b2;
  TQue<TPosition::CO1, 1> co;
  pipe.InitBuffer(a1, 1, fault == l1_full ? 512 << 10 : 2048);
  pipe.InitBuffer(b1, 1, 2048);  // @l1_full
  pipe.InitBuffer(a2, 2, fault == l0a_full ? 33 << 10 : 1024);  // @l0a_full
  pipe.InitBuffer(b2, 2, 1024);
  pipe.InitBuffer(co, 1, fault == l0c_full ? 129 << 10 : 8192);  // @l0c_full
  GlobalTensor<half> ga, gb;
  GlobalTensor<float> gc;
  ga.SetGlobalBuffer((__gm__ half*)a, 1024);
  gb.SetGlobalBuffer((__gm__ half*)b, 1024);
  gc.SetGlobalBuffer((__gm__ float*)c, 1024);
  LocalTensor<half> x = a1.AllocTensor<half>(), y = b1.AllocTensor<half>();
  const uint16_t stride = fault == c0_stride ? 16 : fault == c0_limit ? 16385 : 32;
  DataCopy(x, ga, Nd2NzParams{1, 32, 32, 0, 32, stride, 1, 0});  // @c0_stride @c0_limit
  a1.EnQue(x);
  x = a1.DeQue<half>();
  DataCopy(y, gb, Nd2NzParams{1, 32, 32, 0, 32, 32, 1, 0});
  if (fault != b1_not_queued) {
    b1.EnQue(y);
    y = b1.DeQue<half>();
  }
  LocalTensor<float> out = co.AllocTensor<float>();
  for (uint32_t step = 0; step < 2; ++step) {
    LocalTensor<half> left = a2.AllocTensor<half>(), right = b2.AllocTensor<half>();
    const uint16_t start = fault == fractal_beyond ? 3 : step * 2;
    for (uint16_t i = 0; i < 2; ++i) {
      LocalTensor<half> to = left[i * 256 + (fault == a2_start ? 8 : 0)];
      LoadData(to, x, LoadData2DParams(start + i, 1, 1, 0, 0, false, 0));  // @fractal_beyond @a2_start
    }
    if (fault == float_transposed)
      LoadData(left.ReinterpretCast<float>(), x.ReinterpretCast<float>(), LoadData2DParams(0, 1, 1, 0, 0, true, 0));  // @float_transposed
    a2.EnQue(left);
    left = a2.DeQue<half>();
    for (uint16_t i = 0; i < 2; ++i)
      LoadData(right[i * 256], y, LoadData2DParams(i * 2 + step, 1, 1, 0, 0, true, 0));  // @b1_not_queued
    if (fault != b2_not_queued) {
      b2.EnQue(right);
      right = b2.DeQue<half>();
    }
    if (fault == l0a_reused && step) LoadData(left, x, LoadData2DParams(0, 1, 1, 0, 0, false, 0));
    MmadParams by(32, 32, fault == k_beyond ? 24 : 16, 0, false, step == 0 && fault != not_initial);
    if (fault == product_size) by.n = 4096;
    if (step && fault != no_barrier) PipeBarrier<PIPE_M>();
    if (fault == position) Mmad(out, x, right, by);  // @position
    Mmad(fault == c_start ? out[16] : out, left, right, by);  // @b2_not_queued @not_initial @no_barrier @k_beyond @c_start @product_size @l0a_reused
    a2.FreeTensor(left);
    b2.FreeTensor(right);
  }
  if (fault == vector_here) Adds(out, out, 1.0f, 64);  // @vector_here
  a1.FreeTensor(x);
  b1.FreeTensor(y);
  if (fault != c_not_queued) {
    co.EnQue(out);
    out = co.DeQue<float>();
  }
  FixpipeParamsV220 by(32, 32, 32, fault == rows_meet ? 24 : 32, false);
  if (fault == quantised) by.quantPre = QuantMode_t::F322F16;
  Fixpipe(gc, out, by);  // @c_not_queued @quantised @rows_meet @tiles_meet
  co.FreeTensor(out);
}
#define ENTRY(name)                                                                                            \
  KW_KERNEL(wrong_##name) {                                                                                    \
    auto a = args.tensor<const half>(0), b = args.tensor<const half>(1);                                       \
    auto c = args.tensor<float>(2);                                                                            \
    ICPU_RUN_KF(faulty, name == tiles_meet ? 2 : 1, name, kw::gm(a), kw::gm(b), kw::gm(c));                    \
  }
FAULTS(ENTRY)
