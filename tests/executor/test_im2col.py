"""Tensor maps of columns of pixels: convolutions' inputs against a plain im2col, and what is wrong with such copies."""

import numpy as np
import pytest
import torch

from kernelwright.errors import InputError
from kernelwright.executor import Im2colMap, Module, NotExecutedError, Options, TensorMap, Uninitialised
from kernelwright.executor.program import load_program

PIXELS, CHANNELS = 24, 8
HEAD = ".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .align 64 .b8 m[128], .param .u64 out"
INTO = "shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
NAMES = "cwhdn"


def kernel(rank, copy=""):
    """Return a kernel that copies one column of pixels to `out`; coordinates and offsets are its last parameters."""
    names = [*NAMES[: rank - 1], "n"]
    taps = [f"tap_{name}" for name in names[1:-1]]
    given = "".join(f", .param .u32 {name}" for name in names) + "".join(f", .param .u16 {t}" for t in taps)
    reads = "".join(f"ld.param.u32 %{name}, [{name}];\n" for name in names)
    reads += "".join(f"ld.param.u16 %{tap}, [{tap}];\n" for tap in taps)
    place = ", ".join(f"%{name}" for name in names)
    copy = copy or f"cp.async.bulk.tensor.{rank}d.{INTO} [tile], [%m, {{PLACE}}], [bar], {{TAPS}};"
    copy = copy.replace("PLACE", place).replace("TAPS", ", ".join(f"%{tap}" for tap in taps))
    size = PIXELS * CHANNELS * 4
    return Module.load(
        f"""{HEAD}{given}) {{
.reg .b64 %p<4>, %m; .reg .b32 %r<4>; .reg .pred %first, %over;
mov.b64 %m, m; cvta.param.u64 %m, %m;
.reg .b32 {place}; .reg .b16 {", ".join(f"%{tap}" for tap in taps)};
.shared .align 1024 .b8 tile[{size}]; .shared .align 8 .b64 bar;
mov.u32 %r0, %tid.x; setp.eq.u32 %first, %r0, 0;
{reads}@!%first bra READY;
mbarrier.init.shared::cta.b64 [bar], 1;
fence.mbarrier_init.release.cluster;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {size};
{copy}
READY: bar.sync 0;
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %over, [bar], 0;
@!%over bra WAIT;
mov.u32 %r2, tile; ld.param.u64 %p1, [out]; shl.b32 %r3, %r0, 2; cvt.u64.u32 %p3, %r3; add.u64 %p1, %p1, %p3;
add.u32 %r2, %r2, %r3; ld.shared.b32 %r1, [%r2]; st.global.b32 [%p1], %r1;
ret;
}}
"""
    )["k"]


def columns(images, kernel_size, padding, steps, dilation):
    """Return a plain im2col: taps x pixels x channels."""
    x = torch.from_numpy(images).movedim(-1, 1)
    x = torch.nn.functional.pad(x, [p for size in padding[::-1] for p in (size, size)])
    sizes = [
        (n - d * (k - 1) - 1) // s + 1
        for n, k, s, d in zip(x.shape[2:], kernel_size, steps, dilation, strict=True)
    ]
    taps = []
    for tap in np.ndindex(*kernel_size):
        spans = [slice(t * d, t * d + s * (n - 1) + 1, s)
                 for t, d, s, n in zip(tap, dilation, steps, sizes, strict=True)]  # fmt: skip
        taps.append(x[(slice(None), slice(None), *spans)].movedim(1, -1).reshape(-1, images.shape[-1]))
    return torch.stack(taps).numpy(), sizes


