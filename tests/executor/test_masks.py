"""Lanes of one instruction may name different others; matrices that are turned between registers."""

import numpy as np

from kernelwright.executor import Module, Uninitialised

from .test_more_instructions import lanes

SUMS = """
setp.lt.u32 %p, %lane, 16;
selp.b32 %mask, 0x0000ffff, {upper}, %p;
and.b32 %seg, %lane, 15;
{before}
ld.global.b32 %v, [%at0];
shfl.sync.bfly.b32 %o, %v, 8, 0x101f, %mask;
add.s32 %v, %v, %o;
redux.sync.add.s32 %o, %v, %mask;
st.global.v2.b32 [%at1], {{%v, %o}};
"""
REGISTERS = ".reg .b32 %v, %o, %mask, %seg;\n.reg .pred %p, %q;"


def sums(upper="0xffff0000", before=""):
    x, out = np.arange(32, dtype=np.int32) ** 2, np.empty((32, 2), np.int32)
    ptx = lanes(2, REGISTERS, SUMS.format(upper=upper, before=before), (4, 8))
    return x, out, Module.load(ptx)["k"](1, 32, [x, Uninitialised(out)])


def test_halves_of_a_warp_that_name_themselves_meet_by_themselves():
    x, out, run = sums()
    assert run.ok, run.findings
    assert out[:, 0].tolist() == (x + x[np.arange(32) ^ 8]).tolist()
    assert out[:, 1].tolist() == np.repeat(2 * x.reshape(2, 16).sum(1), 16).tolist()


def test_halves_that_come_one_after_the_other_wait_for_their_own_lanes_only():
    wait = "setp.gt.u32 %q, %seg, 11;\n@%q bra LATE;\nbra MEET;\nLATE: mul.lo.u32 %seg, %seg, %seg;\nMEET:"
    x, out, run = sums(before=wait)
    assert run.ok, run.findings
    assert out[:, 0].tolist() == (x + x[np.arange(32) ^ 8]).tolist()


def test_a_half_that_names_lanes_of_the_other_is_found():
    _, _, run = sums(upper="0xffff8000")
    assert {f.kind for f in run.findings} == {"lanes-not-there"}


def test_a_matrix_is_turned():
    x, out = np.arange(64, dtype=np.uint16), np.empty(64, np.uint16)
    body = "ld.global.b32 %v, [%at0];\nmovmatrix.sync.aligned.m8n8.trans.b16 %o, %v;\nst.global.b32 [%at1], %o;\n"
    run = Module.load(lanes(2, ".reg .b32 %v, %o;", body, (4, 4)))["k"](1, 32, [x, Uninitialised(out)])
    assert run.ok, run.findings
    assert np.array_equal(out.reshape(8, 8), x.reshape(8, 8).T)
