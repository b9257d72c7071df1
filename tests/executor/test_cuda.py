"""CUDA C++ goes through nvcc to an execution, without a GPU."""

import numpy as np
import pytest

from kernelwright.errors import InputError
from kernelwright.executor import Options, Uninitialised
from kernelwright.executor.cuda import compile_cuda, load_cuda

pytestmark = pytest.mark.needs("nvcc")

SCALE = """
template <class T> __global__ void scale(const T* x, T* out, T a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = a * x[i];
}
template __global__ void scale<float>(const float*, float*, float, int);
"""


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_a_source_is_compiled_and_executed(target):
    module = load_cuda(SCALE, target=target)
    (name,) = module
    x, out = np.arange(100, dtype=np.float32), np.empty(100, np.float32)
    run = module[name](4, 32, [x, Uninitialised(out), 3.0, 100])
    assert run.ok
    assert module.target == target
    assert np.array_equal(out, 3 * x)


def test_a_finding_names_the_line_of_the_source():
    module = load_cuda(SCALE.replace("if (i < n) ", ""))
    x, out = np.arange(100, dtype=np.float32), np.empty(100, np.float32)
    run = module[next(iter(module))](4, 32, [x, Uninitialised(out), 3.0, 100])
    assert {f.kind for f in run.findings} == {"out-of-bounds"}
    assert {str(f.source) for f in run.findings} == {"kernel.cu:4"}


def test_what_nvcc_refuses_is_said_in_its_words():
    with pytest.raises(InputError, match=r"nvcc refused the source:(.|\n)*undefined_name"):
        compile_cuda("__global__ void k() { undefined_name(); }")


def test_a_source_cannot_include_files_of_this_machine(tmp_path):
    secret = tmp_path / "secret.h"
    secret.write_text("int secret;")
    with pytest.raises(InputError, match="nvcc refused the source"):
        compile_cuda(f'#include "{secret}"\n__global__ void k() {{}}')


GRID = """
#include <cooperative_groups.h>
extern "C" __global__ void turn(int* x, int* out) {
  auto grid = cooperative_groups::this_grid();
  int i = grid.thread_rank();
  for (int round = 0; round < 3; round++) {
    x[i] += 1;
    grid.sync();
    out[i] = x[(i + blockDim.x) % grid.size()];
    grid.sync();
  }
}
"""


@pytest.mark.parametrize("seed", [0, 3])
def test_a_grid_waits_for_all_its_blocks(seed):
    turn = load_cuda(GRID, target="sm_90")["turn"]
    x, out = np.arange(12 * 32, dtype=np.int32), np.empty(12 * 32, np.int32)
    run = turn(12, 32, [x, Uninitialised(out)], options=Options(seed=seed, deadline_s=20))
    assert run.ok, [str(f) for f in run.findings]
    assert np.array_equal(out, np.roll(np.arange(12 * 32) + 3, -32))
    with pytest.raises(InputError, match="64 blocks at most are resident"):
        turn(65, 32, [x, out])


def test_blocks_that_do_not_wait_for_the_grid_race():
    x = np.arange(12 * 32, dtype=np.int32)
    early = load_cuda(GRID.replace("grid.sync();", "", 1), target="sm_90")["turn"]
    found = {
        f.kind for seed in (0, 3) for f in early(12, 32, [x, x.copy()], options=Options(seed=seed)).findings
    }
    assert "race" in found
