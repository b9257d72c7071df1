"""What the judge sees of a GPU while workers are stopped is in blocks and findings; a memory file is its memory."""

import pytest
from tests.sandbox.held import holder

from kernelwright.config import Settings
from kernelwright.devices import detect
from kernelwright.languages import get_language
from kernelwright.measure import Bench
from kernelwright.records import Candidate, SourceFile, Split
from kernelwright.sandbox import Pool
from kernelwright.sandbox._sentry import Seen
from kernelwright.tasks import Problem, load_task

TASK = """
import torch

import kernelwright as kw


@kw.task(x="float32[rows, 64]", workloads=[{"rows": 32}])
def softmax(x):
    return torch.softmax(x, -1)
"""


@pytest.fixture
def measured(tmp_path, monkeypatch):
    """Measure a candidate whose worker, and the baseline's, take arguments from a holder's memory, as on a GPU."""
    (tmp_path / "softmax.py").write_text(TASK)
    problem = Problem(load_task(str(tmp_path / "softmax.py")))
    settings = Settings.from_environment({"KERNELWRIGHT_CACHE": str(tmp_path)})

    def measure(held, body="torch.softmax(x, -1)"):
        text = f"import torch\ndef run(x):\n    return {body}\n"
        candidate = Candidate(
            sources=(SourceFile(path="c.py", text=text),), language="torch", entry="c.py:run"
        )
        with (
            Pool(settings, arena_bytes=8 << 20) as pool,
            Bench(problem, pool, detect("cpu"), baselines=("eager",)) as bench,
        ):
            monkeypatch.setattr(pool, "_lend", lambda worker, payload: worker.borrow(held))
            monkeypatch.setattr(pool, "_holder", held)
            timing, findings = bench.measure(
                candidate, get_language("torch").build(candidate), phase="prescreen",
                workloads=problem.task.split(Split.SEARCH), deadline_s=300,
            )  # fmt: skip
        return timing, {f.check: f for f in findings}

    return measure


@pytest.mark.parametrize(
    ("lost_us", "others_us", "status"), [(0.0, 0.0, "pass"), (600.0, 0.0, "fail"), (600.0, 60.0, "unknown")]
)
def test_what_had_a_gpu_before_the_clock_started_is_in_blocks_and_findings(
    measured, lost_us, others_us, status
):
    after = Seen(160.0, others_us, 3000.0, whole=True)
    timing, findings = measured(holder(Seen(40.0, lost_us, 6000.0, whole=True), after))
    assert findings["timed-outputs"].status == "pass"
    assert {tuple(sorted(b.taken_us)) for b in timing.blocks} == {("candidate", "eager")}
    assert timing.blocks[0].left_us["eager"] == 160.0 + others_us
    assert timing.shared_us == 10 * others_us
    assert findings["gpu-held"].status == status


def test_a_wrong_answer_from_lent_memory_is_found(measured):
    _, findings = measured(holder(), "torch.softmax(x * 1.1, -1)")
    assert findings["timed-outputs"].status == "fail"
