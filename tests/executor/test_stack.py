"""Memory that a thread takes from its own stack: taken, freed, freed by a return, and found where it is misused."""

import numpy as np
import pytest

from kernelwright.executor import Module, NotExecutedError, Uninitialised

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"


def kernel(body, functions=""):
    return Module.load(
        f"""{HEAD}{functions}
.visible .entry k(.param .u64 out) {{
.reg .b64 %d<9>; .reg .b32 %r<9>; .reg .pred %p<3>;
ld.param.u64 %d0, [out]; mov.u32 %r0, %tid.x; mul.wide.u32 %d1, %r0, 4; add.u64 %d0, %d0, %d1;
add.u32 %r1, %r0, 1; mul.wide.u32 %d2, %r1, 4;
{body}
st.global.u32 [%d0], %r5;
ret;
}}"""
    )["k"]


def ran(body, functions="", threads=64):
    out = np.zeros(threads, np.uint32)
    run = kernel(body, functions)(1, threads, [Uninitialised(out)])
    return run, out


FILL = """alloca.u64 %d3, %d2;
mov.u32 %r2, 0; mov.u64 %d4, %d3;
FILL: st.local.u32 [%d4], %r2; add.u32 %r2, %r2, 1; add.u64 %d4, %d4, 4; setp.le.u32 %p0, %r2, %r0; @%p0 bra FILL;
"""
SUM = """mov.u32 %r5, 0; mov.u32 %r2, 0; mov.u64 %d4, %d3;
SUM: ld.local.u32 %r3, [%d4]; add.u32 %r5, %r5, %r3; add.u32 %r2, %r2, 1; add.u64 %d4, %d4, 4;
setp.le.u32 %p0, %r2, %r0; @%p0 bra SUM;
"""


def test_each_thread_has_as_much_as_it_asks_for():
    run, out = ran(FILL + SUM)
    assert run.ok, run.findings
    n = np.arange(64)
    assert np.array_equal(out, n * (n + 1) // 2)


def test_a_word_beyond_is_found_in_the_thread_that_has_fewer():
    run, _ = ran(FILL + "ld.local.u32 %r5, [%d4];\n")
    assert {f.kind for f in run.findings} == {"out-of-bounds"}


def test_what_nobody_wrote_is_found():
    run, _ = ran("alloca.u64 %d3, 16, 32; ld.local.u32 %r5, [%d3];\n")
    assert {f.kind for f in run.findings} == {"uninitialised"}


def test_alignment_and_the_generic_address():
    run, out = ran(
        "alloca.u64 %d5, 4; alloca.u64 %d3, 16, 256; and.b64 %d4, %d3, 255; cvt.u32.u64 %r5, %d4;\n"
        "cvta.local.u64 %d3, %d3; st.u32 [%d3+12], %r0; ld.u32 %r6, [%d3+12]; add.u32 %r5, %r5, %r6;\n"
    )
    assert run.ok, run.findings
    assert np.array_equal(out, np.arange(64))


@pytest.mark.parametrize("back", ["%d6", "%d3"], ids=["before", "of the memory itself"])
def test_a_restored_stack_is_taken_again_and_no_longer_read(back):
    save = "stacksave.u64 %d6; alloca.u64 %d3, 16; "
    again = f"stackrestore.u64 {back}; alloca.u64 %d5, 16; sub.u64 %d7, %d3, %d5; cvt.u32.u64 %r5, %d7;\n"
    run, out = ran(save + again)
    assert run.ok and set(out.tolist()) == ({0} if back == "%d6" else {16})
    run, _ = ran(f"{save}st.local.u32 [%d3], %r0; stackrestore.u64 %d6; ld.local.u32 %r5, [%d3];\n")
    assert {f.kind for f in run.findings} == {"out-of-bounds"}


def test_lanes_that_part_do_not_take_each_others():
    """Odd lanes give back while even ones hold; then odd ones take again, and the even ones' words are as they were."""
    run, out = ran(
        "and.b32 %r2, %r0, 1; setp.eq.u32 %p1, %r2, 1; stacksave.u64 %d6;\n"
        "alloca.u64 %d3, 64; st.local.u32 [%d3], %r0;\n"
        "@!%p1 bra REST; stackrestore.u64 %d6; alloca.u64 %d5, 64; st.local.u32 [%d5], %r2; ld.local.u32 %r5, [%d5];\n"
        "REST: @%p1 bra END; alloca.u64 %d5, 64; st.local.u32 [%d5], 7; ld.local.u32 %r5, [%d3];\n"
        "END:\n"
    )
    assert run.ok, run.findings
    assert np.array_equal(out, np.where(np.arange(64) % 2, 1, np.arange(64)))


def test_a_return_frees_what_a_function_took():
    function = (
        ".func (.param .b32 r) f(.param .b32 x) { .reg .b64 %q<2>; .reg .b32 %s<2>; ld.param.u32 %s0, [x];\n"
        "alloca.u64 %q0, 4096; st.local.u32 [%q0+4092], %s0;\n"
        "ld.local.u32 %s1, [%q0+4092]; st.param.b32 [r], %s1; ret; }"
    )
    body = (
        "mov.u32 %r4, 0; mov.u32 %r5, 0;\n"
        "LOOP: { .param .b32 x; .param .b32 r; st.param.b32 [x], %r0; call.uni (r), f, (x); ld.param.b32 %r3, [r]; }\n"
        "add.u32 %r5, %r5, %r3; add.u32 %r4, %r4, 1; setp.lt.u32 %p0, %r4, 20; @%p0 bra LOOP;\n"
    )
    run, out = ran(body, function)
    assert run.ok, (run.status, run.notes, run.findings)
    assert np.array_equal(out, 20 * np.arange(64))


def test_more_than_there_is_stops_the_launch_and_says_where():
    run, _ = ran("mov.u64 %d5, 1099511627776; alloca.u64 %d3, %d5; mov.u32 %r5, 0;\n")
    assert (
        not run.ok
        and run.notes[0].startswith("stopped at PTX line")
        and run.notes[0].endswith(": alloca.u64")
    )


def test_addresses_of_32_bits_are_refused():
    with pytest.raises(NotExecutedError, match="line 9"):
        kernel("alloca.u32 %r5, 16;")
