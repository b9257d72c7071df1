# ruff: noqa: E501 - programs on one line
"""Programs that mean harm or nonsense: refused within the deadline, in one sentence."""

import random
import time

import pytest

from kernelwright.craft import AssemblyError, Session, find_backend, find_task, judge
from kernelwright.craft._riscv_text import check_text

HOSTILE = {
    "no end": "again: jmp again",
    "no end, with work": "li r20, 1\nagain: addi r20, r20, 1\nvimm v1, 2.0\nvexp v1, v1\njmp again",
    "transfers without end": "li r20, 1\nli r21, 0\ndshape q0, r20, r20\ndstride q0, r21, r21\nx: din q0, r21, r0\njmp x",
    "a huge transfer": "li r20, 2147483647\nli r21, 0\ndshape q0, r20, r20\nhalt",
    "many rows": "li r20, 4096\nli r21, 0\nli r22, 1048576\ndshape q0, r20, r22\ndstride q0, r21, r21\ndin q0, r21, r0\nhalt",
    "addresses that wrap": "li r20, 2147483647\nadd r20, r20, r20\nvld v0, r20\nhalt",
    "writes its inputs": "li r20, 1\nli r21, 0\ndshape q0, r20, r20\ndstride q0, r21, r21\nvimm v0, 1.0\nvst v0, r21\n"
    "dout q0, r21, r0\ndwait q0, 0\nhalt",
    "not text": "\x00\x01\x02\xff\n" * 50,
    "a million characters": "li r1, 1\n" * 100_000,
    "nothing": "",
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_programs_are_refused_in_time(name):
    started = time.monotonic()
    verdict = judge(find_task("copy"), find_backend("tessera"), HOSTILE[name])
    assert verdict.status in {"fault", "invalid"}
    assert "\n" not in verdict.message
    assert 10 < len(verdict.message) < 5000
    assert time.monotonic() - started < 20


def test_random_programs_never_crash_the_simulator():
    """Lines of right programs in any order: each is judged, or stopped by a fault with its line."""
    draw = random.Random(0)
    told = set()
    for isa in ("tessera", "made-8"):
        backend = find_backend(isa)
        lines = [
            line for name in ("softmax", "matmul", "transpose", "gather")
            for line in [*backend.programs(find_task(name)).values()][-1].splitlines() if ":" not in line and " L" not in line
        ]  # fmt: skip
        halt = backend.description.by_kind["halt"].name
        for _ in range(150):
            session = Session(find_task("softmax"), backend)
            session.text = "\n".join([*draw.choices(lines, k=40), halt])
            answer = session.run()
            assert answer["ok"] or "line " in answer["message"] or "are wrong" in answer["message"]
            told.add(answer["message"])
    assert len(told) >= 20


@pytest.mark.parametrize(
    "body",
    [
        "li a7, 93\n  ecall", "ebreak", "csrr a0, cycle", "fence.i", ".word 0x73", ".insn 4, 0x73", ".incbin \"/etc/passwd\"",
        ".include \"x\"", ".macro m\n  nop\n  .endm", ".byte 0x73", "call system", "la a0, stdout", "tail exit", "jr a0",
        "jalr a0", "jalr ra, 0(a0)", ".section .init,\"ax\"", ".section .rodata,\"ax\"", ".rept 9", "amoadd.w a0, a1, (a2)",
        "nop; ecall", ".text 1; .long 115",
    ],
)  # fmt: skip
def test_risc_v_takes_computations_alone(body):
    with pytest.raises(AssemblyError):
        check_text(f"  .globl kernel\nkernel:\n  {body}\n  ret\n")
    check_text("  .globl kernel\nkernel:\n  nop\n  ret\n")
