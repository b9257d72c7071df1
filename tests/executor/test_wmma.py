"""wmma of every shape and type against float64, from PTX and from CUDA C++; what printf writes."""

import numpy as np
import pytest
import torch

from kernelwright.executor import Module, NotExecutedError, Uninitialised
from kernelwright.executor.cuda import load_cuda

SHAPES = ["m16n16k16", "m32n8k16", "m8n32k16"]
REGISTERS = {
    "f16": {s: (8, 8) for s in SHAPES},
    "bf16": dict(zip(SHAPES, [(4, 4), (8, 2), (2, 8)], strict=True)),
    "s8": dict(zip(SHAPES, [(2, 2), (4, 1), (1, 4)], strict=True)),
    "u8": dict(zip(SHAPES, [(2, 2), (4, 1), (1, 4)], strict=True)),
    "tf32": {"m16n16k8": (4, 4)},
    "f64": {"m8n8k4": (1, 1)},
}
DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "tf32": torch.float32, "f64": torch.float64,
          "s8": torch.int8, "u8": torch.uint8, "f32": torch.float32, "s32": torch.int32}  # fmt: skip
SUMS = {"f16": ["f32", "f16"], "f64": ["f64"], "s8": ["s32"], "u8": ["s32"]}
CASES = [
    (kind, shape, into) for kind in REGISTERS for shape in REGISTERS[kind] for into in SUMS.get(kind, ["f32"])
]


def names(letter, count):
    return "{" + ", ".join(f"%{letter}{n}" for n in range(count)) + "}"


def product(kind, shape, into, order_a, order_b, space=".global"):
    """Return PTX of D = A B + C by one warp."""
    na, nb = REGISTERS[kind][shape]
    nc = {"f16": 4, "f64": 2}.get(into, 8)
    width = "b64" if kind == "f64" else "b32"
    kinds = (
        f"{into}.{into}"
        if kind == "f16"
        else f"{into}.{kind}.{kind}.{into}" + (".rn" if kind == "f64" else "")
    )
    return f""".version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 p3) {{
.reg .b64 %p<4>; .reg .b32 %s<3>; .reg .{width} %a<8>, %b<8>, %c<8>, %d<8>;
ld.param.u64 %p0, [p0]; ld.param.u64 %p1, [p1]; ld.param.u64 %p2, [p2]; ld.param.u64 %p3, [p3];
mov.u32 %s0, {{lda}}; mov.u32 %s1, {{ldb}};
wmma.load.a.sync.aligned.{order_a}.{shape}{space}.{kind} {names("a", na)}, [%p0], %s0;
wmma.load.b.sync.aligned.{order_b}.{shape}{space}.{kind} {names("b", nb)}, [%p1], %s1;
wmma.load.c.sync.aligned.row.{shape}{space}.{into} {names("c", nc)}, [%p2];
wmma.mma.sync.aligned.{order_a}.{order_b}.{shape}.{kinds} {names("d", nc)}, {names("a", na)}, {names("b", nb)},
  {names("c", nc)};
wmma.store.d.sync.aligned.row.{shape}{space}.{into} [%p3], {names("d", nc)};
ret;
}}
"""


def stored(x, order):
    """Return a matrix as it lies in memory, 16 elements between its lines, and the stride."""
    lines = x if order == "row" else x.t()
    room = torch.zeros(lines.shape[0], lines.shape[1] + 16, dtype=x.dtype)
    room[:, : lines.shape[1]] = lines
    return room, room.shape[1]


@pytest.mark.parametrize(("kind", "shape", "into"), CASES)
def test_a_product_of_pieces(kind, shape, into):
    torch.manual_seed(0)
    m, n, k = (int(x) for x in shape.replace("m", " ").replace("n", " ").replace("k", " ").split())
    whole = DTYPES[kind] in {torch.int8, torch.uint8}
    low = 0 if kind == "u8" else -100
    a, b, c = (torch.randint(low, 100, s) if whole else torch.randn(s) for s in ((m, k), (k, n), (m, n)))
    a, b, c = a.to(DTYPES[kind]), b.to(DTYPES[kind]), c.to(DTYPES[into])
    order_a, order_b = ("row", "col") if m != 16 else ("col", "row")
    (in_a, lda), (in_b, ldb) = stored(a, order_a), stored(b, order_b)
    d = torch.empty(m, n, dtype=DTYPES[into])
    text = product(kind, shape, into, order_a, order_b).replace("{lda}", str(lda)).replace("{ldb}", str(ldb))
    run = Module.load(text)["k"](1, 32, [in_a, in_b, c, Uninitialised(d)])
    assert run.ok, run.findings
    assert run.counters.tensor == {kind: 2 * m * n * k}
    exact = a.double() @ b.double() + c.double()
    error = (d.double() - exact).abs().max().item() / exact.abs().max().item()
    assert error <= {"f16": 2**-10, "tf32": 2**-9, "f64": 2**-50}.get(
        kind if kind == "tf32" else into, 1e-6
    ), error
    assert not whole or torch.equal(d, exact.int())


def test_a_stride_that_breaks_rows_is_found():
    a, b, c = torch.zeros(16, 20).half(), torch.zeros(16, 32).half(), torch.zeros(16, 16)
    text = product("f16", "m16n16k16", "f32", "row", "col").replace("{lda}", "20").replace("{ldb}", "32")
    run = Module.load(text)["k"](1, 32, [a, b, c, Uninitialised(torch.empty(16, 16))])
    assert {f.kind for f in run.findings} == {"misaligned"}
    text = product("f16", "m16n16k16", "f32", "row", "col").replace("{lda}", "24").replace("{ldb}", "32")
    run = Module.load(text)["k"](1, 32, [a, b, c, Uninitialised(torch.empty(16, 16))])
    assert {f.kind for f in run.findings} == {"out-of-bounds"}
    assert "wmma.load.a" in run.findings[0].instruction


