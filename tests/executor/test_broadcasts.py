"""Lanes of a warp that read one place are checked together, and their races with others are found as ever."""

import numpy as np
import pytest

from kernelwright.executor import Module, Options

PTX = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 x, .param .u32 writer) {
  .reg .b64 %d<2>; .reg .b32 %r<5>; .reg .pred %p<2>;
  ld.param.u64 %d0, [x]; ld.param.u32 %r0, [writer]; mov.u32 %r1, %tid.x; setp.eq.u32 %p0, %r1, %r0;
  BODY
  ret;
}
"""
READ = "ld.global.u32 %r2, [%d0]; ld.global.u32 %r4, [%d0];"
WRITE = "@%p0 st.global.u32 [%d0], %r1;"
SYNC = "bar.warp.sync -1;"


def found(body, writer, threads=32):
    """Execute a body in one block, in which the thread `writer` writes what all read, and say what was found."""
    module = Module.load(PTX.replace("BODY", body), assembled=True)
    run = module["k"](1, threads, [np.full(4, 99, np.uint32), writer], options=Options(threads=1))
    return {f.kind for f in run.findings}


@pytest.mark.parametrize("writer", [0, 1, 9, 31])
def test_a_lane_that_writes_what_its_warp_reads_races(writer):
    assert found(READ + WRITE, writer) == {"race"}
    assert found(WRITE + READ, writer) == {"race"}
    assert found(READ + SYNC + READ + WRITE, writer) == {"race"}
    assert found(READ + SYNC + WRITE + SYNC + READ, writer) == set()


@pytest.mark.parametrize("writer", [0, 33, 63])
def test_so_does_another_warp(writer):
    assert found(READ + WRITE, writer, 64) == {"race"}
    assert found(READ + "bar.sync 0;" + WRITE + "bar.sync 0;" + READ, writer, 64) == set()


def test_lanes_that_met_in_part_are_told_apart():
    some = (
        "setp.ge.u32 %p1, %r1, 16; @%p1 bra HALF; bra END; HALF: bar.warp.sync 0xffff0000; " + WRITE + " END:"
    )
    assert found(READ + some, 20) == {"race"}  # with the other half
