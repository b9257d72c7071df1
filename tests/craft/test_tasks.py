"""Tasks are sound, their checks catch mutants, baselines are right on every set, and the loop improves on them."""

import json

import numpy as np
import pytest

from kernelwright.craft import (
    TASKS,
    Session,
    admit,
    difference,
    draw,
    find_backend,
    find_task,
    hidden_workloads,
    judge,
)
from kernelwright.craft.compiler import Plan, compile_task
from kernelwright.craft.known import KnownPrograms
from kernelwright.craft.loop import improve


def test_there_are_tasks_at_three_levels():
    assert len(TASKS) >= 20
    assert {t.level for t in TASKS.values()} == {1, 2, 3}


@pytest.mark.parametrize("name", TASKS)
def test_checks_catch_every_mutant_and_pass_the_task_itself(name):
    admitted = admit(find_task(name))
    assert admitted.sound
    assert admitted.missed == ()
    assert len(admitted.caught) >= 5


def test_a_check_that_lets_everything_pass_would_be_seen(monkeypatch):
    from kernelwright.craft import admission

    monkeypatch.setattr(admission, "difference", lambda *_: "")
    assert "zeros" in admit(find_task("softmax")).missed


@pytest.mark.parametrize("isa", ["tessera", "made-4", "made-5"])
@pytest.mark.parametrize("name", TASKS)
def test_the_baseline_is_right_on_every_set(name, isa):
    task, backend = find_task(name), find_backend(isa)
    text = next(iter(backend.programs(task).values()))
    for workload in hidden_workloads(task, 3, count=2):
        ran = backend.run(task, text, workload)
        assert ran.output is not None, ran.fault
        assert difference(task, workload, ran.output) == ""


@pytest.mark.parametrize("name", ["softmax", "matmul", "matmul_nt", "transpose", "causal_attention"])
@pytest.mark.parametrize("isa", ["tessera", "made-1", "made-2", "made-3"])
def test_every_plan_is_right(name, isa):
    task, backend = find_task(name), find_backend(isa)
    workload = hidden_workloads(task, 5, count=3)[2]
    programs = backend.programs(task)
    assert len(programs) >= 3
    for how, text in programs.items():
        ran = backend.run(task, text, workload)
        assert ran.output is not None, (how, ran.fault)
        assert difference(task, workload, ran.output) == "", how


def test_a_program_for_the_visible_size_only_is_caught_without_telling_the_hidden_size():
    task, backend = find_task("add"), find_backend("tessera")
    text = next(iter(backend.programs(task).values()))
    fixed = "\n".join(["li r4, 1000", *(line for line in text.splitlines())])
    verdict = judge(task, backend, fixed)
    assert verdict.status in {"fault", "wrong"}
    assert "hidden workload" in verdict.message
    assert not any(character.isdigit() for character in verdict.message)


def test_a_program_that_is_wrong_for_large_values_only_is_caught():
    task, backend = find_task("softmax"), find_backend("tessera")
    text = compile_task(task.statements, task.arrays, task.most, backend.description, Plan(resident=True))
    subtracts = next(line for line in text.splitlines() if "vsub" in line)
    d, a, _ = subtracts.split("vsub ")[1].split(", ")
    spoilt = text.replace(subtracts, f"  vmov {d}, {a}")
    session = Session(task, backend)
    assert session.write(spoilt)["ok"]
    assert session.run()["ok"]
    assert session.submit()["status"] == "wrong"


def test_results_in_half_precision_are_refused():
    task = find_task("matmul")
    workload = draw(task, 0)
    assert difference(task, workload, workload.expected.astype(np.float32)) == ""
    assert "values of out are wrong" in difference(task, workload, workload.expected.astype(np.float16))


@pytest.mark.parametrize("isa", ["tessera", "made-6"])
def test_the_loop_improves_on_the_baseline(isa):
    task, backend = find_task("matmul"), find_backend(isa)
    seen = []
    run = improve(
        Session(task, backend), KnownPrograms(task, backend), on_call=lambda name, answer: seen.append(name)
    )
    assert run.verdict.status == "right"
    assert run.verdict.score > 2
    assert seen[:4] == ["write", "run", "submit", "measure"]
    assert judge(task, backend, run.text).score == pytest.approx(run.verdict.score)


def test_what_a_model_says_wrong_is_answered():
    answers = iter([
        "hello", "```asm\nnonsense\n```", "```json\n{\n```", '```json\n{"tool": "delete"}\n```',
        '```json\n{"tool": "run", "seed": "x"}\n```', '```json\n{"tool": "trace", "start": 0, "count": 2}\n```', "DONE",
    ])  # fmt: skip
    told = []

    def asks(messages):
        told.append(messages[-1].text)
        return next(answers)

    run = improve(Session(find_task("copy"), find_backend("tessera")), asks)
    assert run.verdict is None
    assert run.turns == 7
    assert "address of x" in told[0]
    assert "No fence" in told[1]
    assert "there is no instruction 'nonsense'" in told[2]
    assert "cannot be read" in told[3]
    assert "no tool is called 'delete'" in told[4]
    assert "cannot use 'seed'" in told[5]
    assert "there is no instruction" in told[6]


def test_the_tools_of_a_session_tell_lines_and_steps():
    task, backend = find_task("relu"), find_backend("made-7")
    session = Session(task, backend)
    session.text = next(iter(backend.programs(task).values()))
    measured = session.measure()
    assert measured["ratio"] == 1.0
    assert measured["lines"][0]["issued"] >= 1
    steps = session.trace(3, 2)["steps"]
    assert [s["step"] for s in steps] == [3, 4]
    json.dumps([measured, steps])
