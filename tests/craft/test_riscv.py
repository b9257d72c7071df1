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
        ("  ld a1, 0(a0)\n  sw zero, 0(a1)\n  ret\n", "signal 11"),
        ("  ret\n", "never written"),
        ("  vadd.vv v1, v2\n  ret\n", "line 3: "),
    ],
)
def test_faults_are_told_in_a_sentence(backend, body, said):
    session = Session(find_task("relu"), backend)
    session.text = HEAD + body
    assert said in session.run()["message"]


def test_a_program_without_end_is_killed(backend, monkeypatch):
    monkeypatch.setattr("kernelwright.craft.riscv._RUN_S", 0.5)
    session = Session(find_task("relu"), backend)
    session.text = HEAD + "  j kernel\n"
    assert "did not end within 0.5 s" in session.run()["message"]
