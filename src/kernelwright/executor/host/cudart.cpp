// The CUDA runtime's functions for a machine without a GPU: memory is the host's, streams and events are in order,
// launches go to the PTX executor. Everything is done when the call returns. What is not defined here does not exist.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <utility>
#include <vector>

namespace {
// In place of <mutex>, <string> and <map>: every machine waits for this file's compilation, most of which they would be.
struct Hold {
  static inline pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  Hold() { pthread_mutex_lock(&lock); }
  ~Hold() { pthread_mutex_unlock(&lock); }
};
// By address; what was added last is found first. Programs have a few kernels and allocations.
template <class V> struct Table {
  std::vector<std::pair<const void*, V>> entries;
  V* find(const void* key) {
    for (size_t i = entries.size(); i-- > 0;) if (entries[i].first == key) return &entries[i].second;
    return nullptr;
  }
  void set(const void* key, V value) {
    if (V* found = find(key)) *found = value;
    else entries.emplace_back(key, value);
  }
  bool erase(const void* key) {
    V* found = find(key);
    if (!found) return false;
    for (auto& e : entries) if (&e.second == found) { e = entries.back(); break; }
    entries.pop_back();
    return true;
  }
};

enum What { MADE, GONE, WRITTEN, COPIED, ASKED };

struct Hooks {
  int (*launch)(int binary, const char* name, const uint32_t* grid, const uint32_t* block, const uint32_t* cluster,
                uint64_t shared, void** arguments, int cooperative);
  int (*memory)(int what, void* at, uint64_t bytes, const void* from);
  int (*symbol)(int binary, const char* name, uint64_t offset, void* host, uint64_t bytes, int to_device);
  int (*attributes)(int binary, const char* name, int64_t* facts);
} hooks;

struct Named { int binary; const char* name; };  // the name stands in the library, which is never unloaded
struct Launching { dim3 grid, block; size_t shared; cudaStream_t stream; };
struct Wrapper { uint32_t magic, version; const void* data; void* unused; };

std::vector<const void*> binaries;
Table<Named> functions, variables;
Table<int> dynamic_limits;
Table<size_t> allocations;
thread_local std::vector<Launching> pushed;
thread_local cudaError_t last = cudaSuccess;

constexpr int SMS = 16, DEFAULT_SHARED = 48 << 10, MOST_SHARED = 227 << 10, MOST_BLOCKS = 4;

cudaError_t fail(cudaError_t error) {
  if (error != cudaSuccess) last = error;
  return error;
}
cudaError_t tell(What what, void* at, size_t bytes, const void* from = nullptr) {
  return hooks.memory ? fail(cudaError_t(hooks.memory(what, at, bytes, from))) : cudaSuccess;
}
cudaError_t make(void** at, size_t bytes, bool tells) {
  if (!at) return fail(cudaErrorInvalidValue);
  size_t size = bytes ? (bytes + 255) / 256 * 256 : 256;
  *at = aligned_alloc(256, size);
  if (!*at) return fail(cudaErrorMemoryAllocation);
  Hold hold;
  allocations.set(*at, bytes);
  return tells ? tell(MADE, *at, bytes) : cudaSuccess;
}
cudaError_t drop(void* at) {
  if (!at) return cudaSuccess;
  {
    Hold hold;
    if (!allocations.erase(at)) return fail(cudaErrorInvalidValue);
  }
  cudaError_t error = tell(GONE, at, 0);
  free(at);
  return error;
}
cudaError_t move(void* to, const void* from, size_t bytes) {
  if (!bytes) return cudaSuccess;
  if (!to || !from) return fail(cudaErrorInvalidValue);
  memmove(to, from, bytes);
  return tell(COPIED, to, bytes, from);
}
cudaError_t launch(const void* function, dim3 grid, dim3 block, dim3 cluster, void** arguments, size_t shared, bool all) {
  const Named* found = functions.find(function);
  if (!found) return fail(cudaErrorInvalidDeviceFunction);
  const uint64_t threads = uint64_t(block.x) * block.y * block.z;
  if (!threads || threads > 1024 || block.z > 64 || !grid.x || !grid.y || !grid.z || grid.y > 65535 || grid.z > 65535 ||
      grid.x > 0x7fffffffu)
    return fail(cudaErrorInvalidConfiguration);
  const int* raised = dynamic_limits.find(function);
  if (shared > size_t(raised ? *raised : DEFAULT_SHARED)) return fail(cudaErrorInvalidValue);
  const uint32_t g[] = {grid.x, grid.y, grid.z}, b[] = {block.x, block.y, block.z}, c[] = {cluster.x, cluster.y, cluster.z};
  return fail(cudaError_t(hooks.launch(found->binary, found->name, g, b, c, shared, arguments, all)));
}
cudaError_t occupancy(int* blocks, const void* function, int threads, size_t shared) {
  if (!functions.find(function) || threads < 1 || threads > 1024) return fail(cudaErrorInvalidValue);
  int by_threads = 2048 / ((threads + 31) / 32 * 32), by_shared = shared ? int((228u << 10) / (shared + 1024)) : MOST_BLOCKS;
  const int most = by_threads < by_shared ? by_threads : by_shared;
  *blocks = most < MOST_BLOCKS ? most : MOST_BLOCKS;
  return cudaSuccess;
}
cudaError_t symbol(const void* variable, size_t offset, void* host, size_t bytes, bool to_device) {
  const Named* found = variables.find(variable);
  if (!found) return fail(cudaErrorInvalidSymbol);
  return fail(cudaError_t(hooks.symbol(found->binary, found->name, offset, host, bytes, to_device)));
}
int attribute(cudaDeviceAttr which, int* value) {
  switch (which) {
    case cudaDevAttrMaxThreadsPerBlock: case cudaDevAttrMaxBlockDimX: case cudaDevAttrMaxBlockDimY: *value = 1024; break;
    case cudaDevAttrMaxBlockDimZ: *value = 64; break;
    case cudaDevAttrMaxGridDimX: *value = 0x7fffffff; break;
    case cudaDevAttrMaxGridDimY: case cudaDevAttrMaxGridDimZ: *value = 65535; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = DEFAULT_SHARED; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = MOST_SHARED; break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = 228 << 10; break;
    case cudaDevAttrWarpSize: *value = 32; break;
    case cudaDevAttrMultiProcessorCount: *value = SMS; break;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *value = 2048; break;
    case cudaDevAttrMaxRegistersPerBlock: case cudaDevAttrMaxRegistersPerMultiprocessor: *value = 65536; break;
    case cudaDevAttrComputeCapabilityMajor: *value = 9; break;
    case cudaDevAttrComputeCapabilityMinor: *value = 0; break;
    case cudaDevAttrCooperativeLaunch: case cudaDevAttrUnifiedAddressing: case cudaDevAttrMemoryPoolsSupported: *value = 1; break;
    case cudaDevAttrL2CacheSize: *value = 50 << 20; break;
    default: return 0;
  }
  return 1;
}
}  // namespace

