"""An exported package judged again: what holds, what does not, what was changed."""

import json
from pathlib import Path

import pytest

from kernelwright.api import recheck as rechecking
from kernelwright.api.recheck import recheck
from kernelwright.cli import main
from kernelwright.deploy import Claim, Specialisation, package
from kernelwright.devices import Device
from kernelwright.errors import InputError
from kernelwright.records import (
    Build,
    BuildStatus,
    Candidate,
    Decision,
    DecisionStatus,
    Evaluation,
    SourceFile,
    Split,
    Task,
)
from kernelwright.search.evaluation import acceptance
from kernelwright.tasks import load_task

TASK = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.sqrt(torch.relu(x) ** 2)


def get_inputs():
    return [torch.rand(64, 4096)]


def get_init_inputs():
    return []
"""
RIGHT = "import torch\n\n\ndef run(x):\n    return x.clamp(min=0)\n"
LATE = (
    "import time\n\nimport torch\n\nloaded = time.time()\n\n\n"
    "def run(x):\n    return x.clamp(min=0) * (time.time() < loaded + 3600)\n"
)


def exported(folder: Path, text: str, against: dict[str, float] | None = None) -> Path:
    (folder / "task.py").write_text(TASK)
    task = load_task(str(folder / "task.py"))
    candidate = Candidate(sources=(SourceFile(path="k.py", text=text),), language="torch", entry="k.py:run")
    decision = Decision(
        candidate=candidate.key, status=DecisionStatus.IMPROVED, reason="planted", against=against or {}
    )  # fmt: skip
    evaluation = Evaluation(candidate=candidate, build=Build(status=BuildStatus.OK), decision=decision)
    searched = task.split(Split.SEARCH)
    claim = Claim(
        task=task.name, task_key=task.key, run="r1", reproduce="", decisions=(decision,), contract=task.contract,
        serves={w.name: candidate.key for w in searched}, environment={}, verified=(), not_tested=(),
    )  # fmt: skip
    package(task, [Specialisation(evaluation, searched)], claim, folder / "package")
    return folder / "package"


@pytest.fixture(autouse=True)
def settings(shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(shared_cache))
    monkeypatch.setattr(acceptance, "_VERIFY_S", 900.0)  # on a machine that is busy with other things too


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return exported(tmp_path_factory.mktemp("right"), RIGHT)


@pytest.mark.long
def test_a_kernel_that_is_right_and_faster_holds(right: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["recheck", str(right), "--device", "cpu", "--baseline", "eager", "--json"])
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (code, result["status"], result["kernels"][0]["status"]) == (0, "holds", "holds"), result
    assert result["kernels"][0]["speedup"]["median"] > 1.1


def test_a_kernel_that_is_wrong_by_now_does_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    package = exported(tmp_path, LATE)
    code = main(["recheck", str(package), "--device", "cpu", "--baseline", "eager"])
    said = capsys.readouterr().out.splitlines()
    assert code == 1 and said[-1] == "no longer holds" and "deployment" in said[-2]


def test_what_was_changed_since_it_was_judged_is_not_judged(tmp_path: Path) -> None:
    package = exported(tmp_path, RIGHT)
    (file,) = package.glob("*/specialisations/*/k.py")
    file.write_text(LATE)
    with pytest.raises(InputError, match="not what was judged"):
        recheck(package)


@pytest.mark.parametrize(("asked", "beaten"), [((), ("compile", "eager")), (("eager",), ("eager",))])
def test_a_kernel_is_held_to_the_forms_of_its_claim(
    tmp_path: Path, asked: tuple[str, ...], beaten: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[tuple[str, ...]] = []

    def stop(task: Task, device: Device, baselines: tuple[str, ...]) -> None:
        found.append(tuple(baselines))
        raise InputError("seen")

    monkeypatch.setattr(rechecking, "judging_options", stop)
    with pytest.raises(InputError, match="seen"):
        recheck(exported(tmp_path, RIGHT, {"compile": 1.2, "eager": 1.4}), baselines=asked)
    assert found == [beaten]


@pytest.mark.parametrize("missing", ["claim.json", "judged.json"])
def test_what_is_no_package_is_said_to_be_none(tmp_path: Path, missing: str) -> None:
    package = exported(tmp_path, RIGHT)
    (package / missing).unlink()
    with pytest.raises(InputError, match=f"lacks {missing}"):
        recheck(package)


@pytest.mark.parametrize(
    ("status", "told"),
    [("improved", "holds"), ("equal", "no longer holds"), ("slower", "no longer holds"),
     ("rejected", "no longer holds"), ("inconclusive", "cannot tell"), ("unknown", "cannot tell")],
)  # fmt: skip
def test_what_a_decision_means_for_the_claim(status: str, told: str) -> None:
    decision = Decision(candidate="c", status=DecisionStatus(status), reason="because")
    candidate = Candidate(sources=(), language="torch", entry="k.py:run")
    found = Evaluation(candidate=candidate, build=Build(status=BuildStatus.OK), decision=decision)
    assert rechecking._status(found) == (told, "because")
