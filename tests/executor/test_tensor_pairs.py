"""tcgen05 of two blocks: each brings its rows of A and half of B's columns, and keeps the sums of its rows."""

import numpy as np
import pytest

from kernelwright.executor import Module, Options, Uninitialised

from .test_blackwell import copied, descriptor, placed

N, K, ROW = 32, 16, 128
SIZES = {"a": 128 * ROW, "b": N // 2 * ROW}
"""Bytes of a block's tiles, without a swizzle."""
ALLOC = "@%low tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [place], 32;\n"
FREE = "@%low tcgen05.dealloc.cta_group::2.sync.aligned.b32 %d, 32;\n"
MEET = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n"
WAIT = "WAIT: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %over, [bar], 0;\n@!%over bra WAIT;\n"
PRODUCT = "@%leads tcgen05.mma.cta_group::2.kind::f16 [%d], %da, %db, %how, 0;\n"
COMMIT = (
    "mov.b16 %both, 3;\n"
    "@%leads tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64"
    " [bar], %both;\n"
)


def text(columns):
    """Return a kernel of two blocks that stores the cells of tensor memory, lane by lane."""
    cells = ", ".join(f"%c{n}" for n in range(columns))
    tiles = "".join(
        copied(x, size).replace("%p0, %thread,", "%p0, %share,", 1).replace(
            f"ld.param.u64 %p0, [{x}];", f"mad.lo.u32 %share, %rank, 128, %thread; ld.param.u64 %p0, [{x}];"
        ) + "\n"
        for x, size in SIZES.items()
    )  # fmt: skip
    return f""".version 8.7
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 out, .param .u64 da, .param .u64 db, .param .u32 how)
.reqnctapercluster 2, 1, 1 {{
.reg .pred %first, %low, %over, %leads; .reg .b32 %thread, %at, %how, %d, %rank, %share, %c<{max(columns, 4)}>;
.reg .b64 %p0, %da, %db; .reg .b16 %both;
.shared .align 1024 .b8 sa[{SIZES["a"]}]; .shared .align 1024 .b8 sb[{SIZES["b"]}]; .shared .align 8 .b64 bar;
.shared .align 4 .b32 place;
mov.u32 %thread, %tid.x; setp.eq.u32 %first, %thread, 0; setp.lt.u32 %low, %thread, 32; mov.u32 %rank, %cluster_ctarank;
setp.eq.and.u32 %leads, %rank, 0, %first;
{tiles}
{ALLOC}@%first mbarrier.init.shared::cta.b64 [bar], 1;
fence.mbarrier_init.release.cluster;
fence.proxy.async;
{MEET}ld.shared.b32 %d, [place]; ld.param.u32 %how, [how];
{descriptor("a", "%da")}
{descriptor("b", "%db")}
{PRODUCT}{COMMIT}{WAIT}tcgen05.fence::after_thread_sync;
shr.u32 %at, %thread, 5; shl.b32 %at, %at, 21; add.u32 %at, %at, %d;
tcgen05.ld.sync.aligned.32x32b.x{columns}.b32 {{{cells}}}, [%at];
tcgen05.wait::ld.sync.aligned;
mad.lo.u32 %share, %rank, 128, %thread;
ld.param.u64 %p0, [out]; mad.wide.u32 %p0, %share, {4 * columns}, %p0;
""" + "\n".join(
        f"st.global.v4.b32 [%p0+{4 * n}], {{%c{n}, %c{n + 1}, %c{n + 2}, %c{n + 3}}};" for n in range(0, columns, 4)
    ) + f"\n{MEET}{FREE}ret;\n}}\n"  # fmt: skip


def product(ptx, m, seed=0):
    """Run a kernel of two blocks on a product of m rows; return the run, what came and what is right, by lane."""
    rng = np.random.default_rng(m)
    a, b = (rng.integers(-4, 5, (rows, K)).astype(np.float16) for rows in (m, N))
    half, columns = m // 2, N if m == 256 else N // 2
    tiles = [[placed(x[n * len(x) // 2 : (n + 1) * len(x) // 2], SIZES[name], 16, False) for n in (0, 1)]
             for name, x in (("a", a), ("b", b))]  # fmt: skip
    out = np.zeros((2, 128, columns), np.float32)
    given = [np.concatenate([raw for raw, _ in pair]) for pair in tiles]
    how = 1 << 4 | N // 8 << 17 | m // 16 << 24
    arguments = [*given, Uninitialised(out), tiles[0][0][1], tiles[1][0][1], how]
    run = Module.load(ptx)["k"](2, 128, arguments, options=Options(seed=seed, deadline_s=20))
    exact = (a.astype(float) @ b.astype(float).T).reshape(2, half, N)
    if m == 128:  # the upper half of the columns lies 64 lanes below
        exact = exact.reshape(2, half, 2, columns).transpose(0, 2, 1, 3).reshape(2, 128, columns)
    return run, out, exact


@pytest.mark.parametrize(("m", "columns"), [(256, N), (128, N // 2)])
def test_two_blocks_multiply_together(m, columns):
    for seed in (0, 3):
        run, out, exact = product(text(columns), m, seed)
        assert run.ok, (run.status, [str(f) for f in run.findings])
        assert np.array_equal(out, exact)
    assert run.counters.tensor == {"f16": 2 * m * N * K}


FAULTS = {
    "no wait": (WAIT, "", {"copy-not-waited"}),
    "only one is told": (COMMIT, COMMIT.replace(", 3;", ", 1;"), {"deadlock"}),
    "the other's tiles are not waited for": (MEET + "ld.shared.b32 %d", "bar.sync 0;\nld.shared.b32 %d", {"race"}),
    "one gives nothing back": (FREE, "setp.eq.and.u32 %low, %rank, 0, %low;\n" + FREE, {"tensor-memory-left"}),
    "one allocates": (ALLOC, "setp.eq.and.u32 %low, %rank, 0, %low;\n" + ALLOC, {"deadlock", "out-of-bounds"}),
    "other columns": (ALLOC, ALLOC.replace("@%low", "mad.lo.u32 %at, %rank, 32, 32;\n@%low").replace(" 32;", " %at;"),
                      {"out-of-bounds"}),
    "a tile of the other is written too early": (
        WAIT, "mov.u32 %at, sa; setp.eq.and.u32 %over, %rank, 1, %first; @%over st.shared.b32 [%at], 0;\n" + WAIT,
        {"copy-not-waited", "race"},
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    "name", [*list(FAULTS)[:2], *(pytest.param(n, marks=pytest.mark.long) for n in list(FAULTS)[2:])]
)
def test_what_is_forgotten_between_two_blocks_is_found(name):
    right, wrong, kinds = FAULTS[name]
    ptx = text(N)
    assert right in ptx
    run, _, _ = product(ptx.replace(right, wrong, 1), 256)
    assert kinds & {f.kind for f in run.findings}, (run.status, [str(f) for f in run.findings])


def test_a_product_of_two_blocks_needs_a_second():
    run, _, _ = product(text(N).replace(".reqnctapercluster 2, 1, 1 ", ""), 256)
    assert not run.ok
    assert "out-of-bounds" in {f.kind for f in run.findings}
