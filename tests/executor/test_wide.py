"""Registers of 128 bits, discarded lines, barriers that lanes come to by themselves, sums of pieces in a cluster."""

import numpy as np
import pytest

from kernelwright.executor import Module, Uninitialised

KERNEL = """
.version 8.8
.target sm_90
.address_size 64
.const .align 16 .b8 table[16];
.visible .entry k(.param .u64 x, .param .u64 out) {{
  .reg .b128 %w<4>; .reg .b64 %d<9>; .reg .b32 %r<9>; .reg .pred %p<4>;
  .shared .align 128 .b8 s[1024];
  .shared .align 8 .b8 bar[8];
  ld.param.u64 %d0, [x];
  ld.param.u64 %d1, [out];
  mov.u32 %r0, %tid.x;
  mul.wide.u32 %d2, %r0, 16;
  add.u64 %d2, %d1, %d2;
  {}
  ret;
}}
"""


def launched(body, x, out, block=32):
    return Module.load(KERNEL.format(body))["k"](grid=1, block=block, arguments=[x, Uninitialised(out)])


def test_values_of_128_bits_are_moved_loaded_and_stored():
    x, out = np.array([3, 5, 7, 9], np.uint64), np.zeros(64, np.uint64)
    run = launched(
        """
        ld.global.b128 %w0, [%d0];
        ld.relaxed.gpu.global.b128 %w1, [%d0+16];
        mov.b128 {%d3, %d4}, %w0;
        mov.b128 {%d5, %d6}, %w1;
        setp.eq.u32 %p0, %r0, 1;
        mov.b128 %w2, {%d6, %d3};
        @%p0 mov.b128 %w2, %w0;
        st.global.b128 [%d2], %w2;""",
        x,
        out,
    )
    assert run.ok
    assert out.reshape(32, 2).tolist() == [[9, 3], [3, 5], *[[9, 3]] * 30]


def test_of_lanes_that_compare_and_swap_128_bits_one_wins():
    x, out = np.array([0, 1], np.uint64), np.zeros(64, np.uint64)
    run = launched(
        """
        mov.u64 %d3, 0;
        mov.u64 %d4, 1;
        mov.b128 %w0, {%d3, %d4};
        cvt.u64.u32 %d5, %r0;
        add.u64 %d5, %d5, 100;
        mov.b128 %w1, {%d5, %d5};
        atom.acq_rel.gpu.global.cas.b128 %w2, [%d0], %w0, %w1;
        st.global.b128 [%d2], %w2;""",
        x,
        out,
    )
    assert run.ok
    seen = out.reshape(32, 2).tolist()
    assert x[0] == x[1] >= 100
    assert seen.count([0, 1]) == 1 and seen.count(x.tolist()) == 31


def test_exchanges_of_128_bits_pass_each_value_on_once():
    x, out = np.array([1000, 0], np.uint64), np.zeros(64, np.uint64)
    run = launched(
        """
        cvt.u64.u32 %d5, %r0;
        mov.b128 %w1, {%d5, %d0};
        atom.global.exch.b128 %w2, [%d0], %w1;
        st.global.b128 [%d2], %w2;""",
        x,
        out,
    )
    assert run.ok
    assert sorted([*out.reshape(32, 2)[:, 0].tolist(), int(x[0])]) == [*range(32), 1000]


def test_128_bits_must_lie_at_a_multiple_of_16_bytes():
    x, out = np.zeros(4, np.uint64), np.zeros(64, np.uint64)
    run = launched("ld.global.b128 %w0, [%d0+8]; st.global.b128 [%d2], %w0;", x, out)
    assert {f.kind for f in run.findings} == {"misaligned"}


@pytest.mark.parametrize(("at", "kinds"), [(0, {"uninitialised"}), (128, set())])
def test_what_is_discarded_is_unknown_until_it_is_written(at, kinds):
    x, out = np.ones(96, np.uint32), np.zeros(128, np.uint32)
    start = (
        -(x.ctypes.data % 128) % 128 // 4
    )  # arrays lie at other places in the arena: the module's start is one
    del start
    run = launched(
        f"""
        setp.ne.u32 %p0, %r0, 0;
        @%p0 ret;
        add.u64 %d3, %d0, 127;
        and.b64 %d3, %d3, -128;
        discard.global.L2 [%d3], 128;
        ld.global.u32 %r1, [%d3+{at}];
        st.global.u32 [%d2], %r1;""",
        x,
        out,
        block=1,
    )
    assert {f.kind for f in run.findings} == kinds


def test_constants_are_told_from_other_memory():
    x, out = np.zeros(4, np.uint64), np.zeros(128, np.uint32)
    run = launched(
        """
        cvta.const.u64 %d3, table;
        isspacep.const %p0, %d3;
        isspacep.global %p1, %d3;
        isspacep.const %p2, %d0;
        isspacep.global %p3, %d0;
        selp.u32 %r1, 1, 0, %p0;
        selp.u32 %r2, 1, 0, %p1;
        selp.u32 %r3, 1, 0, %p2;
        selp.u32 %r4, 1, 0, %p3;
        st.global.v4.u32 [%d2], {%r1, %r2, %r3, %r4};""".replace(
            "cvta.const.u64 %d3, table", "cvta.const.u64 %d3, table"
        ),
        x,
        out,
    )
    assert run.ok
    assert out.reshape(32, 4).tolist() == [[1, 0, 0, 1]] * 32


def test_lanes_that_part_arrive_and_count_at_barriers_that_are_not_aligned():
    x, out = np.zeros(4, np.uint64), np.zeros(256, np.uint32)
    run = launched(
        """
        setp.ge.u32 %p0, %r0, 32;
        @%p0 bra WAITS;
        setp.eq.u32 %p2, %r0, 0;
        @%p2 st.shared.u32 [s], 7;
        barrier.cta.arrive 1, 64;
        bra COUNTS;
      WAITS:
        barrier.cta.sync 1, 64;
        ld.shared.u32 %r1, [s];
      COUNTS:
        setp.lt.u32 %p1, %r0, 5;
        barrier.cta.red.popc.u32 %r2, 0, %p1;
        @%p0 st.global.v2.u32 [%d2], {%r1, %r2};
        """,
        x,
        out,
        block=64,
    )
    assert run.ok
    assert out.reshape(64, 4)[32:, :2].tolist() == [[7, 5]] * 32


def test_pieces_of_shared_memory_are_added_to_the_clusters_and_counted():
    x, out = np.zeros(4, np.uint64), np.zeros(128, np.uint32)
    run = launched(
        """
        mul.lo.u32 %r1, %r0, 4;
        mov.u32 %r2, s;
        add.u32 %r1, %r1, %r2;
        add.u32 %r3, %r0, 10;
        st.shared.u32 [%r1], %r3;
        st.shared.u32 [%r1+128], %r0;
        mov.u32 %r4, bar;
        setp.ne.u32 %p0, %r0, 0;
        @!%p0 mbarrier.init.shared.b64 [%r4], 1;
        fence.proxy.async;
        bar.sync 0;
        @%p0 bra DONE;
        mbarrier.arrive.expect_tx.shared.b64 _, [%r4], 128;
        cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32 [s+128], [s], 128, [%r4];
      DONE:
        mbarrier.try_wait.parity.shared.b64 %p1, [%r4], 0;
        @!%p1 bra DONE;
        ld.shared.u32 %r5, [%r1+128];
        st.global.u32 [%d2], %r5;""",
        x,
        out,
    )
    assert run.ok, run.findings
    assert out[::4].tolist() == [2 * n + 10 for n in range(32)]
