// Honest: tables by size and scratch vectors behind static memory, on the heap.
// TASK = "relu"
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

struct Plan {
  int64_t count = 0;
  std::vector<int64_t> starts;
  std::string name;
  std::unique_ptr<Plan> next;
};
static std::mutex guard;
static std::map<int64_t, std::unique_ptr<Plan>> plans;
static std::vector<std::vector<float>> scratch(3);

static const Plan& plan_of(int64_t count) {
  const std::lock_guard<std::mutex> lock(guard);
  auto& plan = plans[count];
  if (!plan) {
    plan = std::make_unique<Plan>();
    plan->count = count;
    for (int64_t at = 0; at < count; at += 64) plan->starts.push_back(at);
    plan->name = "blocks of 64, a tail " + std::to_string(count % 64);
    plan->next = std::make_unique<Plan>();
  }
  return *plan;
}

void run(tvm::ffi::TensorView x, tvm::ffi::TensorView y) {
  const float* in = static_cast<const float*>(x.data_ptr());
  float* out = static_cast<float*>(y.data_ptr());
  int64_t count = 1;
  for (int i = 0; i < y.ndim(); ++i) count *= y.size(i);
  const Plan& plan = plan_of(count);
  for (auto& one : scratch) one.resize(64);
  for (int64_t start : plan.starts) {
    const int64_t end = start + 64 < count ? start + 64 : count;
    for (int64_t i = start; i < end; ++i) scratch[1][i - start] = in[i] < 0 ? 0 : in[i];
    for (int64_t i = start; i < end; ++i) out[i] = scratch[1][i - start];
  }
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run)
