"""CUDA programs, host half and device half, run as they are on a machine without CUDA."""

import subprocess
import sys

import numpy as np
import pytest

from kernelwright.errors import InputError
from kernelwright.executor import FaultError, NotExecutedError, Uninitialised
from kernelwright.executor.program import load_program

pytestmark = pytest.mark.needs("nvcc")

PROGRAM = r"""
#include <cooperative_groups.h>
#include <initializer_list>
struct Arrays { const float* x; float* y; int n; };
__constant__ float factor[2];
__device__ int counter;
__global__ void scale(Arrays a) {
  extern __shared__ float s[];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  s[threadIdx.x] = i < a.n ? a.x[i] : 0;
  __syncthreads();  // all
  if (i < a.n) a.y[i] = s[threadIdx.x] * factor[1], atomicAdd(&counter, 1);
}
__global__ void mirror(const int* x, int* y) {
  __shared__ int s[64];
  s[threadIdx.x] = x[threadIdx.x];
#ifndef RACE
  __syncthreads();
#endif
  y[threadIdx.x] = s[63 - threadIdx.x];
}
#define CHECK(call) if (cudaError_t error = call) return -int(error)
extern "C" int twice(const float* x, float* y, int n, float a) {
  float *dx, *dy, c[2] = {7, a};
  int seen = 0;
  cudaStream_t stream;
  cudaEvent_t begin, end;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreateWithFlags(&end, cudaEventDisableTiming));
  CHECK(cudaMalloc(&dx, n * sizeof(float)));
  CHECK(cudaMallocAsync(&dy, n * sizeof(float), stream));
  CHECK(cudaMemcpyToSymbol(factor, c, sizeof c));
  CHECK(cudaMemcpyToSymbol(counter, &seen, sizeof seen));
  CHECK(cudaMemcpyAsync(dx, x, n * sizeof(float), cudaMemcpyHostToDevice, stream));
  CHECK(cudaEventRecord(begin, stream));
  CHECK(cudaFuncSetAttribute(scale, cudaFuncAttributeMaxDynamicSharedMemorySize, 60000));
  for (auto a : {Arrays{dx, dy, n}, Arrays{dy, dx, n}}) scale<<<(n + 63) / 64, 64, 60000, stream>>>(a);
  CHECK(cudaGetLastError());
  CHECK(cudaEventRecord(end, stream));
  CHECK(cudaStreamWaitEvent(stream, end, 0));
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaMemcpy(y, dx, n * sizeof(float), cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpyFromSymbol(&seen, counter, sizeof seen));
  CHECK(cudaFree(dx));
  CHECK(cudaFreeAsync(dy, stream));
  CHECK(cudaEventDestroy(begin));
  CHECK(cudaStreamDestroy(stream));
  return seen;
}
extern "C" int mirrored(const int* x, int* y) {
  mirror<<<1, 64>>>(x, y);
  return cudaDeviceSynchronize();
}
extern "C" int unwritten(int* y) {
  int *x, *z;
  cudaMalloc(&x, 256);
  cudaMalloc(&z, 256);
  cudaMemset(x, 0, 252);
  cudaMemcpy(z, x, 256, cudaMemcpyDeviceToDevice);
  mirror<<<1, 64>>>(z, y);
  return cudaFree(x);
}
extern "C" int freed(int* y) {
  int* x;
  cudaMalloc(&x, 256);
  cudaMemset(x, 0, 256);
  cudaFree(x);
  mirror<<<1, 64>>>(x, y);
  return 0;
}
extern "C" int errors(int* seen) {
  scale<<<1, 2048>>>({});
  seen[0] = cudaPeekAtLastError();
  seen[1] = cudaGetLastError();
  seen[2] = cudaGetLastError();
  mirror<<<1, 64, 50000>>>(nullptr, nullptr);
  seen[3] = cudaGetLastError();
  seen[4] = cudaFree(seen);
  seen[5] = cudaSetDevice(1);
  return 0;
}
extern "C" int asked_for(unsigned long long bytes) {
  mirror<<<1, 64, bytes>>>(nullptr, nullptr);
  return cudaGetLastError();
}
extern "C" int facts(int* seen) {
  cudaDeviceProp p;
  int least, best, blocks, value;
  CHECK(cudaGetDeviceProperties(&p, 0));
  CHECK(cudaOccupancyMaxPotentialBlockSize(&least, &best, mirror, 0, 0));
  CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, mirror, 64, 100 << 10));
  CHECK(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 0));
  cudaFuncAttributes a;
  CHECK(cudaFuncGetAttributes(&a, mirror));
  seen[0] = p.major, seen[1] = best, seen[2] = blocks, seen[3] = value == p.multiProcessorCount;
  seen[4] = int(a.sharedSizeBytes);
  return 0;
}
"""


