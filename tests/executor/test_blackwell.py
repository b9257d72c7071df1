"""tcgen05: products in tensor memory, from tiles of every layout; what is forgotten around them is found."""

import numpy as np
import pytest
import torch
from tests.tools import require

from kernelwright.executor import Module, NotExecutedError, Uninitialised

M, N, ROW = 128, 32, 128
CELLS = ", ".join(f"%c{n}" for n in range(N))
WAIT = "WAIT: mbarrier.try_wait.parity.shared::cta.b64 %over, [bar], 0;\n@!%over bra WAIT;\n"
FREE = "@%low tcgen05.dealloc.cta_group::1.sync.aligned.b32 %d, 32;\n"
ALLOC = "@%low tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [place], 32;\n"
FENCE = "fence.proxy.async;\n"
PRODUCT = "tcgen05.mma.cta_group::1.kind::{kind} [%d], %da, %db, %how, 0;"
LOAD = f"tcgen05.ld.sync.aligned.32x32b.x32.b32 {{{CELLS}}}, [%at];\n"


def copied(name, size):
    """Each thread copies its share of a tile into shared memory."""
    each = size // 128
    lines = [f"ld.param.u64 %p0, [{name}]; mad.wide.u32 %p0, %thread, {each}, %p0;"]
    lines.append(f"mov.u32 %at, s{name}; mad.lo.u32 %at, %thread, {each}, %at;")
    for n in range(0, each, 16):
        lines.append(f"ld.global.v4.b32 {{%c0, %c1, %c2, %c3}}, [%p0+{n}];")
        lines.append(f"st.shared.v4.b32 [%at+{n}], {{%c0, %c1, %c2, %c3}};")
    return "\n".join(lines)


def descriptor(name, register):
    return (
        f"ld.param.u64 {register}, [d{name}]; mov.u32 %at, s{name}; shr.u32 %at, %at, 4;\n"
        f"cvt.u64.u32 %p0, %at; or.b64 {register}, {register}, %p0;"
    )


TEXT = f""".version 8.7
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 out, .param .u64 da, .param .u64 db, .param .u32 how) {{
.reg .pred %first, %low, %over; .reg .b32 %thread, %at, %how, %d, %c<{N}>; .reg .b64 %p0, %da, %db;
.shared .align 1024 .b8 sa[{M * ROW}]; .shared .align 1024 .b8 sb[{N * ROW}]; .shared .align 8 .b64 bar;
.shared .align 4 .b32 place;
mov.u32 %thread, %tid.x; setp.eq.u32 %first, %thread, 0; setp.lt.u32 %low, %thread, 32;
{copied("a", M * ROW)}
{copied("b", N * ROW)}
{ALLOC}@%first mbarrier.init.shared::cta.b64 [bar], 1;
{FENCE}bar.sync 0;
ld.shared.b32 %d, [place]; ld.param.u32 %how, [how];
{descriptor("a", "%da")}
{descriptor("b", "%db")}
@%first {PRODUCT}
@%first tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar];
{WAIT}tcgen05.fence::after_thread_sync;
shr.u32 %at, %thread, 5; shl.b32 %at, %at, 21; add.u32 %at, %at, %d;
{LOAD}tcgen05.wait::ld.sync.aligned;
ld.param.u64 %p0, [out]; mad.wide.u32 %p0, %thread, {4 * N}, %p0;
""" + "\n".join(
    f"st.global.v4.b32 [%p0+{4 * n}], {{%c{n}, %c{n + 1}, %c{n + 2}, %c{n + 3}}};" for n in range(0, N, 4)
) + f"\nbar.sync 0;\n{FREE}ret;\n}}\n"  # fmt: skip
MODES = {16: 0, 32: 6, 64: 4, 128: 2}


def of_kind(text, kind="f16"):
    return text.replace("{kind}", kind)