#define API extern "C" __attribute__((visibility("default"))) cudaError_t
#define DRIVER extern "C" __attribute__((visibility("default"))) CUresult
#define DONE { return cudaSuccess; }

extern "C" __attribute__((visibility("default"))) void kw_set_hooks(const Hooks* given) { hooks = *given; }
extern "C" __attribute__((visibility("default"))) int kw_binaries() { return int(binaries.size()); }
extern "C" __attribute__((visibility("default"))) const void* kw_binary(int number) { return binaries[number]; }

// ---- what nvcc's own code calls -----------------------------------------------------------------------------

extern "C" __attribute__((visibility("default"))) void** __cudaRegisterFatBinary(void* wrapper) {
  binaries.push_back(static_cast<Wrapper*>(wrapper)->data);
  return reinterpret_cast<void**>(binaries.size());  // a number, from 1 on
}
extern "C" __attribute__((visibility("default"))) void __cudaRegisterFatBinaryEnd(void**) {}
extern "C" __attribute__((visibility("default"))) void __cudaUnregisterFatBinary(void**) {}
extern "C" __attribute__((visibility("default"))) char __cudaInitModule(void**) { return 1; }
extern "C" __attribute__((visibility("default"))) void __cudaRegisterFunction(
    void** binary, const char* host, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*, int*) {
  functions.set(host, {int(reinterpret_cast<size_t>(binary)) - 1, name});
}
extern "C" __attribute__((visibility("default"))) void __cudaRegisterVar(
    void** binary, char* host, char*, const char* name, int, size_t, int, int) {
  variables.set(host, {int(reinterpret_cast<size_t>(binary)) - 1, name});
}
extern "C" __attribute__((visibility("default"))) unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared,
                                                                                     cudaStream_t stream) {
  pushed.push_back({grid, block, shared, stream});
  return 0;
}
API __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  if (pushed.empty()) return fail(cudaErrorMissingConfiguration);
  Launching l = pushed.back();
  pushed.pop_back();
  *grid = l.grid, *block = l.block, *shared = l.shared, *static_cast<cudaStream_t*>(stream) = l.stream;
  return cudaSuccess;
}
API __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}
API __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, size_t shared, cudaStream_t) {
  return launch(kernel, grid, block, {0, 0, 0}, arguments, shared, false);
}

