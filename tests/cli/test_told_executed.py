"""The last line of `judge` on a candidate that was executed, and that nothing here times."""

import pytest

from kernelwright.cli._executed import told_executed
from kernelwright.cli.judge import _print
from kernelwright.records import CheckStatus, Finding, ModelledTime, Split
from kernelwright.search import Judgement
from kernelwright.tasks import load_task

TASK = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.rand(8, 16)]


def get_init_inputs():
    return []
"""
MODELLED = ModelledTime(
    device="NVIDIA H100 SXM", low_us=1.5, high_us=6.0, term="dram", terms_us={}, occupancy=1.0,
    limited_by="threads", operations_per_byte=0.25, ridge=20.0,
)  # fmt: skip


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    path = tmp_path_factory.mktemp("task") / "task.py"
    path.write_text(TASK)
    return load_task(str(path))


def judgement(*open_checks, stage="full", verdict="unknown", modelled=(MODELLED,)):
    findings = [Finding(check=name, status=CheckStatus.PASS) for name in ("correct", "sanitised")]
    findings += [Finding(check=name, status=CheckStatus.UNKNOWN) for name in open_checks]
    return Judgement(
        task="t", candidate="k", verdict=verdict, findings=tuple(findings), decision="unknown", speedup=None, run="r1",
        stage=stage, reason="", baseline=None, time_us=None, bound_us=None, workloads=(), start_up=None, lost="",
        caveats=(), sizes=(), declined=(), diagnostics="", evidence={}, advice=(), modelled=modelled,
    )  # fmt: skip


def told(task, given, language="triton"):
    return told_executed(given, task, "task.py k.py", language, " --store s").splitlines()


def test_what_is_known_and_the_next_command_are_said(task):
    known, then = told(task, judgement("timed"))
    assert known == (
        f"unknown; executed and sanitised on the CPU, right on {len(task.workloads)} workloads; "
        "1.5 to 6 us by a model of NVIDIA H100 SXM, which no device took"
    )
    assert then.startswith("to have it timed: ")
    assert " bundle run:r1 --for sm_90 --to FOLDER --store s, " in then


def test_without_a_model_the_bundle_names_the_task_and_the_candidate(task):
    known, then = told(task, judgement("timed", stage="screen", modelled=()))
    count = len(task.split(Split.SEARCH))
    assert f"right on {count} workload" in known and known.endswith("; no device took a time")
    assert " bundle task.py k.py --for sm_90" in then


def test_of_others_nothing_is_said(task):
    assert told(task, judgement("timed", "sanitised")) == []
    assert told(task, judgement()) == []
    assert told(task, judgement("timed", verdict="rejected")) == []
    assert len(told(task, judgement("timed"), language="torch")) == 1 + 1  # torch runs on a GPU too
    assert len(told(task, judgement("timed"), language="pallas")) == 1


@pytest.mark.parametrize(
    ("verdict", "said"), [("rejected", "rejected; unknown, not timed"), ("unknown", "unknown, not timed")]
)
def test_what_verdict_and_decision_share_is_said_once(verdict, said, capsys):
    _print(judgement("correct", verdict=verdict), "", verbose=False)
    assert capsys.readouterr().out.splitlines()[-1] == said