def placed(x, size, width, turned):
    """Return a tile's bytes as they lie in shared memory, and its descriptor; `width` is the swizzle's, 16 for none."""
    raw = np.zeros(size, np.uint8)
    each = x.itemsize
    rows, k = x.shape
    row, column = np.meshgrid(np.arange(rows), np.arange(k), indexing="ij")
    groups = -(-rows // 8)
    if turned:  # rows lie side by side
        near, far = row * each, column
        leading, stride = (
            (128 * (rows * each // 16), 128) if width == 16 else (8 * width * (k // 8), 8 * width)
        )
        if width == 16:
            at = near // 16 * stride + far // 8 * leading + far % 8 * 16 + near % 16
        else:
            at = near // width * leading + far // 8 * stride + far % 8 * width + near % width
    else:
        near, far = column * each, row
        leading, stride = (128 * groups, 128) if width == 16 else (16, 8 * width)
        if width == 16:
            at = far // 8 * stride + near // 16 * leading + far % 8 * 16 + near % 16
        else:
            at = far // 8 * stride + far % 8 * width + near
    at ^= (at >> 7 & (width // 16 - 1)) << 4
    cells = raw.view(x.dtype)
    cells[at // each] = x
    word = leading // 16 << 16 | stride // 16 << 32 | 1 << 46 | MODES[width] << 61
    return raw, np.uint64(word)


def product(text, a, b, types, widths=(128, 128), turned=(False, False), more=1 << 4):
    """Run a kernel on two matrices; `types` are the numbers of their types in the instruction's descriptor."""
    given = [
        placed(x, s, w, t) for x, s, w, t in zip((a, b), (M * ROW, N * ROW), widths, turned, strict=True)
    ]
    how = more | types << 7 | types << 10 | turned[0] << 15 | turned[1] << 16 | N // 8 << 17 | M // 16 << 24
    out = np.zeros((M, N), np.float32)
    run = Module.load(text)["k"](
        1, 128, [given[0][0], given[1][0], Uninitialised(out), given[0][1], given[1][1], how]
    )
    return run, out


def operands(k, dtype=np.float16):
    rng = np.random.default_rng(k)
    return rng.integers(-4, 5, (M, k)).astype(dtype), rng.integers(-4, 5, (N, k)).astype(dtype)


@pytest.mark.parametrize(
    ("widths", "turned"),
    [
        ((128, 64), (False, False)),
        ((32, 16), (False, False)),
        ((128, 32), (True, True)),
        ((16, 64), (True, True)),
    ],
)
def test_products_of_tiles_in_every_layout(widths, turned):
    a, b = operands(16)
    run, out = product(of_kind(TEXT), a, b, 0, widths, turned)
    assert run.ok, (run.status, [str(f) for f in run.findings])
    assert np.array_equal(out, a.astype(float) @ b.astype(float).T)
    assert run.counters.tensor == {"f16": 2 * M * N * 16}


@pytest.mark.long
@pytest.mark.parametrize(("kind", "k", "types"), [("tf32", 8, 2), ("f8f6f4", 32, 0)])
def test_products_of_other_types(kind, k, types):
    a, b = operands(k, np.float32)
    given = (a, b)
    if kind == "f8f6f4":
        given = tuple(torch.from_numpy(x).to(torch.float8_e4m3fn).view(torch.uint8).numpy() for x in (a, b))
    run, out = product(of_kind(TEXT, kind), *given, types)
    assert run.ok, (run.status, [str(f) for f in run.findings])
    assert np.array_equal(out, a.astype(float) @ b.astype(float).T)


WHOLE, SATURATED, B_IS_SIGNED = 2 << 4, 1 << 3, 1 << 10


def test_products_of_bytes_add_whole_numbers():
    rng = np.random.default_rng(3)
    a, b = rng.integers(0, 256, (M, 32)), rng.integers(-128, 128, (N, 32))
    twice = TEXT.replace(PRODUCT, f"{PRODUCT}\n@%first {PRODUCT.replace('%how, 0', '%how, 1')}")
    given = a.astype(np.uint8), b.astype(np.int8).view(np.uint8)
    run, out = product(of_kind(twice, "i8"), *given, 0, more=WHOLE | B_IS_SIGNED)
    assert run.ok, (run.status, [str(f) for f in run.findings])
    assert np.array_equal(out.view(np.int32), 2 * (a @ b.T))
    run, _ = product(of_kind(twice, "i8"), *given, 0, more=WHOLE | SATURATED)
    assert run.status == "refused"


FAULTS = {
    "no wait": (WAIT, "", "copy-not-waited"),
    "no fence": (FENCE, "", "proxy-fence-missing"),
    "not given back": (FREE, "", "tensor-memory-left"),
    "other lanes": ("shl.b32 %at, %at, 21", "shl.b32 %at, %at, 20", "out-of-bounds"),
    "too many columns": (LOAD, LOAD.replace("[%at]", "[%at+1]"), "out-of-bounds"),
    "nothing allocated": (ALLOC, "", "out-of-bounds"),
    "columns that are no power of two": ("[place], 32;", "[place], 48;", "out-of-bounds"),
    "columns that nobody gives back": (ALLOC, ALLOC.replace("32;", "512;") + ALLOC, "deadlock"),
    "sums of nothing": ("%how, 0;", "%how, 1;", "uninitialised"),
    "tile written too early": (WAIT, "mov.u32 %at, sa; @%first st.shared.b32 [%at], 0;\n" + WAIT, "copy-not-waited"),
}  # fmt: skip


@pytest.mark.parametrize(
    "name", ["no wait", *(pytest.param(n, marks=pytest.mark.long) for n in list(FAULTS)[1:])]
)
def test_what_is_forgotten_is_found(name):
    right, wrong, kind = FAULTS[name]
    assert right in TEXT
    run, _ = product(of_kind(TEXT.replace(right, wrong)), *operands(16), 0)
    assert kind in {f.kind for f in run.findings}, (run.status, [str(f) for f in run.findings])


def test_a_shape_that_is_not_executed_stops_the_launch_and_others_are_refused_by_line():
    a, b = operands(16)
    run, _ = product(of_kind(TEXT), a, b, 5)
    assert run.status == "refused"
    assert "stopped at PTX line" in run.notes[0]
    line = TEXT[: TEXT.index(PRODUCT)].count("\n") + 1
    with pytest.raises(NotExecutedError, match=rf"tcgen05.cp.*at line {line}$"):
        Module.load(TEXT.replace(PRODUCT, "tcgen05.cp.cta_group::1.128x256b [%d], %da;"))["k"]


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("bm", "bn", "bk"), [(64, 64, 32), (128, 128, 64)])
def test_what_triton_makes_of_a_product_for_sm_100(bm, bn, bk):
    require("triton")
    from kernelwright.executor.triton import compile_triton, run_triton

    from . import triton_kernels as kernels

    a, b, c = torch.randn(bm, 3 * bk).half(), torch.randn(3 * bk, 2 * bn).half(), torch.empty(bm, 2 * bn)
    arguments = (a, b, Uninitialised(c), bm, 2 * bn, 3 * bk, 3 * bk, 1, 2 * bn, 1, 2 * bn, 1)
    constants = {"BM": bm, "BN": bn, "BK": bk}
    assert "tcgen05.mma" in compile_triton(kernels.matmul, arguments, constants, target=100).ptx
    run = run_triton(kernels.matmul, (1, 2), arguments, constants, target=100)
    assert run.ok, (run.status, [str(f) for f in run.findings])
    assert torch.allclose(c.double(), a.double() @ b.double(), atol=1e-3, rtol=1e-3)
