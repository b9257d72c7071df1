// What CuTe DSL's runtime calls to load a library of kernels: it comes as PTX from the executor, and not as the machine
// code that the host's half carries. All else is the CUDA runtime's of a machine without a GPU (cudart.cpp).
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstdio>
#include <cstring>

#define API extern "C" __attribute__((visibility("default"))) cudaError_t

extern "C" void** __cudaRegisterFatBinary(void* wrapper);
extern "C" void __cudaRegisterFunction(void**, const char*, char*, const char*, int, uint3*, uint3*, dim3*, dim3*, int*);

namespace {
struct Wrapper { uint32_t magic, version; const void* data; void* unused; };
const void* given;
}  // namespace

extern "C" __attribute__((visibility("default"))) void kw_give(const void* binary) { given = binary; }

API cudaLibraryLoadData(cudaLibrary_t* library, const void*, cudaJitOption*, void**, unsigned, cudaLibraryOption*, void**,
                        unsigned) {
  if (!given) return cudaErrorInvalidValue;
  *library = reinterpret_cast<cudaLibrary_t>(__cudaRegisterFatBinary(new Wrapper{0x466243b1, 1, given, nullptr}));
  given = nullptr;
  return cudaSuccess;
}
API cudaLibraryUnload(cudaLibrary_t) { return cudaSuccess; }
API cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t library, const char* name) {
  char* host = new char(0);  // what the runtime knows the kernel by
  __cudaRegisterFunction(reinterpret_cast<void**>(library), host, host, name, -1, nullptr, nullptr, nullptr, nullptr, nullptr);
  *kernel = reinterpret_cast<cudaKernel_t>(host);
  return cudaSuccess;
}
API cudaKernelSetAttributeForDevice(cudaKernel_t kernel, cudaFuncAttribute which, int value, int) {
  return cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), which, value);
}

// ---- the same by the driver's names, which its runtime asks for ------------------------------------------------

static CUresult load_data(CUlibrary* library, const void* code, CUjit_option*, void**, unsigned, CUlibraryOption*, void**,
                          unsigned) {
  auto made = reinterpret_cast<cudaLibrary_t*>(library);
  return cudaLibraryLoadData(made, code, nullptr, nullptr, 0, nullptr, nullptr, 0) == cudaSuccess ? CUDA_SUCCESS
                                                                                                 : CUDA_ERROR_INVALID_IMAGE;
}
static CUresult get_kernel(CUkernel* kernel, CUlibrary library, const char* name) {
  cudaLibraryGetKernel(reinterpret_cast<cudaKernel_t*>(kernel), reinterpret_cast<cudaLibrary_t>(library), name);
  return CUDA_SUCCESS;
}
static CUresult unload(CUlibrary) { return CUDA_SUCCESS; }
static CUresult get_device(CUdevice* device, int number) { *device = number; return CUDA_SUCCESS; }
static CUresult get_attribute(int* value, CUfunction_attribute which, CUkernel kernel, CUdevice) {
  cudaFuncAttributes facts{};
  if (cudaFuncGetAttributes(&facts, reinterpret_cast<const void*>(kernel)) != cudaSuccess) return CUDA_ERROR_INVALID_VALUE;
  switch (which) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = facts.maxThreadsPerBlock; break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: *value = int(facts.sharedSizeBytes); break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: *value = facts.maxDynamicSharedSizeBytes; break;
    default: return CUDA_ERROR_NOT_SUPPORTED;
  }
  return CUDA_SUCCESS;
}

API cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned, unsigned long long,
                                     cudaDriverEntryPointQueryResult* found) {
  struct { const char* name; void* function; } here[] = {
      {"cuLibraryLoadData", reinterpret_cast<void*>(load_data)}, {"cuLibraryGetKernel", reinterpret_cast<void*>(get_kernel)},
      {"cuLibraryUnload", reinterpret_cast<void*>(unload)}, {"cuDeviceGet", reinterpret_cast<void*>(get_device)},
      {"cuKernelGetAttribute", reinterpret_cast<void*>(get_attribute)},
      {"cuTensorMapEncodeTiled", reinterpret_cast<void*>(cuTensorMapEncodeTiled)}};
  for (auto& one : here)
    if (!std::strcmp(name, one.name)) {
      *function = one.function;
      if (found) *found = cudaDriverEntryPointSuccess;
      return cudaSuccess;
    }
  std::fprintf(stderr, "not executed: CuTe DSL asks the driver for %s\n", name);
  *function = nullptr;
  if (found) *found = cudaDriverEntryPointSymbolNotFound;
  return cudaErrorSymbolNotFound;
}

// ---- what its runtime names and nothing here does: a call says so ---------------------------------------------

API kw_not_here() { return cudaErrorNotSupported; }
#define NOT_HERE(name) __asm__(".globl " #name "\n.set " #name ", kw_not_here\n");
NOT_HERE(cudaGraphAddKernelNode)
NOT_HERE(cudaGraphCreate)
NOT_HERE(cudaGraphDestroy)
NOT_HERE(cudaGraphExecDestroy)
NOT_HERE(cudaGraphInstantiate)
NOT_HERE(cudaGraphKernelNodeGetAttribute)
NOT_HERE(cudaGraphKernelNodeSetAttribute)
NOT_HERE(cudaGraphLaunch)
NOT_HERE(cudaLibraryGetGlobal)
NOT_HERE(cudaLibraryGetKernelCount)
NOT_HERE(cudaLibraryGetManaged)
NOT_HERE(cudaLibraryGetUnifiedFunction)
NOT_HERE(cudaLibraryLoadFromFile)
NOT_HERE(cudaMemcpy3D)
NOT_HERE(cudaMemcpy3DAsync)
NOT_HERE(cudaProfilerStart)
NOT_HERE(cudaProfilerStop)
NOT_HERE(cudaStreamAddCallback)
NOT_HERE(cudaStreamBeginCapture)
NOT_HERE(cudaStreamEndCapture)
