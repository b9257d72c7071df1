"""A model with an operator of another library between its kernels, judged as a whole: nothing is planted."""

import sys
import tempfile
import time
from pathlib import Path

import pytest
from tests.models.conftest import written

from kernelwright.devices import detect
from kernelwright.models._assemble import Accepted
from kernelwright.models._judged import Judged
from kernelwright.models._plan import planned
from kernelwright.models._task import region_task
from kernelwright.models._whole_judge import WholeJudge
from kernelwright.records import Candidate, DecisionStatus, SourceFile
from kernelwright.store import Store

LIBRARY = """
import torch


@torch.library.custom_op("brought_products::by_groups", mutates_args=())
def by_groups(x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    return torch.cat([rows @ weight for rows, weight in zip(x.chunk(len(weights)), weights)])


by_groups.register_fake(lambda x, weights: x.new_empty(x.shape[0], weights.shape[2]))
"""
MODEL = """
import brought_products
import torch


class Steps(torch.nn.Module):
    def forward(self, x):
        for _ in range(150):
            x = x + 1.0
        return x


class Experts(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Steps(), Steps()
        self.weights = torch.nn.Parameter(torch.randn(2, 256, 256) / 16)

    def forward(self, x):
        return self.second(brought_products.by_groups(self.first(x), self.weights))


def build():
    torch.manual_seed(0)
    return Experts().eval(), (torch.randn(256, 256),)
"""


@pytest.fixture
def model(tmp_path, monkeypatch):
    """A model file, and the library that it imports among packages that workers may read."""
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "site-packages"
        library.mkdir()
        Path(folder).chmod(0o755)
        written(library, "brought_products.py", LIBRARY)
        monkeypatch.syspath_prepend(str(library))
        monkeypatch.setenv("PYTHONPATH", str(library))
        yield written(tmp_path, "experts.py", MODEL)
        sys.modules.pop("brought_products", None)


@pytest.mark.long
@pytest.mark.parametrize(("added", "decision"), [(150.0, DecisionStatus.IMPROVED), (151.0, None)])
def test_kernels_around_another_librarys_operator_are_accepted_if_they_are_right(
    added, decision, model, tmp_path
):
    plan = planned(model, device=detect("cpu"))
    capture, region = next(found for found in plan.regions.values() if found[1].label == "first")
    assert len(region.units) == 2
    candidate = Candidate(
        sources=(SourceFile(path="k.py", text=f"def run(x):\n    return x + {added}\n"),),
        language="torch", entry="k.py:run", style="function",
    )  # fmt: skip
    accepted = Accepted(region, region_task(capture, region, plan.timed[capture.name]), candidate)
    said: list[str] = []
    verdict = Judged(plan, lambda _, message: said.append(message))
    options = {"device": "cpu", "store": tmp_path / "store", "on_event": None}
    with WholeJudge(plan, ("eager",), options, time.monotonic() + 420.0) as judge:
        judgement = verdict.judge(judge, [accepted])
    if decision is None:
        assert judgement is None and verdict.kept == () and "rejected: correct" in verdict.out[region.key]
        return
    assert judgement is not None, (verdict.reason, said)
    assert judgement.decision is decision, judgement.reason
    with Store(tmp_path / "store") as store:
        found = next(e for e in store.evaluations(judgement.run) if e.candidate.key == judgement.candidate)
    text = next(s.text for s in found.candidate.sources if s.path == "patched.py")
    assert text.count("= _part0(") == 2 and "torch.ops.brought_products.by_groups.default" in text