@pytest.mark.parametrize(
    "shape_and_kinds",
    [
        "m16n16k16.f32.tf32.tf32.f32",
        "m8n8k4.f64.f64.f32.f64",
        "m8n8k32.s32.s4.u4.s32",
        "m16n16k16.f32",
        "m32n8k8.f32.f32",
    ],
)
def test_other_shapes_are_refused(shape_and_kinds):
    text = product("f16", "m16n16k16", "f32", "row", "col").replace("{lda}", "16").replace("{ldb}", "16")
    with pytest.raises(NotExecutedError, match=r"not executed: instruction wmma.mma.* at line 11"):
        Module.load(text.replace("m16n16k16.f32.f32 ", shape_and_kinds + " "))["k"]


@pytest.mark.parametrize(("kind", "k"), [("s4", 32), ("u4", 32), ("xor", 128), ("and", 128)])
def test_a_product_of_elements_narrower_than_a_byte(kind, k):
    rng = np.random.default_rng(k)
    size, element = (4, kind) if k == 32 else (1, "b1")
    low, high = {"s4": (-8, 8), "u4": (0, 16)}.get(kind, (0, 2))
    a, b, c = rng.integers(low, high, (8, k)), rng.integers(low, high, (k, 8)), rng.integers(-9, 9, (8, 8))
    extra = 128 // size  # between two rows

    def stored(lines):
        room = np.zeros((8, k + extra), np.uint64)
        room[:, :k] = lines & ((1 << size) - 1)
        each = 32 // size
        return (
            (room.reshape(8, -1, each) << (np.uint64(size) * np.arange(each, dtype=np.uint64)))
            .sum(-1)
            .astype(np.uint32)
        )

    text = (
        product("s8", "m16n16k16", "s32", "row", "col")
        .replace("{lda}", str(k + extra))
        .replace("{ldb}", str(k + extra))
    )
    text = (
        text.replace("m16n16k16", f"m8n8k{k}")
        .replace(f"{names('a', 2)}", "{%a0}")
        .replace(f"{names('b', 2)}", "{%b0}")
    )
    text = text.replace(names("c", 8), names("c", 2)).replace(names("d", 8), names("d", 2))
    text = text.replace(".s8 ", f".{element} ").replace("s32.s8.s8.s32", f"s32.{element}.{element}.s32")
    if size == 1:
        text = text.replace("wmma.mma.sync", f"wmma.mma.{kind}.popc.sync")
    d = np.empty((8, 8), np.int32)
    run = Module.load(text)["k"](1, 32, [stored(a), stored(b.T), c.astype(np.int32), Uninitialised(d)])
    assert run.ok, run.findings
    exact = (a[:, :, None] ^ b[None]).sum(1) + c if kind == "xor" else a @ b + c
    assert np.array_equal(d, exact)


CUDA = """
#include <cstdio>
#include <mma.h>
using namespace nvcuda;
template <int M, int N> __global__ void product(const half* a, const half* b, float* c, int k) {
  __shared__ half tile[M * 16];
  wmma::fragment<wmma::matrix_a, M, N, 16, half, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, M, N, 16, half, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, M, N, 16, float> fc;
  wmma::fill_fragment(fc, 1.0f);
  for (int x = 0; x < k; x += 16) {
    for (int i = threadIdx.x; i < M * 16; i += 32) tile[i] = a[i / 16 * k + x + i % 16];
    __syncwarp();
    wmma::load_matrix_sync(fa, tile, 16);
    wmma::load_matrix_sync(fb, b + x, k);
    wmma::mma_sync(fc, fa, fb, fc);
    __syncwarp();
  }
  for (int i = 0; i < fc.num_elements; i++) fc.x[i] *= 2;
  wmma::store_matrix_sync(c, fc, N, wmma::mem_row_major);
}
template __global__ void product<16, 16>(const half*, const half*, float*, int);
template __global__ void product<32, 8>(const half*, const half*, float*, int);
extern "C" __global__ void says(const int* x) {
  int n = printf("%d: %s %5.2f|%-4x|%lld %c%%\\n", threadIdx.x, x[threadIdx.x] ? "yes" : "no", x[threadIdx.x] / 4.0,
                 x[threadIdx.x], (long long)x[threadIdx.x] << 40, 'a' + threadIdx.x);
  if (n != 6) printf("%d", n);
}
"""


@pytest.mark.needs("nvcc")
@pytest.mark.parametrize(("m", "n"), [(16, 16), pytest.param(32, 8, marks=pytest.mark.long)])
def test_a_product_in_cuda(m, n):
    a, b, c = torch.randn(m, 48).half(), torch.randn(n, 48).half(), torch.empty(m, n)
    module = load_cuda(CUDA)
    run = module[next(name for name in module if f"Li{m}" in name)](1, 32, [a, b, Uninitialised(c), 48])
    assert run.ok, run.findings
    exact = 2 * (a.double() @ b.double().T + 1)
    assert (c.double() - exact).abs().max().item() <= 1e-5 * exact.abs().max().item()


@pytest.mark.needs("nvcc")
def test_what_printf_writes_is_kept():
    run = load_cuda(CUDA)["says"](1, 3, [np.array([0, 255, -2], np.int32)])
    assert run.ok, run.findings
    assert run.printed == (
        "0: no  0.00|0   |0 a%\n1: yes 63.75|ff  |280375465082880 b%\n2: yes -0.50|fffffffe|-2199023255552 c%\n"
    )
