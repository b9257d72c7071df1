// Calls of the high-level library, and flags by the names of intrinsics: right kernels, and wrong ones by name; "// @name"
// marks where a fault shows.
#include "kernel_operator.h"
#include "kernelwright.h"
using namespace AscendC;

// 16 rows of 32 in, as many numbers out.
template <typename T, typename Compute>
__aicore__ inline void through(GM_ADDR x, GM_ADDR z, const Compute& compute) {
  TPipe pipe;
  TBuf<TPosition::VECCALC> from, to, own;
  pipe.InitBuffer(from, 512 * sizeof(T));
  pipe.InitBuffer(to, 512 * sizeof(T));
  pipe.InitBuffer(own, 1024);
  GlobalTensor<T> gx, gz;
  gx.SetGlobalBuffer((__gm__ T*)x, 512);
  gz.SetGlobalBuffer((__gm__ T*)z, 512);
  LocalTensor<T> a = from.Get<T>(), c = to.Get<T>();
  LocalTensor<uint8_t> work = own.Get<uint8_t>();
  DataCopy(a, gx, 512);
  set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
  wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
  Duplicate(c, (T)0.0f, 512);
  compute(a, c, work);
  pipe_barrier(PIPE_ALL);
  DataCopy(gz, c, 512);
}
#define THROUGH(name, T, ...)                                                                  \
  KW_KERNEL(name) {                                                                            \
    auto x = args.tensor<const T>(0);                                                          \
    auto z = args.tensor<T>(1);                                                                \
    const auto compute = [](LocalTensor<T> a, LocalTensor<T> c, LocalTensor<uint8_t> work) {   \
      (void)work;                                                                              \
      __VA_ARGS__;                                                                             \
    };                                                                                         \
    const auto kernel = [&](GM_ADDR from, GM_ADDR to) { through<T>(from, to, compute); };      \
    ICPU_RUN_KF(kernel, 1, kw::gm(x), kw::gm(z));                                              \
  }
constexpr uint32_t kRow[] = {1, 32}, kColumn[] = {16, 1}, kWhole[] = {16, 32}, kWrong[] = {8, 1};

THROUGH(tanh_all, float, Tanh(c, a))
THROUGH(tanh_some, half, Tanh(c, a, work, 100))
THROUGH(sigmoid_some, float, Sigmoid(c, a, 100))
THROUGH(sigmoid_all, float, Sigmoid(c, a, work))
THROUGH(erf_all, float, Erf(c, a, work))
THROUGH(sin_some, half, Sin(c, a, work, 100))
THROUGH(atan_all, float, Atan(c, a))
THROUGH(frac_all, float, Frac(c, a))
THROUGH(floor_all, half, Floor(c, a))
THROUGH(gelu_all, float, Gelu<float, true>(c, a, work, 512))
THROUGH(silu_all, float, Silu(c, a, 512))
THROUGH(sums, float, Sum(c, a, work, SumParams{16, 32, 30}))
THROUGH(means, half, Mean(c, a, MeanParams{16, 32, 30}))
THROUGH(broadcast_row, float, BroadCast<float, 2, 0>(c, a, kWhole, kRow, work))
THROUGH(broadcast_column, half, BroadCast<half, 2, 1>(c, a, kWhole, kColumn))

#define WRONG(name, T, ...) THROUGH(wrong_##name, T, __VA_ARGS__)
WRONG(row_of_30, float, Sum(c, a, SumParams{16, 30, 30}))  // @row_of_30
WRONG(more_than_a_row, float, Mean(c, a, MeanParams{16, 32, 33}))  // @more_than_a_row
WRONG(other_shape, float, BroadCast<float, 2, 1>(c, a, kWhole, kWrong))  // @other_shape
WRONG(own_source, float, Silu(a, a, 512))  // @own_source
WRONG(own_result, float, Tanh(c, a, c.ReinterpretCast<uint8_t>(), 100))  // @own_result
WRONG(beyond, float, Sigmoid(work.ReinterpretCast<float>(), a, 257))  // @beyond
WRONG(unordered, float, Tanh(c, a), SetFlag<HardEvent::V_S>(0), c.SetValue(0, 1.0f), Tanh(c, a))  // @unordered
WRONG(no_wait, float, set_flag(PIPE_V, PIPE_S, EVENT_ID1))  // @no_wait