@pytest.fixture(scope="module")
def program():
    return load_program(PROGRAM)


def test_a_program_runs_as_it_is(program):
    x, y = np.arange(100, dtype=np.float32), np.empty(100, np.float32)
    assert program.call("twice", x, Uninitialised(y), 100, np.float32(3)) == 200
    assert np.array_equal(y, 9 * x)
    assert [r.status for r in program.device.runs[-2:]] == ["ok", "ok"]


def test_variables_keep_their_values_from_launch_to_launch(program):
    x, y = np.ones(40, np.float32), np.empty(40, np.float32)
    assert program.call("twice", x, Uninitialised(y), 40, np.float32(-2)) == 80
    assert set(y) == {4.0}


def test_launch_errors_are_those_of_the_runtime(program):
    seen = np.zeros(6, np.int32)
    program.call("errors", seen)
    assert seen.tolist() == [9, 9, 0, 1, 1, 101]


def test_whole_numbers_reach_a_program_in_full(program):
    assert program.call("asked_for", 1 << 40) == 1  # bytes of shared memory, not their lower half
    with pytest.raises(InputError, match="at most 64 bits"):
        program.call("asked_for", 1 << 64)


def test_what_the_device_says_of_itself(program):
    seen = np.zeros(5, np.int32)
    assert program.call("facts", seen) == 0
    assert seen.tolist() == [9, 1024, 2, 1, 256]


def test_memory_of_the_runtime_starts_unwritten_and_copies_of_it_too(program):
    y = np.zeros(64, np.int32)
    with pytest.raises(
        FaultError, match=r"uninitialised .*kernel\.cu:16: .*thread 63.*4 bytes before|byte 252 of allocation"
    ):
        program.call("unwritten", y)


def test_memory_that_was_freed_is_no_allocation(program):
    with pytest.raises(FaultError, match=r"out-of-bounds at PTX line \d+, kernel\.cu:16"):
        program.call("freed", np.zeros(64, np.int32))


def test_a_fault_names_the_lines_of_both_sides():
    racy = load_program(PROGRAM, flags=["-DRACE"])
    with pytest.raises(FaultError, match=r"race at PTX line \d+, kernel\.cu:(16|20): .*kernel\.cu:(16|20)"):
        racy.call("mirrored", np.arange(64, dtype=np.int32), np.zeros(64, np.int32))


def test_calls_that_are_not_there_are_refused_by_name_and_line():
    source = "int main() {\n  cudaGraph_t g;\n  return cudaGraphCreate(&g, 0);\n}"
    with pytest.raises(InputError, match=r"not executed: cudaGraphCreate at kernel\.cu:3"):
        load_program(source)


def test_what_loads_the_driver_when_it_runs_is_refused_by_line():
    source = (
        '#include <dlfcn.h>\nextern "C" int go() {\n  return dlopen("libcuda.so.1", RTLD_NOW) ? 0 : 1;\n}'
    )
    with pytest.raises(InputError, match=r"not executed: dlopen at kernel\.cu:3"):
        load_program(source)


def test_ranges_for_profilers_are_marked_and_load_nothing():
    """CUB includes NVTX, whose header calls `dlopen` where a profiler is asked for."""
    source = (
        "#include <nvtx3/nvToolsExt.h>\n__global__ void k(int* x) { *x = 7; }\n"
        'extern "C" int go(int* x) {\n  nvtxRangePushA("k");\n  k<<<1, 1>>>(x);\n  nvtxRangePop();\n  return 0;\n}'
    )
    out = np.zeros(1, np.int32)
    assert load_program(source).call("go", out) == 0 and out[0] == 7
    hidden = source.replace("  nvtxRangePop();", '  dlopen("libcuda.so.1", RTLD_NOW);')
    with pytest.raises(InputError, match=r"not executed: dlopen at kernel\.cu:7"):
        load_program(f"#include <dlfcn.h>\n{hidden}")


def test_kernels_that_are_not_executed_are_refused_by_instruction():
    source = (
        '__global__ void k(int* x) { asm volatile("brkpt;"); }\n'
        'extern "C" int go(int* x) { k<<<1, 1>>>(x); return 0; }'
    )
    with pytest.raises(NotExecutedError, match=r"not executed: .*brkpt"):
        load_program(source).call("go", np.zeros(32, np.int32))


def test_a_function_that_is_not_there_is_said(program):
    with pytest.raises(InputError, match="exports no 'nosuch'"):
        program.call("nosuch")