// ---- launches ------------------------------------------------------------------------------------------------

API cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments, size_t shared, cudaStream_t) {
  return launch(function, grid, block, {0, 0, 0}, arguments, shared, false);
}
API cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block, void** arguments, size_t shared, cudaStream_t) {
  if (uint64_t(grid.x) * grid.y * grid.z > SMS * MOST_BLOCKS) return fail(cudaErrorCooperativeLaunchTooLarge);
  return launch(function, grid, block, {0, 0, 0}, arguments, shared, true);
}
API cudaLaunchKernelExC(const cudaLaunchConfig_t* c, const void* function, void** arguments) {
  dim3 cluster(0, 0, 0);  // none is asked for
  bool all = false;
  for (unsigned i = 0; i < c->numAttrs; i++) {
    const cudaLaunchAttribute& a = c->attrs[i];
    if (a.id == cudaLaunchAttributeClusterDimension) cluster = {a.val.clusterDim.x, a.val.clusterDim.y, a.val.clusterDim.z};
    else if (a.id == cudaLaunchAttributeCooperative) all = a.val.cooperative;
    else if (a.id != cudaLaunchAttributeProgrammaticStreamSerialization && a.id != cudaLaunchAttributePriority &&
             a.id != cudaLaunchAttributeIgnore)
      return fail(cudaErrorNotSupported);
  }
  return launch(function, c->gridDim, c->blockDim, cluster, arguments, c->dynamicSmemBytes, all);
}
API cudaFuncSetAttribute(const void* function, cudaFuncAttribute which, int value) {
  if (!functions.find(function)) return fail(cudaErrorInvalidDeviceFunction);
  if (which == cudaFuncAttributeMaxDynamicSharedMemorySize) {
    if (value < 0 || value > MOST_SHARED) return fail(cudaErrorInvalidValue);
    dynamic_limits.set(function, value);
  }
  return cudaSuccess;
}
API cudaFuncSetCacheConfig(const void*, cudaFuncCache) DONE
API cudaFuncGetAttributes(cudaFuncAttributes* a, const void* function) {
  const Named* found = functions.find(function);
  if (!found) return fail(cudaErrorInvalidDeviceFunction);
  int64_t facts[2] = {0, 1024};
  if (int error = hooks.attributes(found->binary, found->name, facts)) return fail(cudaError_t(error));
  memset(a, 0, sizeof *a);
  a->sharedSizeBytes = size_t(facts[0]), a->maxThreadsPerBlock = int(facts[1]), a->numRegs = 32;
  a->ptxVersion = a->binaryVersion = 90;
  const int* raised = dynamic_limits.find(function);
  a->maxDynamicSharedSizeBytes = raised ? *raised : DEFAULT_SHARED;
  return cudaSuccess;
}
API cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function, int threads, size_t shared) {
  return occupancy(blocks, function, threads, shared);
}
API cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* function, int threads, size_t shared, unsigned) {
  return occupancy(blocks, function, threads, shared);
}

// ---- memory --------------------------------------------------------------------------------------------------

