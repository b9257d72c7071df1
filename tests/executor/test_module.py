"""What is not PTX, not executed or not launchable is said in one sentence; nothing is guessed."""

import subprocess
import sys

import numpy as np
import pytest

from kernelwright.errors import InputError, NotFoundError
from kernelwright.executor import Module, NotExecutedError, Options, PtxError, Uninitialised
from kernelwright.executor._flow import blocks_of
from kernelwright.executor._parser import parse
from kernelwright.executor._together import meets

HEAD = ".version 8.6\n.target sm_80\n.address_size 64\n"


def kernel(body, parameters=".param .u64 x"):
    return f"{HEAD}.visible .entry k({parameters})\n{{\n{body}\nret;\n}}\n"


WRITE = """
.reg .b64 %p; .reg .b32 %r<4>; .reg .pred %q;
ld.param.u64 %p, [x];
mov.u32 %r0, %tid.x;
{}
st.global.u32 [%p], %r0;
"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no `.version` line"),
        (".version 8.0", "no `.target` line"),
        (".version 8.0\n.target gfx942\n", "`.target gfx942`; expected such as `.version 8.0`"),
        ("int main() {}", "stands where a declaration was expected"),
        (
            HEAD + ".visible .entry k() { .reg .b32 %r; add.s32 7, %r, 1; }",
            "stands where a register was expected",
        ),
        (HEAD + ".visible .entry k() { bra NOWHERE; }", "no label 'NOWHERE'"),
        (HEAD + ".visible .entry k() { ret", "ends where"),
        (HEAD + ".visible .entry k(.param .u64 \x01) { ret; }", "is no PTX"),
        (HEAD + ".visible .entry k() { .reg .b32 %r; @%r ret; }", "is no predicate"),
        (HEAD + ".visible .entry k() { .reg .b32 %r<99999999999>; ret; }", "a number of at most 1048576"),
        (HEAD + ".visible .entry k() { .reg .b32 %r<.reg>; ret; }", "line 4: '.reg' stands where a number"),
        (HEAD + ".global .align 3 .b8 x[4];", "an alignment of 3 is no power of two"),
        (HEAD + ".global .align 4 .b8 x[1099511627776];", "'x' has 1099511627776 bytes; expected at most"),
        (HEAD + ".global .align 4 .b8 x[-4];", "'x' has -4 bytes"),
    ],
)
def test_what_is_no_ptx(text, message):
    with pytest.raises(PtxError, match=message):
        Module.load(text)["k"]


@pytest.mark.parametrize(("version", "target"), [("8.8", "sm_150"), ("12.0", "sm_90a")])
def test_ptx_that_is_newer_than_what_is_known_is_refused_in_a_sentence(version, target):
    text = kernel("frobnicate;").replace("8.6", version).replace("sm_80", target)
    with pytest.raises(
        NotExecutedError, match=rf"PTX {version} for {target} is newer .* \(9.x, sm_121\); compile"
    ):
        Module.load(text)


@pytest.mark.parametrize(
    ("instruction", "line"),
    [
        ("frobnicate.b32 %r0, %r1;", 10), ("add.s32.fast %r0, %r0, %r1;", 10), ("add.f32.f16 %r0, %r0, %r1;", 10),
        ("tex.2d.v4.f32.s32 {%r0, %r1, %r2, %r3}, [x, {%r0, %r1}];", 10), ("mov.u32 %r0, %envreg3;", 10),
        ("tcgen05.shift.cta_group::1.down [%r1];", 10), ("add.s32 %r0, %r0, %nothing;", 10),
        ("mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32 {%r0}, {%r1}, {%r2}, {%r3};", 10),
        ("cp.async.bulk.commit_group.sometimes;", 10), ("barrier.cluster.arrive.acquire;", 10),
    ],
)  # fmt: skip
def test_what_is_not_executed_is_refused_with_its_line(instruction, line):
    with pytest.raises(NotExecutedError, match=f"not executed: .*line {line}"):
        Module.load(kernel(WRITE.format(instruction)))["k"]


def test_a_kernel_that_is_not_asked_for_may_hold_anything():
    text = kernel(WRITE.format("")) + ".visible .entry other() { brkpt; ret; }"
    out = np.zeros(1, np.int32)
    assert Module.load(text)["k"](1, 1, [out]).ok
    with pytest.raises(NotFoundError, match="no kernel 'kk'"):
        Module.load(text)["kk"]


@pytest.mark.parametrize(
    ("grid", "block", "shared", "arguments", "message"),
    [
        (1 << 31, 32, 0, 1, "more than 2\\^31 - 1 blocks"),
        ((1, 70000), 32, 0, 1, "more than 2\\^31 - 1 blocks"),
        (1, 2048, 0, 1, "more than 1024 threads"),
        (0, 32, 0, 1, "expected one to three positive numbers"),
        (1, 32, 1 << 40, 1, "a block has 232448 at most"),
        (1, 32, 0, 2, "takes 1 arguments"),
    ],
)
def test_what_cannot_be_launched(grid, block, shared, arguments, message):
    k = Module.load(kernel(WRITE.format("")))["k"]
    with pytest.raises(InputError, match=message):
        k(grid, block, [np.zeros(1, np.int32)] * arguments, shared_bytes=shared)


def test_shared_memory_that_a_kernel_declares_counts():
    text = kernel(".shared .align 4 .b8 s[1099511627776];" + WRITE.format(""))
    with pytest.raises(
        InputError, match=r"^8 bytes of shared memory and 1099511627776 that 'k' declares; a block has"
    ):
        Module.load(text)["k"](1, 1, [np.zeros(1, np.int32)], shared_bytes=8)


def test_arguments_of_the_wrong_kind():
    k = Module.load(kernel(WRITE.format(""), ".param .u64 x, .param .u32 n"))["k"]
    with pytest.raises(InputError, match="argument 1 is 'many'"):
        k(1, 1, [np.zeros(1, np.int32), "many"])
    with pytest.raises(InputError, match="argument 1 is an array"):
        k(1, 1, [np.zeros(1, np.int32), np.zeros(1, np.int32)])


def test_a_great_grid_ends_at_its_deadline():
    k = Module.load(kernel(WRITE.format("")))["k"]
    run = k((1 << 31) - 1, 1, [np.zeros(1, np.int32)], options=Options(deadline_s=0.5))
    assert run.status == "deadline"
    assert "races were not looked for" in run.notes[0]
    assert run.notes[-1] == "no end within 0.5 s: a loop without end, or too much work"
    assert run.time_s < 10


def test_a_required_block_is_required():
    text = kernel(WRITE.format("")).replace(")\n{", ")\n.reqntid 64\n{")
    with pytest.raises(InputError, match="must be launched with blocks of"):
        Module.load(text)["k"](1, 32, [np.zeros(1, np.int32)])


def test_views_that_overlap_are_one_allocation():
    x = np.arange(8, dtype=np.int32)
    text = kernel(
        """.reg .b64 %a, %b; .reg .b32 %r;
        ld.param.u64 %a, [x]; ld.param.u64 %b, [y];
        ld.global.u32 %r, [%a+4]; st.global.u32 [%b], %r;""",
        ".param .u64 x, .param .u64 y",
    )
    assert Module.load(text)["k"](1, 1, [x[:4], x[2:]]).ok
    assert x.tolist() == [0, 1, 1, 3, 4, 5, 6, 7]


def test_stores_that_differ_by_rounding_are_no_conflict():
    text = kernel(
        """.reg .b64 %p; .reg .b32 %l; .reg .f32 %a, %b; .reg .pred %odd; .shared .align 4 .f32 s;
        ld.param.u64 %p, [x]; ld.param.f32 %a, [a]; ld.param.f32 %b, [b];
        mov.u32 %l, %laneid; and.b32 %l, %l, 1; setp.eq.u32 %odd, %l, 1; selp.f32 %a, %a, %b, %odd;
        st.shared.f32 [s], %a; bar.sync 0; ld.shared.f32 %a, [s]; st.global.f32 [%p], %a;""",
        ".param .u64 x, .param .f32 a, .param .f32 b",
    )
    k = Module.load(text)["k"]
    for other, kinds in ((1.0, set()), (1.0000001, set()), (1.1, {"conflicting-writes"})):
        assert {f.kind for f in k(1, 32, [np.zeros(1, np.float32), 1.0, other]).findings} == kinds


def test_nested_scopes_hide_registers():
    out = np.zeros(1, np.int32)
    body = """.reg .b64 %p; .reg .b32 %r;
    ld.param.u64 %p, [x]; mov.u32 %r, 7;
    { .reg .b32 %r; mov.u32 %r, 8; { .reg .b32 %r; mov.u32 %r, 9; } }
    st.global.u32 [%p], %r;"""
    assert Module.load(kernel(body))["k"](1, 1, [out]).ok
    assert out[0] == 7


def test_the_blocks_of_a_loop_stand_together_and_what_follows_behind():
    text = kernel(
        """.reg .pred %p, %q;
        bra HEAD;
        EXIT: bra END;
        BODY: @%q bra EXIT; bra HEAD;
        HEAD: @%p bra BODY;
        END: exit;""",
        "",
    )
    blocks = blocks_of(parse(text).functions["k"], meets)
    place = {b.instructions[0].line: b.index for b in blocks}
    head, body, leave, end = place[10], place[9], place[8], place[11]
    assert head < body < leave < end


def test_module_variables_and_constants():
    text = (
        HEAD
        + """
    .const .align 4 .u32 seven = 7;
    .global .align 4 .u32 table[2] = {1, 0x10};
    .global .align 8 .u64 where[1] = {table+4};
    .visible .entry k(.param .u64 x) {
      .reg .b64 %p, %w; .reg .b32 %a, %b;
      ld.param.u64 %p, [x];
      ld.const.u32 %a, [seven];
      ld.global.u64 %w, [where];
      ld.u32 %b, [%w];
      add.u32 %a, %a, %b;
      st.global.u32 [%p], %a;
      ret;
    }"""
    )
    out = np.zeros(1, np.int32)
    assert Module.load(text)["k"](1, 1, [Uninitialised(out)]).ok
    assert out[0] == 23
    run = Module.load(text.replace("[seven]", "[seven+4]"))["k"](1, 1, [Uninitialised(out)])
    assert "4 bytes past the end of the variable seven (4 bytes)" in str(run.findings[0])


def test_the_executor_is_imported_alone():
    code = (
        "import sys, kernelwright.executor\n"
        "stages = {'profile', 'bound', 'propose', 'verify', 'measure', 'search', 'learn', 'deploy', 'compiler'}\n"
        "print(sorted(s for s in stages if 'kernelwright.' + s in sys.modules), 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] False"
