"""Operators in NPUKernelBench's form, their host's half included, go through executor and judge."""

import pytest

from kernelwright.languages import get_language
from kernelwright.records import BuildStatus, CheckStatus, VerdictStatus
from kernelwright.suites import get_suite, setup
from kernelwright.tasks import Problem
from kernelwright.testing import made_up_checkout
from kernelwright.verify import verify

pytestmark = pytest.mark.long

BREAKS = {
    "wrong": ("(DTYPE_X)1.0f, count)", "(DTYPE_X)1.5f, count)", "correct"),
    "racing": ("    a = in.DeQue<DTYPE_X>();\n", "", "race at op_kernel/scale.cpp.h:"),
    "beyond": (
        "DataCopyPad(target[at], c, part)",
        "DataCopyPad(target[at + 8], c, part)",
        "out-of-bounds at op_kernel",
    ),
}


def judged(data, problem, before="", after=""):
    """Verify the problem's own kernel, with one piece of it replaced."""
    suite = get_suite("npukernelbench")
    kernel = suite.candidates(data / "tasks", suite.problems(data))[problem.name]
    assert before in kernel.read_text()
    kernel.write_text(kernel.read_text().replace(before, after))
    with setup(suite, data) as given, given.task(problem) as task:
        candidate = suite.candidate(task, kernel)
        build = get_language("ascendc").build(candidate)
        assert build.status is BuildStatus.OK, build.diagnostics
        return verify(Problem(task), candidate, build, pool=given.pool, depth="screen", deadline_s=300)


@pytest.fixture
def data(tmp_path):
    return made_up_checkout("npukernelbench", tmp_path)


@pytest.mark.parametrize("level", [1, 2])
def test_an_operator_is_accepted_without_an_npu(data, level):
    problem = get_suite("npukernelbench").problems(data)[level - 1]
    verdict = judged(data, problem)
    assert verdict.status is VerdictStatus.ACCEPTED, [f for f in verdict.findings if f.message]


@pytest.mark.parametrize("name", BREAKS)
def test_a_broken_operator_is_refused_by_its_line(data, name):
    before, after, expected = BREAKS[name]
    verdict = judged(data, get_suite("npukernelbench").problems(data)[0], before, after)
    found = [f"{f.check}: {f.message}" for f in verdict.findings if f.status is CheckStatus.FAIL]
    assert any(expected in said for said in found), found