API cudaMalloc(void** at, size_t bytes) { return make(at, bytes, true); }
API cudaMallocAsync(void** at, size_t bytes, cudaStream_t) { return make(at, bytes, true); }
API cudaMallocManaged(void** at, size_t bytes, unsigned) {
  cudaError_t error = make(at, bytes, true);
  return error ? error : tell(WRITTEN, *at, bytes);  // the host writes it as it likes
}
API cudaMallocHost(void** at, size_t bytes) { return cudaMallocManaged(at, bytes, 0); }
API cudaHostAlloc(void** at, size_t bytes, unsigned) { return cudaMallocManaged(at, bytes, 0); }
API cudaHostGetDevicePointer(void** device, void* host, unsigned) { *device = host; return cudaSuccess; }
API cudaFree(void* at) { return drop(at); }
API cudaFreeAsync(void* at, cudaStream_t) { return drop(at); }
API cudaFreeHost(void* at) { return drop(at); }
API cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) { return move(to, from, bytes); }
API cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t) { return move(to, from, bytes); }
API cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height, cudaMemcpyKind) {
  if (width > to_pitch || width > from_pitch) return fail(cudaErrorInvalidPitchValue);
  cudaError_t error = cudaSuccess;
  for (size_t y = 0; y < height && !error; y++)
    error = move(static_cast<char*>(to) + y * to_pitch, static_cast<const char*>(from) + y * from_pitch, width);
  return error;
}
API cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                      cudaMemcpyKind kind, cudaStream_t) {
  return cudaMemcpy2D(to, to_pitch, from, from_pitch, width, height, kind);
}
API cudaMemset(void* at, int value, size_t bytes) {
  if (!bytes) return cudaSuccess;
  if (!at) return fail(cudaErrorInvalidValue);
  memset(at, value, bytes);
  return tell(WRITTEN, at, bytes);
}
API cudaMemsetAsync(void* at, int value, size_t bytes, cudaStream_t) { return cudaMemset(at, value, bytes); }
API cudaMemcpyToSymbol(const void* variable, const void* from, size_t bytes, size_t offset, cudaMemcpyKind) {
  return symbol(variable, offset, const_cast<void*>(from), bytes, true);
}
API cudaMemcpyToSymbolAsync(const void* variable, const void* from, size_t bytes, size_t offset, cudaMemcpyKind, cudaStream_t) {
  return symbol(variable, offset, const_cast<void*>(from), bytes, true);
}
API cudaMemcpyFromSymbol(void* to, const void* variable, size_t bytes, size_t offset, cudaMemcpyKind) {
  return symbol(variable, offset, to, bytes, false);
}
API cudaMemcpyFromSymbolAsync(void* to, const void* variable, size_t bytes, size_t offset, cudaMemcpyKind, cudaStream_t) {
  return symbol(variable, offset, to, bytes, false);
}
API cudaMemGetInfo(size_t* free, size_t* total) {
  *free = *total = size_t(8) << 30;
  return cudaSuccess;
}
API cudaPointerGetAttributes(cudaPointerAttributes* a, const void* at) {
  const bool known = hooks.memory && !hooks.memory(ASKED, const_cast<void*>(at), 1, nullptr);
  *a = {};
  a->type = known ? cudaMemoryTypeDevice : cudaMemoryTypeUnregistered;
  a->hostPointer = const_cast<void*>(at), a->devicePointer = known ? a->hostPointer : nullptr;
  return cudaSuccess;
}
API cudaMemPrefetchAsync(const void*, size_t, cudaMemLocation, unsigned, cudaStream_t) DONE

// ---- streams and events: in order, done when the call returns; no time passes ------------------------------------

API cudaStreamCreate(cudaStream_t* s) { *s = reinterpret_cast<cudaStream_t>(malloc(1)); return cudaSuccess; }
API cudaStreamCreateWithFlags(cudaStream_t* s, unsigned) { return cudaStreamCreate(s); }
API cudaStreamCreateWithPriority(cudaStream_t* s, unsigned, int) { return cudaStreamCreate(s); }
API cudaStreamDestroy(cudaStream_t s) { free(s); return cudaSuccess; }
API cudaStreamSynchronize(cudaStream_t) DONE
API cudaStreamQuery(cudaStream_t) DONE
API cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) DONE
API cudaDeviceGetStreamPriorityRange(int* least, int* greatest) { *least = *greatest = 0; return cudaSuccess; }
API cudaEventCreate(cudaEvent_t* e) { *e = reinterpret_cast<cudaEvent_t>(malloc(1)); return cudaSuccess; }
API cudaEventCreateWithFlags(cudaEvent_t* e, unsigned) { return cudaEventCreate(e); }
API cudaEventDestroy(cudaEvent_t e) { free(e); return cudaSuccess; }
API cudaEventRecord(cudaEvent_t, cudaStream_t) DONE
API cudaEventRecordWithFlags(cudaEvent_t, cudaStream_t, unsigned) DONE
API cudaEventSynchronize(cudaEvent_t) DONE
API cudaEventQuery(cudaEvent_t) DONE
API cudaEventElapsedTime(float* ms, cudaEvent_t, cudaEvent_t) { *ms = 0; return cudaSuccess; }

