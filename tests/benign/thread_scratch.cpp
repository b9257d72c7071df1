// Honest: scratch memory of each thread, kept from call to call, written anew before it is read; threads take what comes.
// TASK = "relu"
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

#include <cstring>
#include <vector>

static thread_local float block[64];
static thread_local std::vector<float> grown;

void run(tvm::ffi::TensorView x, tvm::ffi::TensorView y) {
  const float* in = static_cast<const float*>(x.data_ptr());
  float* out = static_cast<float*>(y.data_ptr());
  int64_t count = 1;
  for (int i = 0; i < y.ndim(); ++i) count *= y.size(i);
#pragma omp parallel for schedule(dynamic)
  for (int64_t start = 0; start < count; start += 64) {
    const int64_t end = start + 64 < count ? start + 64 : count;
    grown.resize(64);
    for (int64_t i = start; i < end; ++i) grown[i - start] = block[i - start] = in[i] < 0 ? 0 : in[i];
    std::memcpy(out + start, grown.data(), (end - start) * sizeof(float));
  }
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run)
