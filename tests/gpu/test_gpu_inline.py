"""On a GPU: a KernelBench-form module that builds its CUDA inline is built once and judged; its rules run there too."""

from pathlib import Path

import pytest
import torch
from tests.executor.judging import TASK
from tests.executor.test_inline import CANDIDATE

from kernelwright.api.judge import judging
from kernelwright.config import Settings
from kernelwright.languages import get_language
from kernelwright.records import Candidate, SourceFile, TensorSpec
from kernelwright.sandbox import Payload, Pool
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
    task = load_task(str(tmp_path / "task.py"))
    candidate = load_candidate(tmp_path / "new.py", task)
    build = get_language("cuda").build(candidate)
    assert build.status == "ok", build.diagnostics
    assert list(Path(build.artefact).glob("inline/*/inline_extension.so"))
    wrong = load_candidate(_file(tmp_path, CANDIDATE.replace("scalar_t>(2)", "scalar_t>(3)")), task)
    with judging(task, device="cuda:0", store=tmp_path / "store") as ask:
        judgement, refused = ask(candidate, True), ask(wrong, True)
    assert judgement.verdict != "rejected", judgement.reason
    assert judgement.speedup is not None
    assert (refused.verdict, "correct" in refused.reason) == ("rejected", True)


def _file(folder: Path, text: str) -> Path:
    (folder / "wrong.py").write_text(text)
    return folder / "wrong.py"


def test_the_benchmarks_own_rules_run_on_the_gpu(tmp_path):
    suite, data = get_suite("kernelbench"), made_up_checkout("kernelbench", tmp_path / "checkout")
    problem = suite.problems(data)[0]
    with setup(suite, data, device="cuda:0") as given, given.task(problem) as task:
        right = theirs_of(given, problem, task, COPY)
        assert (right.status, right.passed) == ("correct", 5), right.message
        assert right.time_us
        assert theirs_of(given, problem, task, COPY.replace("return ", "return 2 * ")).status == "wrong"


def test_workers_of_candidates_and_of_baselines_compute_convolutions_in_float32(tmp_path):
    settings = Settings.from_environment({"KERNELWRIGHT_CACHE": str(tmp_path)})
    text = "import torch\ndef run(x):\n    return x + float(torch.backends.cudnn.allow_tf32)\n"
    source = SourceFile(path="kernel.py", text=text)
    candidate = Candidate(sources=(source,), language="torch", entry="kernel.py:run")
    outputs = (TensorSpec(name="y", shape=(4,), dtype="float32"),)
    with Pool(settings, device="cuda:0") as pool:
        for trusted in (False, True):
            asked = Payload(candidate, device="cuda:0", outputs=outputs, trusted=trusted)
            with pool.worker(asked) as worker:
                worker.call([worker.bind((pool.arena.place(torch.zeros(4)),), outputs)])
                assert worker.fetch(0).outputs[0].tolist() == [0.0] * 4
