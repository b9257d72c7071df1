"""A kernel that is late is called wrong only where it is late again and the reference is not."""

from dataclasses import replace

import pytest

from kernelwright.records import DecisionStatus, VerdictStatus
from kernelwright.suites import Ours, Theirs, _both, _late, _programs, get_suite, setup
from kernelwright.suites._modules import ModuleForm
from kernelwright.suites._program_runs import Program, Ran, Trial
from kernelwright.testing import made_up_checkout

LATE = Ours(
    verdict=VerdictStatus.REJECTED, decision=DecisionStatus.REJECTED, failed=("runs",), run="r1",
    reason="runs: timeout: no answer to call within 20 s",
)  # fmt: skip
RIGHT = Ours(verdict=VerdictStatus.ACCEPTED, decision=DecisionStatus.EQUAL, reason="equal", run="r2")
HANGS = """
import time
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        time.sleep(600)
"""


@pytest.mark.parametrize(
    ("again", "took_s", "text", "verdict"),
    [
        (LATE, 0.1, HANGS, "rejected"),
        (LATE, 9.0, HANGS, "unknown"),
        (RIGHT, 9.0, HANGS, "accepted"),
        (LATE, 0.1, "torch.compile(f)", "unknown"),
    ],
)
def test_ours_asks_again_in_an_empty_store(monkeypatch, again, took_s, text, verdict):
    monkeypatch.setattr(_late, "reference_s", lambda _: took_s)
    stores = []
    found = _late.ours_if_late(LATE, lambda store: stores.append(list(store.iterdir())) or again, None, text)
    assert (found.verdict, found.run, stores) == (verdict, "r1", [[]])
    assert (f"{took_s:.2g} s here" in found.reason) is (again is LATE and text is HANGS)


def test_ours_does_not_ask_again_where_it_was_not_late(monkeypatch):
    wrong = LATE.model_copy(update={"reason": "correct: runs: timeout: said by the kernel"})
    for known in (RIGHT, wrong):
        assert _late.ours_if_late(known, pytest.fail, None, HANGS) is known


@pytest.mark.parametrize(
    ("again", "plain", "status"),
    [
        ("timeout", "correct", "timeout"), ("timeout", "error", "timeout"), ("timeout", "timeout", "unknown"),
        ("timeout", None, "unknown"), ("correct", "timeout", "correct"),
    ],
)  # fmt: skip
def test_theirs_tries_the_reference_in_its_place(again, plain, status):
    found = _late.theirs_if_late(
        Theirs(status="timeout", message="late"),
        lambda: Theirs(status=again, message="late again"),
        lambda: Theirs(status=plain) if plain else None,
    )
    assert found.status == status


def test_a_kernel_that_hangs_is_late_by_the_benchmark_s_rules_and_the_reference_is_not(monkeypatch, tmp_path):
    data, suite = made_up_checkout("kernelbench", tmp_path / "checkout"), get_suite("kernelbench")
    script, asked = ModuleForm.script, []

    def hurried(self, task, candidate, data, problem):
        made, hangs = script(self, task, candidate, data, problem), "sleep" in candidate
        asked.append(hangs)
        return replace(made, deadline_s=1.0 if hangs else 600.0)

    monkeypatch.setattr(ModuleForm, "script", hurried)
    problem = suite.problems(data)[0]
    with setup(suite, data) as given, given.task(problem) as task:
        assert _both.theirs_of(given, problem, task, HANGS).status == "timeout"
    assert asked == [True, False]


@pytest.mark.parametrize(
    ("late", "status", "verdict"),
    [
        ((True, True, False), "timeout", "rejected"),
        ((True, False, False), "unknown", "unknown"),
        ((True, True, True), "unknown", "unknown"),
    ],
)
def test_a_program_is_run_again_and_so_is_the_original(late, status, verdict):
    class Runs:
        def __init__(self, *late):
            self.late = iter(late)

        def run(self, *_):
            return Ran("1", 0, next(self.late), 0.1, 0.1)

    first, again, original = late
    suite, program = (
        get_suite("pie"),
        Program(build="", files={}, original={}, command="", tests=(Trial("", "1"),), limit_s=1.0),
    )
    assert _programs._theirs(suite, program, Runs(first, again), Runs(original)).status == status
    found = _programs._judged(program, Runs(first, False, again), Runs(original))
    assert found.verdict == verdict