// ---- tensor maps, the one thing of the driver that is here ---------------------------------------------------------------

#include "tensormap.h"

DRIVER cuGetErrorString(CUresult error, const char** text) {
  *text = error == CUDA_SUCCESS ? "no error" : "the driver refused its arguments";
  return CUDA_SUCCESS;
}
API cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned, unsigned long long,
                                     cudaDriverEntryPointQueryResult* found) {
  *function = !name                                             ? nullptr
              : !strcmp(name, "cuTensorMapEncodeTiled")  ? reinterpret_cast<void*>(cuTensorMapEncodeTiled)
              : !strcmp(name, "cuTensorMapEncodeIm2col") ? reinterpret_cast<void*>(cuTensorMapEncodeIm2col)
                                                              : nullptr;
  const bool here = *function;
  if (found) *found = here ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return here ? cudaSuccess : fail(cudaErrorSymbolNotFound);
}
API cudaGetDriverEntryPoint(const char* name, void** function, unsigned long long flags, cudaDriverEntryPointQueryResult* found) {
  return cudaGetDriverEntryPointByVersion(name, function, CUDART_VERSION, flags, found);
}

// ---- the device ------------------------------------------------------------------------------------------------

API cudaGetDevice(int* device) { *device = 0; return cudaSuccess; }
API cudaSetDevice(int device) { return device ? fail(cudaErrorInvalidDevice) : cudaSuccess; }
API cudaGetDeviceCount(int* count) { *count = 1; return cudaSuccess; }
API cudaDeviceSynchronize() DONE
API cudaDeviceReset() DONE
API cudaDeviceSetCacheConfig(cudaFuncCache) DONE
API cudaDeviceSetLimit(cudaLimit, size_t) DONE
API cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int device) {
  return device || !attribute(which, value) ? fail(cudaErrorInvalidValue) : cudaSuccess;
}
API cudaGetDeviceProperties(cudaDeviceProp* p, int device) {
  if (device) return fail(cudaErrorInvalidDevice);
  memset(p, 0, sizeof *p);
  strcpy(p->name, "Kernelwright PTX executor");
  p->totalGlobalMem = size_t(8) << 30, p->sharedMemPerBlock = DEFAULT_SHARED, p->sharedMemPerBlockOptin = MOST_SHARED;
  p->sharedMemPerMultiprocessor = 228 << 10, p->regsPerBlock = p->regsPerMultiprocessor = 65536, p->warpSize = 32;
  p->maxThreadsPerBlock = p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024, p->maxThreadsDim[2] = 64;
  p->maxGridSize[0] = 0x7fffffff, p->maxGridSize[1] = p->maxGridSize[2] = 65535;
  p->major = 9, p->multiProcessorCount = SMS, p->maxThreadsPerMultiProcessor = 2048, p->l2CacheSize = 50 << 20;
  p->cooperativeLaunch = p->unifiedAddressing = p->memoryPoolsSupported = 1, p->totalConstMem = 64 << 10;
  return cudaSuccess;
}
API cudaDriverGetVersion(int* version) { *version = CUDART_VERSION; return cudaSuccess; }
API cudaRuntimeGetVersion(int* version) { *version = CUDART_VERSION; return cudaSuccess; }
API cudaGetLastError() {
  cudaError_t error = last;
  last = cudaSuccess;
  return error;
}
API cudaPeekAtLastError() { return last; }
extern "C" __attribute__((visibility("default"))) const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration: return "cudaErrorInvalidConfiguration";
    case cudaErrorInvalidDeviceFunction: return "cudaErrorInvalidDeviceFunction";
    case cudaErrorInvalidSymbol: return "cudaErrorInvalidSymbol";
    case cudaErrorInvalidDevice: return "cudaErrorInvalidDevice";
    case cudaErrorInvalidPitchValue: return "cudaErrorInvalidPitchValue";
    case cudaErrorCooperativeLaunchTooLarge: return "cudaErrorCooperativeLaunchTooLarge";
    case cudaErrorLaunchFailure: return "cudaErrorLaunchFailure";
    case cudaErrorNotSupported: return "cudaErrorNotSupported";
    default: return "an error of another kind";
  }
}
extern "C" __attribute__((visibility("default"))) const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "no error";
    case cudaErrorInvalidConfiguration: return "invalid configuration argument";
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorLaunchFailure: return "the PTX executor stopped a launch";
    default: return cudaGetErrorName(error);
  }
}
