"""On a GPU: a KernelBench-form module that builds its CUDA inline is built once and judged; its rules run there too."""

from pathlib import Path

import pytest
from tests.executor.judging import TASK
from tests.executor.test_inline import CANDIDATE

import kernelwright as kw
from kernelwright.languages import get_language
from kernelwright.suites import get_suite, setup, theirs_of
from kernelwright.tasks import load_candidate, load_task
from kernelwright.testing import made_up_checkout

pytestmark = [pytest.mark.needs("GPU"), pytest.mark.needs("nvcc")]
COPY = """
import torch
class ModelNew(torch.nn.Module):
    def forward(self, x):
        assert x.is_cuda
        return torch.softmax(x.contiguous(), -1)
"""


def test_an_extension_is_built_once_and_judged(tmp_path):
    (tmp_path / "task.py").write_text(TASK)
    (tmp_path / "new.py").write_text(CANDIDATE)
    candidate = load_candidate(tmp_path / "new.py", load_task(str(tmp_path / "task.py")))
    build = get_language("cuda").build(candidate)
    assert build.status == "ok", build.diagnostics
    assert list(Path(build.artefact).glob("inline/*/inline_extension.so"))
    asked = {"device": "cuda:0", "store": tmp_path / "store"}
    judgement = kw.judge(str(tmp_path / "task.py"), str(tmp_path / "new.py"), **asked)
    assert judgement.verdict != "rejected", judgement.reason
    assert judgement.speedup is not None
    (tmp_path / "wrong.py").write_text(CANDIDATE.replace("scalar_t>(2)", "scalar_t>(3)"))
    wrong = kw.judge(str(tmp_path / "task.py"), str(tmp_path / "wrong.py"), **asked)
    assert (wrong.verdict, "correct" in wrong.reason) == ("rejected", True)


def test_the_benchmarks_own_rules_run_on_the_gpu(tmp_path):
    suite, data = get_suite("kernelbench"), made_up_checkout("kernelbench", tmp_path / "checkout")
    problem = suite.problems(data)[0]
    with setup(suite, data, device="cuda:0") as given, given.task(problem) as task:
        right = theirs_of(given, problem, task, COPY)
        assert (right.status, right.passed) == ("correct", 5), right.message
        assert right.time_us
        assert theirs_of(given, problem, task, COPY.replace("return ", "return 2 * ")).status == "wrong"