TILES = r"""
#include <cuda.h>
#include <cuda/ptx>
#include "tiles/box.h"
namespace ptx = cuda::ptx;
__global__ void __cluster_dims__(2, 1, 1) triple(const __grid_constant__ CUtensorMap m) {
  extern __shared__ __align__(128) float s[];
  __shared__ alignas(8) uint64_t bar;
  const int place[2] = {int(blockIdx.x) * 8, 0};
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&bar, 1);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, s, &m, place, &bar);
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &bar, 256);
  }
  __syncthreads();
  while (!ptx::mbarrier_try_wait_parity(&bar, 0)) {}
  s[threadIdx.x] *= 3;
  ptx::fence_proxy_async(ptx::space_shared);
  __syncthreads();
  if (threadIdx.x == 0) {
    ptx::cp_async_bulk_tensor(ptx::space_global, ptx::space_shared, &m, place, s);
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk_wait_group(ptx::n32_t<0>());
  }
}
extern "C" int run(float* x, unsigned long long columns) {
  decltype(&cuTensorMapEncodeTiled) encode;
  cudaDriverEntryPointQueryResult found;
  auto find = [&](const char* name) {
    return cudaGetDriverEntryPointByVersion(name, (void**)&encode, 12000, cudaEnableDefault, &found);
  };
  if (find("cuInit") == cudaSuccess || cudaGetLastError() == cudaSuccess) return 1;
  if (find("cuTensorMapEncodeTiled") != cudaSuccess) return 2;
  CUtensorMap m;
  cuuint64_t sizes[] = {columns, 8}, strides[] = {columns * 4};
  cuuint32_t box[] = {8, 8}, steps[] = {1, 1};
  auto made = [&] {
    return encode(&m, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, x, sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                  CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  };
  box[0] = 512;
  if (made() != CUDA_ERROR_INVALID_VALUE) return 3;
  box[0] = BOX;
  if (made() != CUDA_SUCCESS) return 4;
  if (encode != cuTensorMapEncodeTiled) return 5;
  cudaPointerAttributes facts;
  if (cudaPointerGetAttributes(&facts, x + 1) || facts.type != cudaMemoryTypeDevice) return 6;
  if (cudaPointerGetAttributes(&facts, &m) || facts.type != cudaMemoryTypeUnregistered) return 7;
  triple<<<4, 64, 256>>>(m);
  return cudaDeviceSynchronize();
}
"""


@pytest.mark.long
def test_a_host_makes_tensor_maps_and_launches_clusters(tmp_path):
    (tmp_path / "tiles").mkdir()
    (tmp_path / "tiles" / "box.h").write_text("constexpr unsigned BOX = 8;\n")
    x = np.arange(8 * 28, dtype=np.float32).reshape(8, 28)
    before = x.copy()
    program = load_program(TILES, include=[tmp_path])
    assert program.call("run", x, np.uint64(28)) == 0
    assert np.array_equal(x, 3 * before)


FFI = r"""
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>
__global__ void twice(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
}
void run(tvm::ffi::TensorView x, tvm::ffi::TensorView y, int64_t n) {
  twice<<<(n + 63) / 64, 64>>>(static_cast<const float*>(x.data_ptr()), static_cast<float*>(y.data_ptr()), n);
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(twice, run);
"""


@pytest.mark.long
def test_a_function_that_tvm_ffi_exports_is_called_with_tensors():
    program = load_program(FFI)
    x, y = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
    program.call("twice", x, Uninitialised(y), 100)
    assert np.array_equal(y, 2 * x)
    with pytest.raises(FaultError, match="out-of-bounds"):
        program.call("twice", x, y, 128)


ANOTHER = "".join(
    f'extern "C" int {name}(...) {{ return 35; }}\n'
    for name in (
        "__cudaLaunchKernel",
        "cudaLaunchKernel",
        "cudaMalloc",
        "cudaStreamCreate",
        "cudaGetLastError",
    )
)
CALLED = """
__global__ void fill(int* y) { y[threadIdx.x] = threadIdx.x; }
extern "C" int filled(int* y) {
  cudaStream_t s;
  if (cudaStreamCreate(&s)) return 1;
  fill<<<1, 32, 0, s>>>(y);
  return cudaGetLastError();
}
"""


@pytest.mark.long
@pytest.mark.needs("nvcc")
def test_another_runtime_that_was_loaded_before_is_not_called(tmp_path):
    """Torch built for CUDA loads NVIDIA's runtime so that all find its functions."""
    (tmp_path / "other.cpp").write_text(ANOTHER)
    subprocess.run(["g++", "-shared", "-fPIC", "other.cpp", "-o", "other.so"], cwd=tmp_path, check=True)
    script = (
        f"import ctypes, numpy; ctypes.CDLL({str(tmp_path / 'other.so')!r}, mode=ctypes.RTLD_GLOBAL)\n"
        "from kernelwright.executor.program import load_program\n"
        f"y = numpy.zeros(32, numpy.int32); assert load_program({CALLED!r}).call('filled', y) == 0\n"
        "assert y.tolist() == list(range(32))\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