@pytest.mark.parametrize(
    ("size", "kernel_size", "padding", "steps", "dilation"),
    [
        pytest.param((11,), (3,), (1,), (1,), (1,), id="NWC", marks=pytest.mark.long),
        pytest.param((7, 9), (3, 2), (1, 0), (2, 1), (1, 2), id="NHWC"),
        pytest.param(
            (4, 5, 6), (2, 1, 3), (0, 1, 1), (1, 2, 3), (2, 1, 1), id="NDHWC", marks=pytest.mark.long
        ),
    ],
)
def test_a_column_of_pixels_is_what_a_plain_im2col_has(size, kernel_size, padding, steps, dilation):
    images = np.random.default_rng(0).standard_normal((3, *size, 12)).astype(np.float32)
    expected, sizes = columns(images, kernel_size, padding, steps, dilation)
    reach = [d * (k - 1) for k, d in zip(kernel_size, dilation, strict=True)]
    given = Im2colMap(images, (PIXELS, CHANNELS), lower=[-p for p in padding], steps=steps,
                      upper=[p - r for p, r in zip(padding, reach, strict=True)])  # fmt: skip
    run_on, out = kernel(len(size) + 2), np.zeros((PIXELS, CHANNELS), np.float32)
    for n, tap in enumerate(np.ndindex(*kernel_size)):
        first = (5 * n) % expected.shape[1]  # of the pixels; some columns end behind the last image
        image, *place = np.unravel_index(first, (len(images), *sizes))
        at = [int(i) * s - p for i, s, p in zip(place, steps, padding, strict=True)][::-1]
        taps = [t * d for t, d in zip(tap, dilation, strict=True)][::-1]
        channel = 4 * (n % 3)  # the last eight lie beyond the twelve
        run = run_on(1, PIXELS * CHANNELS, [given, Uninitialised(out), channel, *at, int(image), *taps])
        assert run.ok, (run.status, [str(f) for f in run.findings])
        wanted = np.zeros((PIXELS, CHANNELS), np.float32)
        there = expected[n, first : first + PIXELS, channel : channel + CHANNELS]
        wanted[: len(there), : there.shape[1]] = there
        assert np.array_equal(out, wanted)


STORE = """mov.u32 %r1, 0;
FILL: add.u32 %r3, %r1, 1; cvt.rn.f32.u32 %r3, %r3; mov.u32 %r2, tile; add.u32 %r2, %r2, %r1; st.shared.b32 [%r2], %r3;
add.u32 %r1, %r1, 4; setp.lt.u32 %over, %r1, 768; @%over bra FILL;
fence.proxy.async.shared::cta;
cp.async.bulk.tensor.4d.global.shared::cta.im2col_no_offs.bulk_group [%m, {PLACE}], [tile];
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;
ret;"""


def test_a_column_is_stored_within_the_images():
    images = np.zeros((2, 4, 5, 8), np.float32)
    for steps, status in [((1, 1), "ok"), ((2, 2), "refused")]:  # the latter: see "Against a device"
        given = Im2colMap(images, (PIXELS, CHANNELS), lower=(-1, 0), upper=(0, 0), steps=steps)
        run = kernel(4, STORE)(1, 1, [given, np.zeros(1), 0, 0, -1, 1, 0, 0], options=Options(deadline_s=20))
        assert (run.status, [str(f) for f in run.findings]) == (status, [])
    expected = np.zeros_like(images)
    expected[1].reshape(-1, 8)[:19] = 4 * np.arange(5 * 8, 24 * 8, dtype=np.float32).reshape(19, 8) + 1
    assert np.array_equal(images, expected)


def test_what_cannot_be_such_a_column():
    x = np.zeros((2, 6, 7, 16), np.float32)
    for given, message in [
        (lambda: Im2colMap(x[0, 0], (8, 16)), "im2col with 2 dimensions"),
        (lambda: Im2colMap(x, (8, 16), lower=(1,)), r"lower of \(1,\); expected one for each of the 2"),
        (lambda: Im2colMap(x, (8,)), "expected 1 to 1024 pixels and 1 to 256 channels"),
        (lambda: Im2colMap(x, (8, 16), lower=(-129, 0)), "expected -128 to 127"),
        (lambda: Im2colMap(x, (8, 16), upper=(0, -7)), "no pixel"),
        (lambda: Im2colMap(x, (8, 16), steps=(1, 9)), "expected 1 to 8"),
        (lambda: Im2colMap(x, (8, 16), swizzle=32), "32 at most"),
    ]:
        with pytest.raises(InputError, match=message):
            given()
    right, out = Im2colMap(x, (PIXELS, CHANNELS), steps=(2, 2)), np.zeros((PIXELS, CHANNELS), np.float32)
    for given, place, said in [
        (TensorMap(x, (1, 6, 4, 8)), (0, 0), "bad-tensor-map"),
        (right, (1, 0), "refused"),
        (right, (0, -2), "refused"),
        (right, (8, 0), "refused"),
    ]:
        run = kernel(4)(1, 192, [given, out, 0, *place, 0, 0, 0], options=Options(deadline_s=2))
        assert said in {run.status, *(f.kind for f in run.findings)}, run.status


