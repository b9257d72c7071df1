"""Triton kernels, compiled for sm_80 without a GPU, give what float64 gives; bf16 products too."""

import warnings

import pytest
import sympy
import torch
from tests.tools import require
from torch.fx.experimental.sym_node import SymNode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from kernelwright.errors import InputError
from kernelwright.executor import Options, Uninitialised

require("triton")
import triton  # noqa: E402
from triton.tools.tensor_descriptor import TensorDescriptor  # noqa: E402

from kernelwright.executor.triton import executing, run_triton  # noqa: E402

from . import triton_kernels as kernels  # noqa: E402
from .conftest import keep_compiler  # noqa: E402

keep_compiler()
pytestmark = [pytest.mark.filterwarnings("ignore::UserWarning"), pytest.mark.usefixtures("compiler_again")]


def run(function, grid, arguments, constants, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        done = run_triton(function, grid, arguments, constants, options=Options(deadline_s=40), **settings)
    assert done.status == "ok"
    assert [str(f) for f in done.findings] == []
    return done


def close(got, expected, tolerance):
    error = (got.double() - expected).abs().max().item() / expected.abs().max().item()
    assert error <= tolerance, error


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_add(dtype):
    x, y = torch.randn(2, 1000).to(dtype)
    out = torch.empty(1000, dtype=dtype)
    grid = lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),)  # noqa: E731
    run(kernels.add, grid, (x, y, Uninitialised(out), 1000), {"BLOCK": 256})
    assert torch.equal(out, x + y)


@pytest.mark.parametrize("n", [37, pytest.param(1000, marks=pytest.mark.long)])
def test_softmax(n):
    x, out = torch.randn(6, n), torch.empty(6, n)
    run(kernels.softmax, (6,), (x, Uninitialised(out), n, n), {"BLOCK": triton.next_power_of_2(n)})
    close(out, torch.softmax(x.double(), 1), 1e-6)


@pytest.mark.long
def test_layer_norm():
    x, w, b, out = torch.randn(5, 300), torch.randn(300), torch.randn(300), torch.empty(5, 300)
    run(kernels.layer_norm, (5,), (x, w, b, Uninitialised(out), 300, 1e-5), {"BLOCK": 512})
    close(out, torch.nn.functional.layer_norm(x.double(), (300,), w.double(), b.double(), 1e-5), 1e-6)


@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [(torch.bfloat16, 2**-8), pytest.param(torch.float32, 2**-9, marks=pytest.mark.long)],
)
def test_matrix_products_on_tensor_cores(dtype, tolerance):
    m, n, k = 96, 80, 112
    a, b, c = torch.randn(m, k).to(dtype), torch.randn(k, n).to(dtype), torch.empty(m, n, dtype=dtype)
    done = run(
        kernels.matmul, (3, 2), (a, b, Uninitialised(c), m, n, k, k, 1, n, 1, n, 1),
        {"BM": 32, "BN": 64, "BK": 32}, num_stages=3,
    )  # fmt: skip
    close(c, a.double() @ b.double(), tolerance)
    assert done.counters.tensor_operations == 2 * 96 * 128 * 128
    assert any(name.startswith("cp.async") for name in done.counters.instructions)


@pytest.mark.long
def test_a_transposed_operand():
    a, b, c = torch.randn(64, 64).bfloat16(), torch.randn(64, 64).bfloat16(), torch.empty(64, 64)
    strides = (1, 64, 64, 1, 64, 1)
    run(
        kernels.matmul,
        (1, 1),
        (a.t(), b, Uninitialised(c), 64, 64, 64, *strides),
        {"BM": 64, "BN": 64, "BK": 32},
    )
    close(c, a.double().T @ b.double(), 1e-6)


@pytest.mark.parametrize(
    ("dtype", "turned", "tolerance"),
    [
        pytest.param(torch.float16, 0, 1e-6, marks=pytest.mark.long),
        (torch.bfloat16, 1, 1e-6),
        pytest.param(torch.float32, 0, 2**-9, marks=pytest.mark.long),
    ],
)
def test_products_of_warp_groups(dtype, turned, tolerance):
    a, b, c = torch.randn(128, 96).to(dtype), torch.randn(96, 128).to(dtype), torch.empty(128, 128)
    b = b.t().contiguous().t() if turned else b
    arguments = (a, b, Uninitialised(c), 128, 128, 96, *a.stride(), *b.stride(), 128, 1)
    done = run(kernels.matmul, (2, 2), arguments, {"BM": 64, "BN": 64, "BK": 32}, target=90)
    close(c, a.double() @ b.double(), tolerance)
    assert any(name.startswith("wgmma.mma_async") for name in done.counters.instructions)


