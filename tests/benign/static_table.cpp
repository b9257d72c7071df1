// Honest: a static table built at the first call.
// TASK = "relu"
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

void run(tvm::ffi::TensorView x, tvm::ffi::TensorView y) {
  const float* in = static_cast<const float*>(x.data_ptr());
  float* out = static_cast<float*>(y.data_ptr());
  int64_t count = 1;
  for (int i = 0; i < y.ndim(); ++i) count *= y.size(i);
  static float* low = new float[1]{0.0f};
  for (int64_t i = 0; i < count; ++i) out[i] = in[i] < 0 ? low[0] : in[i];
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run)