@pytest.mark.parametrize(
    "copy",
    [
        f"cp.async.bulk.tensor.4d.{INTO} [tile], [%m, {{PLACE}}], [bar];",
        f"cp.async.bulk.tensor.4d.{INTO} [tile], [%m, {{PLACE}}], [bar], {{%tap_w}};",
        f"cp.async.bulk.tensor.4d.{INTO.replace('im2col', 'im2col::w')} [tile], [%m, {{PLACE}}], [bar], {{TAPS}};",
        f"cp.async.bulk.tensor.4d.{INTO.replace('im2col', 'tile')} [tile], [%m, {{PLACE}}], [bar], {{TAPS}};",
        f"cp.async.bulk.tensor.2d.{INTO} [tile], [%m, {{%c, %n}}], [bar];",
    ],
    ids=["no offsets", "one offset", "along W alone", "offsets of a tile", "two dimensions"],
)
def test_other_columns_are_refused(copy):
    with pytest.raises(NotExecutedError, match=r"not executed: instruction .* at line \d+"):
        kernel(4, copy)


CONVOLUTION = """
#include <cuda.h>
#include <stdint.h>
__global__ void column(const __grid_constant__ CUtensorMap m, float* out, int first) {
  __shared__ alignas(128) float tile[16 * 8];
  __shared__ alignas(8) uint64_t bar;
  const uint32_t to = static_cast<uint32_t>(__cvta_generic_to_shared(tile));
  const uint32_t at = static_cast<uint32_t>(__cvta_generic_to_shared(&bar));
  const uint16_t s = blockIdx.x, r = blockIdx.y;
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1; fence.mbarrier_init.release.cluster;" :: "r"(at) : "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 512;" :: "r"(at) : "memory");
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%2, %3, %4, %2}], [%5], {%6, %7};"
                 :: "r"(to), "l"(&m), "r"(0), "r"(first), "r"(-1), "r"(at), "h"(s), "h"(r) : "memory");
  }
  __syncthreads();
  asm volatile("{ .reg .pred p; W: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra W; }"
               :: "r"(at) : "memory");
  out[(blockIdx.y * gridDim.x + blockIdx.x) * 128 + threadIdx.x] = tile[threadIdx.x];
}
extern "C" int columns(float* images, float* out, int n, int h, int w, int upper) {
  CUtensorMap m;
  const cuuint64_t sizes[] = {8, cuuint64_t(w), cuuint64_t(h), cuuint64_t(n)};
  const cuuint64_t strides[] = {32, 32 * sizes[1], 32 * sizes[1] * sizes[2]};
  const cuuint32_t steps[] = {1, 1, 2, 1};
  const int lower[] = {0, -1}, most[] = {-1, upper};
  const CUresult made = cuTensorMapEncodeIm2col(
      &m, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, images, sizes, strides, lower, most, 8, 16, steps,
      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (made != CUDA_SUCCESS) return int(made);
  column<<<dim3(2, 3), 128>>>(m, out, 0);
  return int(cudaDeviceSynchronize());
}
"""


@pytest.mark.long
@pytest.mark.needs("nvcc")
def test_columns_of_a_map_that_a_cuda_program_makes():
    images = np.random.default_rng(1).standard_normal((2, 7, 6, 8)).astype(np.float32)
    out = np.zeros((6, 16, 8), np.float32)
    program = load_program(CONVOLUTION)
    assert program.call("columns", images, Uninitialised(out), 2, 7, 6, -1) == 0
    expected, _ = columns(images, (3, 2), (1, 0), (2, 1), (1, 1))
    assert np.array_equal(out, expected[:, :16])
    assert program.call("columns", images, Uninitialised(out), 2, 7, 6, -9) == 1  # CUDA_ERROR_INVALID_VALUE
