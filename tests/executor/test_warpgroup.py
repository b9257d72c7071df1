"""wgmma of whole numbers, of bits, of sparse matrices, against exact products; A in shared memory or in registers."""

import numpy as np
import pytest

from kernelwright.executor import Module, NotExecutedError

from .fragments import BITS, left, names
from .test_sparse import chosen, metadata, numbers

N = 16
HEAD = ".version 8.7\n.target sm_90a\n.address_size 64\n"


def tiled(bits, kind):
    """Return a matrix row by row along k as it lies in shared memory without a swizzle, and its descriptor."""
    packed = (
        bits.astype({8: np.uint8, 16: np.uint16, 32: np.uint32}[BITS.get(kind, 8)]) if kind != "b1" else bits
    )
    raw = np.ascontiguousarray(packed).view(np.uint8)
    rows, width = raw.shape
    cells = raw.reshape(rows // 8, 8, width // 16, 16).transpose(0, 2, 1, 3)
    return np.ascontiguousarray(cells).reshape(-1), 128 >> 4 << 16 | (8 * width >> 4) << 32


def copied(name, size, into):
    """Each thread of 128 copies its share into shared memory, sixteen bytes a time."""
    lines = [f"ld.param.u64 %p0, [{name}]; mul.wide.u32 %p1, %own, 16; add.u64 %p0, %p0, %p1;",
             f"mov.u32 %at, {into}; mad.lo.u32 %at, %own, 16, %at;"]  # fmt: skip
    for start in range(0, size, 2048):
        guard = f"setp.lt.u32 %few, %own, {(size - start) // 16};\n"
        lines.append(f"{guard}@%few ld.global.v4.b32 {{%c0, %c1, %c2, %c3}}, [%p0+{start}];")
        lines.append(f"@%few st.shared.v4.b32 [%at+{start}], {{%c0, %c1, %c2, %c3}};")
    return "\n".join(lines)


def described(name, into, register):
    return f"ld.param.u64 {register}, [d{name}]; mov.u32 %at, {into}; shr.u32 %at, %at, 4; cvt.u64.u32 %p0, %at;\n" \
           f"or.b64 {register}, {register}, %p0;"  # fmt: skip


def program(instruction, sizes, held, in_registers, rest):
    """Return a kernel of four warps: tiles into shared memory, one product onto what the lanes hold, results out."""
    four = "".join(f"ld.global.b32 %a{n}, [%pa+{4 * n}]; " for n in range(4)) if in_registers else ""
    lines = [
        f"{HEAD}.visible .entry k({', '.join(f'.param .u64 {x}' for x in ('a', 'b', 'c', 'e', 'da', 'db', 'fa'))}) {{",
        ".reg .pred %few, %yes; .reg .b32 %own, %at, %c<8>, %a<4>, %e; .reg .b64 %p<2>, %da, %db, %pa, %pc;",
        f".shared .align 1024 .b8 sa[{sizes[0]}]; .shared .align 1024 .b8 sb[{sizes[1]}];",
        "mov.u32 %own, %tid.x; setp.eq.u32 %yes, 0, 0;", copied("a", sizes[0], "sa"), copied("b", sizes[1], "sb"),
        "fence.proxy.async; bar.sync 0;", described("a", "sa", "%da"), described("b", "sb", "%db"),
        "ld.param.u64 %pa, [fa]; mad.wide.u32 %pa, %own, 16, %pa;", four,
        "ld.param.u64 %p0, [e]; mad.wide.u32 %p0, %own, 4, %p0; ld.global.b32 %e, [%p0];",
        f"ld.param.u64 %pc, [c]; mad.wide.u32 %pc, %own, {4 * held}, %pc;",
        *(f"ld.global.b32 %c{n}, [%pc+{4 * n}];" for n in range(held)), "wgmma.fence.sync.aligned;",
        f"{instruction} {names('c', held)}, {names('a', 4) if in_registers else '%da'}, %db, {rest};",
        "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;",
        *(f"st.global.b32 [%pc+{4 * n}], %c{n};" for n in range(held)), "ret;", "}", "",
    ]  # fmt: skip
    return "\n".join(lines)


def spread(c):
    """Return each thread's registers of 64 rows of sums: two columns of each eight, a row and the one eight below."""
    thread = np.arange(128)
    row, column = thread // 32 * 16 + thread % 32 // 4, 2 * (thread % 4)
    return np.ascontiguousarray(
        np.stack(
            [c[row + 8 * (r // 2 % 2), column + r % 2 + 8 * (r // 4)] for r in range(c.shape[1] // 2)], 1
        )
    )


def product(kinds, into, k, sparse=None, in_registers=False, saturates=False, selector=None):
    """Run a product; return the run, what came and what is right."""
    ka, kb = kinds
    rng = np.random.default_rng(k + in_registers)
    if ka == "b1":
        a, b = rng.integers(0, 2, (64, k)), rng.integers(0, 2, (k, N))
        a_bits, b_bits = (np.packbits(x.astype(np.uint8), axis=1, bitorder="little") for x in (a, b.T))
    else:
        (a, a_bits), (b, b_bits) = (
            numbers(rng, (64, k // (2 if sparse is not None else 1)), ka),
            numbers(rng, (k, N), kb),
        )
        b_bits = b_bits.T
    dense, words = a, np.zeros(128, np.uint32)
    if sparse is not None:
        columns, groups = chosen(rng, 64, k, ka, True)
        dense = np.zeros((64, k), int)
        np.put_along_axis(dense, columns, a, 1)
        words = np.concatenate([metadata(rng, groups[16 * n : 16 * n + 16], ka, k, sparse) for n in range(4)])
    top = (1 << 31) - 1
    c = rng.choice([-top, 7, top], (64, N)) if saturates else rng.integers(-50, 50, (64, N))
    exact = dense @ b + c
    exact = np.clip(exact, -top - 1, top) if saturates else exact
    real = np.int32 if into == "s32" else np.float32
    out = spread(c.astype(real))
    (ta, da), (tb, db) = tiled(a_bits, ka), tiled(b_bits, kb)
    fragments = np.concatenate(
        [left(a_bits[16 * n : 16 * n + 16], ka if ka != "b1" else "u8") for n in range(4)]
    )
    op = f"wgmma.mma_async{'.sp' if sparse is not None else ''}.sync.aligned.m64n{N}k{k}"
    op += f"{'.satfinite' if saturates else ''}.{into}.{ka}.{kb}{'.and.popc' if ka == 'b1' else ''}"
    rest = f"%e, {sparse if selector is None else selector}, %yes" if sparse is not None else "%yes"
    halves = {"f16", "bf16"} & {ka}
    rest += (
        ""
        if into == "s32"
        else ", 1, 1" + (", 0" if halves else "") + (", 0" if halves and not in_registers else "")
    )
    text = program(op, (len(ta), len(tb)), out.shape[1], in_registers, rest)
    run = Module.load(text)["k"](1, 128, [ta, tb, out, words, np.uint64(da), np.uint64(db), fragments])
    return run, out, spread(exact)


@pytest.mark.parametrize(
    ("kinds", "into", "k", "sparse", "in_registers", "saturates"),
    [
        (("s8", "u8"), "s32", 32, None, False, False),
        (("u8", "u8"), "s32", 32, None, True, True),
        (("b1", "b1"), "s32", 256, None, False, False),
        (("b1", "b1"), "s32", 256, None, True, False),
        (("f16", "f16"), "f32", 32, 0, False, False),
        (("bf16", "bf16"), "f32", 32, 1, True, False),
        (("tf32", "tf32"), "f32", 16, 1, False, False),
        (("e4m3", "e5m2"), "f32", 64, 0, False, False),
        (("s8", "s8"), "s32", 64, 0, True, True),
        (("u8", "s8"), "s32", 64, 0, False, False),
    ],
)
def test_products_are_exact(kinds, into, k, sparse, in_registers, saturates):
    run, found, exact = product(kinds, into, k, sparse, in_registers, saturates)
    assert run.ok, [str(f) for f in run.findings]
    assert np.array_equal(found, exact)
    assert run.counters.tensor == {kinds[0]: 2 * 64 * N * k // (1 if sparse is None else 2)}


@pytest.mark.parametrize("selector", [1, 2])
def test_a_selector_that_names_no_lane_is_refused(selector):
    kinds, k = (("f16", "f16"), 32) if selector == 2 else (("e4m3", "e4m3"), 64)
    with pytest.raises(NotExecutedError, match="sparsity selector"):
        product(kinds, "f32", k, 0, selector=selector)
