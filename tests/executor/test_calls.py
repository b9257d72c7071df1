"""Calls through pointers: tables of functions in PTX, virtual functions of CUDA C++."""

import numpy as np
import pytest

from kernelwright.executor import Module, Uninitialised
from kernelwright.executor.cuda import load_cuda

TABLE = """.version 8.0
.target sm_80
.address_size 64
.func (.param .b32 r) doubled(.param .b32 a) {
.reg .b32 %a; ld.param.b32 %a, [a]; add.u32 %a, %a, %a; st.param.b32 [r], %a; ret; }
.func (.param .b32 r) squared(.param .b32 a) {
.reg .b32 %a; ld.param.b32 %a, [a]; mul.lo.u32 %a, %a, %a; st.param.b32 [r], %a; ret; }
.func (.param .b32 r) least(.param .b32 a, .param .b32 b) {
.reg .b32 %a, %b; ld.param.b32 %a, [a]; ld.param.b32 %b, [b]; min.u32 %a, %a, %b; st.param.b32 [r], %a; ret; }
.global .align 8 .u64 table[3] = {doubled, squared, least};
.visible .entry k(.param .u64 which, .param .u64 out) {
.reg .b64 %at, %out, %f; .reg .b32 %t, %n; .reg .pred %mine;
ld.param.u64 %at, [which]; ld.param.u64 %out, [out]; mov.u32 %t, %tid.x;
mul.wide.u32 %f, %t, 4; add.u64 %out, %out, %f; add.u64 %at, %at, %f;
ld.global.u32 %n, [%at]; mul.wide.u32 %f, %n, 8; mov.u64 %at, table; add.u64 %at, %at, %f; ld.global.u64 %f, [%at];
setp.eq.u32 %mine, %t, 5; @%mine mov.u64 %f, squared;
{ .param .b32 given; .param .b32 got; st.param.b32 [given], %t;
of_one: .callprototype (.param .b32 _) _ (.param .b32 _);
call (got), %f, (given), of_one;
ld.param.b32 %n, [got]; }
st.global.u32 [%out], %n;
ret;
}
"""


def test_each_lane_calls_what_its_pointer_names():
    which, out, t = np.arange(32, dtype=np.uint32) % 2, np.empty(32, np.uint32), np.arange(32)
    which[5] = 0
    run = Module.load(TABLE)["k"](1, 32, [which, Uninitialised(out)])
    assert run.ok, [str(f) for f in run.findings]
    assert out.tolist() == np.where((which == 1) | (t == 5), t * t, 2 * t).tolist()


def test_a_pointer_to_a_function_of_another_kind_ends_the_launch():
    which = np.zeros(32, np.uint32)
    which[9] = 2
    run = Module.load(TABLE)["k"](1, 32, [which, np.zeros(32, np.uint32)])
    assert run.status == "trap"
    assert "line 19: call" in run.notes[0]


VIRTUAL = """
#include <new>
struct Op { __device__ virtual float of(float x) const = 0; };
struct Twice : Op { __device__ float of(float x) const override { return 2 * x; } };
struct Plus : Op {
  float by;
  __device__ Plus(float b) : by(b) {}
  __device__ float of(float x) const override { return x + by; }
};
extern "C" __global__ void chosen(const float* x, float* y) {
  __shared__ alignas(16) char room[2][32];
  if (threadIdx.x == 0) new (room[0]) Twice, new (room[1]) Plus(3);
  __syncthreads();  // both are there
  y[threadIdx.x] = ((const Op*)room[threadIdx.x % 3 == 0])->of(x[threadIdx.x]);
}
"""


@pytest.mark.long
@pytest.mark.needs("nvcc")
def test_virtual_functions_are_called_and_their_objects_watched():
    x, y = np.arange(64, dtype=np.float32), np.empty(64, np.float32)
    run = load_cuda(VIRTUAL)["chosen"](1, 64, [x, Uninitialised(y)])
    assert run.ok, [str(f) for f in run.findings]
    assert np.array_equal(y, np.where(np.arange(64) % 3 == 0, x + 3, 2 * x))
    run = load_cuda(VIRTUAL.replace("__syncthreads();  // both", "// both"))["chosen"](
        1, 64, [x, Uninitialised(y)]
    )
    assert {f.kind for f in run.findings} & {"race", "uninitialised"}