@pytest.mark.parametrize("made", ["by the kernel", pytest.param("by the host", marks=pytest.mark.long)])
@pytest.mark.parametrize(
    ("dtype", "blocks"),
    [
        pytest.param(torch.bfloat16, (128, 64, 32), id="bf16"),
        pytest.param(torch.float16, (64, 128, 16), id="f16", marks=pytest.mark.long),
    ],
)
def test_products_whose_tiles_are_copied_by_tensor_maps(dtype, blocks, made):
    m, n, k = 160, 128, 96
    bm, bn, bk = blocks
    a, b, c = torch.randn(m, k).to(dtype), torch.randn(k, n).to(dtype), torch.empty(m, n, dtype=dtype)
    grid, constants = (triton.cdiv(m, bm), n // bn), {"BM": bm, "BN": bn, "BK": bk}
    if made == "by the host":
        maps = [
            TensorDescriptor.from_tensor(t, list(s)) for t, s in ((a, (bm, bk)), (b, (bk, bn)), (c, (bm, bn)))
        ]
        done = run(kernels.matmul_by_maps, grid, (*maps, k), constants, target=90, num_stages=3)
    else:
        done = run(kernels.matmul_makes_maps, grid, (a, b, c, m, n, k), constants, target=90, num_stages=3)
    close(c, a.double() @ b.double(), 2**-8)
    assert any(name.startswith("cp.async.bulk.tensor.2d.global") for name in done.counters.instructions)


def test_a_product_by_clusters():
    a, b, c = torch.randn(128, 64).half(), torch.randn(64, 64).half(), torch.empty(128, 64)
    arguments = (a, b, Uninitialised(c), 128, 64, 64, *a.stride(), *b.stride(), 64, 1)
    run(kernels.matmul, (2, 1), arguments, {"BM": 64, "BN": 64, "BK": 32}, target=90, num_ctas=2)
    close(c, a.double() @ b.double(), 1e-6)


def test_tiles_are_added_by_tensor_maps():
    x, out = torch.randint(-4, 5, (256, 32)).float(), torch.zeros(64, 32)
    maps = [TensorDescriptor.from_tensor(t, [64, 32]) for t in (x, out)]
    run(kernels.add_tiles, (4,), maps, {"BM": 64}, target=90)
    assert torch.equal(out, x.reshape(4, 64, 32).sum(0))
    with pytest.raises(InputError, match="they need target=90"):
        run_triton(kernels.add_tiles, (4,), maps, {"BM": 64}, target=80)


def test_an_integer_matrix_product_is_exact():
    a, b = (
        torch.randint(-128, 127, (32, 64), dtype=torch.int8),
        torch.randint(-128, 127, (64, 32), dtype=torch.int8),
    )
    c = torch.empty(32, 32, dtype=torch.int32)
    run(kernels.matmul_int, (1,), (a, b, Uninitialised(c)), {"K": 64, "BM": 32, "BN": 32})
    assert torch.equal(c, a.int() @ b.int())


def test_attention():
    q, k, v = torch.randn(3, 70, 32).half()
    out = torch.empty(70, 32).half()
    run(kernels.attention, (3,), (q, k, v, Uninitialised(out), 70, 32**-0.5), {"D": 32, "BM": 32, "BN": 32})
    close(out, torch.softmax(q.double() @ k.double().T * 32**-0.5, 1) @ v.double(), 2e-3)


def test_scan_sort_histogram_and_atomics():
    x, out = torch.randn(500), torch.empty(500)
    run(kernels.cumulative, (1,), (x, Uninitialised(out), 500), {"BLOCK": 512})
    close(out, x.double().cumsum(0), 1e-6)
    x, out = torch.randn(64), torch.empty(64)
    run(kernels.ordered, (1,), (x, Uninitialised(out)), {"BLOCK": 64}, num_warps=2)
    assert torch.equal(out, x.sort().values)
    numbers, bins = torch.randint(0, 16, (1000,), dtype=torch.int32), torch.zeros(16, dtype=torch.int32)
    run(kernels.histogram, (2,), (numbers, bins, 1000), {"BLOCK": 512, "BINS": 16})
    assert torch.equal(bins, torch.bincount(numbers, minlength=16).int())
    total = torch.zeros(1)
    run(kernels.split_k, (1,), (x, total, 64), {"BLOCK": 64})
    close(total, x.double().sum(), 1e-5)


def test_arg_max():
    x, out = torch.randn(7, 100), torch.empty(7, dtype=torch.int32)
    run(kernels.arg_max, (7,), (x, Uninitialised(out), 100), {"BLOCK": 128})
    assert torch.equal(out, x.argmax(1).int())


def test_elementwise_functions():
    x, out = torch.randn(1000) * 4, torch.empty(1000)
    run(kernels.elementwise, (4,), (x, Uninitialised(out), 1000), {"BLOCK": 256})
    v = x.double()
    expected = v.sigmoid() * v + v.erf() + v.sin() * (v.abs() + 1).log() + (v * v + 1).rsqrt() + v.floor()
    close(out, expected, 1e-5)


def test_a_program_that_launches_kernels_runs_unchanged():
    x, y = torch.randn(2, 300)
    out, total = torch.empty(300), torch.zeros(1)
    with executing() as runs:
        kernels.add[(3,)](x, y, out, 300, BLOCK=128, num_warps=4)
        kernels.split_k[lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),)](
            out, out=total, n=300, BLOCK=128
        )
        kernels.add[(0,)](x, y, total, 300, BLOCK=128)  # an empty grid launches nothing, as for Triton itself
    assert [r.ok for r in runs] == [True, True]
    close(total, (x + y).double().sum(), 1e-5)
    with pytest.raises(RuntimeError):
        kernels.add[(3,)](x, y, out, 300, BLOCK=128)  # outside, Triton looks for its own device again


