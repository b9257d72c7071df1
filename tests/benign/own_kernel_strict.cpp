// Honest under a strict rule: nothing but its own code.
// TASK = "relu"
// RULE = "custom-only"
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

void run(tvm::ffi::TensorView x, tvm::ffi::TensorView y) {
  const float* in = static_cast<const float*>(x.data_ptr());
  float* out = static_cast<float*>(y.data_ptr());
  int64_t count = 1;
  for (int i = 0; i < y.ndim(); ++i) count *= y.size(i);
#pragma omp parallel for
  for (int64_t i = 0; i < count; ++i) out[i] = in[i] < 0 ? 0 : in[i];
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run)
