"""RISC-V under the emulator, where the tools are here."""

import pytest

from kernelwright.craft import Session, find_backend, find_task, judge
from kernelwright.craft.known import KnownPrograms
from kernelwright.craft.loop import improve

pytestmark = pytest.mark.needs("RISC-V")
HEAD = "  .globl kernel\nkernel:\n"


@pytest.fixture(scope="module")
def backend():
    return find_backend("riscv")


@pytest.mark.parametrize("name", ["softmax", "swiglu", "gather"])
def test_the_compilers_program_is_right(backend, name):
    task = find_task(name)
    verdict = judge(task, backend, next(iter(backend.programs(task).values())))
    assert verdict.status == "right", verdict.message
    assert verdict.score == 1.0
    assert verdict.cost > 1000


def test_the_loop_finds_the_program_with_vectors(backend):
    task = find_task("dot")
    run = improve(Session(task, backend), KnownPrograms(task, backend))
    assert run.verdict.score > 5
    assert "vfmacc" in run.text


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("  ld a1, 0(a0)\n  sw zero, 0(a1)\n  ret\n", "line 4: the program was stopped by signal 11"),
        ("  ld a1, 0(a0)\n  li gp, 0\n  sw zero, 0(a1)\n  ret\n", "an input, at word 0 of x"),
        ("  ld a1, 8(a0)\n  li a3, 4096\n  sub a1, a1, a3\n  lw a2, 0(a1)\n  ret\n", "4096 bytes before out"),
        ("  vadd.vv v1, v2, v3\n  ret\n", "line 3: the program was stopped by signal 4"),
        ("  ret\n", "never written"),
        ("  vadd.vv v1, v2\n  ret\n", "line 3: "),
    ],
)
def test_faults_are_told_in_a_sentence(backend, body, said):
    session = Session(find_task("relu"), backend)
    session.text = HEAD + body
    assert said in session.run()["message"]


COPY = """
1:
  vsetvli t0, a3, e32, m1, ta, ma
  vle32.v v0, (a1)
  vse32.v v0, (a2)
  slli t1, t0, 2
  add a1, a1, t1
  add a2, a2, t1
  sub a3, a3, t0
  bnez a3, 1b
  ret
"""


def test_a_trace_shows_lines_and_the_words_that_they_touch(backend):
    session = Session(find_task("copy"), backend)
    session.text = HEAD + "  ld a1, 0(a0)\n  ld a2, 8(a0)\n  ld a3, 24(a0)" + COPY
    steps = session.trace(4, 3)["steps"]
    assert [(s["step"], s["line"]) for s in steps] == [(4, 8), (5, 9), (6, 10)]
    assert steps[0]["text"] == "vle32.v v0, (a1)"
    assert steps[1]["touched"] == ", ".join(f"word {n} of out" for n in range(4))
    assert session.trace(0, 1)["steps"][0]["touched"] == "word 0 of the arguments"
    lines = session.measure()["lines"]
    assert lines[0] == {"line": 7, "text": "vsetvli t0, a3, e32, m1, ta, ma", "executed": 250}
    assert sum(row["executed"] for row in lines) == 250 * 8 + 4


def test_a_program_without_end_is_killed(backend, monkeypatch):
    monkeypatch.setattr("kernelwright.craft.riscv._RUN_S", 0.5)
    session = Session(find_task("relu"), backend)
    session.text = HEAD + "  j kernel\n"
    assert "did not end within 0.5 s" in session.run()["message"]
    assert [s["line"] for s in session.trace(5, 2)["steps"]] == [3, 3]