@pytest.mark.long
def test_block_pointers_move_and_are_masked_where_bounds_are_checked():
    a, b, c = torch.randn(50, 70), torch.randn(70, 30), torch.full((50, 30), 7.0)
    sizes = {"BM": 32, "BN": 32, "BK": 32}
    run(kernels.matmul_by_blocks, (2,), (a, b, c, 50, 30, 70, 70, 30, 30), sizes)
    close(c, a.double() @ b.double(), 1e-5)


def test_block_pointers_pad_or_leave_their_block():
    x, out = torch.ones(10), torch.empty(16)
    run(kernels.padded_by_blocks, (1,), (x, Uninitialised(out), 10), {"BLOCK": 16})
    assert torch.equal(out[:10], x)
    assert out[10:].isnan().all()
    done = run_triton(kernels.unchecked_by_blocks, (1,), (x, Uninitialised(out), 10), {"BLOCK": 16})
    assert {f.kind for f in done.findings} == {"out-of-bounds"}


@pytest.mark.long
def test_a_tensor_that_triton_reinterprets_has_that_type():
    x, out = torch.randn(100).to(torch.float8_e5m2), torch.empty(100, dtype=torch.float16)
    seen = triton.reinterpret(x.view(torch.int8), triton.language.float8e5)
    run(kernels.copied, (1,), (seen, Uninitialised(out), 100), {"BLOCK": 128})
    assert torch.equal(out, x.to(torch.float16))


def test_torchs_own_integers_are_numbers():
    four, many = (torch.SymInt(SymNode(sympy.Integer(n), ShapeEnv(), int, n)) for n in (4, 256))
    x, y, out = torch.randn(256), torch.randn(256), torch.empty(256)
    done = run(kernels.add, (four,), (x, y, Uninitialised(out), many), {"BLOCK": 64})
    assert torch.equal(out, x + y)
    assert type(done.counters.blocks) is int


def test_a_missing_tail_mask_is_found():
    x, out = torch.randn(100), torch.empty(100)
    done = run_triton(kernels.unmasked, (1,), (x, Uninitialised(out), 100), {"BLOCK": 128})
    assert {f.kind for f in done.findings} == {"out-of-bounds"}
    assert done.findings[0].source.file.endswith("triton_kernels.py")


def test_programs_that_race_are_found():
    x, out = torch.randn(256), torch.zeros(1)
    done = run_triton(kernels.racy_total, (4,), (x, out), {"BLOCK": 64})
    assert "race" in {f.kind for f in done.findings}


def test_what_cannot_be_compiled_is_said():
    with pytest.raises(InputError, match=r"no function of @triton\.jit"):
        run_triton(len, (1,), (), {})
    with pytest.raises(InputError, match="no argument for the parameter 'out'"):
        run_triton(kernels.add, (1,), (torch.ones(4), torch.ones(4)), {"BLOCK": 4})
