"""Modules are held to the reference in both modes."""

import pytest

from kernelwright.languages import get_language
from kernelwright.records import Candidate, SourceFile, Split
from kernelwright.sandbox import FailureKind, WorkerFailure
from kernelwright.system.waiting import PatientDeadline
from kernelwright.tasks import Problem, load_task
from kernelwright.verify import Oracle, verify
from kernelwright.verify._case import Seeds
from kernelwright.verify._trial import Trial
from kernelwright.verify.checks import modes

TASK = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.BatchNorm1d(channels)

    def forward(self, x):
        return torch.relu(self.norm(x))

rows = 24
channels = 32

def get_inputs():
    return [torch.randn(rows, channels)]

def get_init_inputs():
    return [channels]
"""
MODULE = """
import torch
import torch.nn as nn
import torch.nn.functional as F

class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.BatchNorm1d(channels)

    def forward(self, x):
        n = self.norm
        {body}
"""
TRAINED = (
    "n.num_batches_tracked.add_(1)\n        return F.batch_norm(x, n.running_mean, n.running_var, n.weight, n.bias, "
    "True, 0.1).relu()"
)
BODIES = {
    "honest": "return self.norm(x).relu()",
    "always trains": TRAINED,
    "cheats in eval": f"if not self.training:\n            return x.relu()\n        {TRAINED}",
    "declines eval": "if not self.training:\n            raise NotImplementedError('Unsupported: eval mode')\n"
    f"        {TRAINED}",
    "raises in eval": f"assert self.training\n        {TRAINED}",
}


@pytest.fixture(scope="module")
def oracle(tmp_path_factory):
    path = tmp_path_factory.mktemp("task") / "norm.py"
    path.write_text(TASK)
    return Oracle(Problem(load_task(str(path))))


def built(name):
    source = SourceFile(path="c.py", text=MODULE.format(body=BODIES[name]))
    candidate = Candidate(sources=(source,), language="torch", entry="c.py:ModelNew", style="module")
    return candidate, get_language("torch").build(candidate)


@pytest.fixture
def judged(oracle, pool):
    def judge(name, disabled=frozenset()):
        return verify(oracle.problem, *built(name), pool=pool, oracle=oracle, disabled=disabled)

    return judge


@pytest.mark.parametrize("name", ["honest", pytest.param("declines eval", marks=pytest.mark.long)])
def test_right_or_declined_in_the_other_mode(name, judged):
    found = judged(name)
    assert found.status == "accepted", [f for f in found.findings if f.status != "pass"]


@pytest.mark.parametrize("name", ["always trains", "cheats in eval", "raises in eval"])
def test_wrong_in_the_other_mode(name, judged):
    found = judged(name)
    assert found.failure == "modes"
    assert "in eval mode" in found.findings[-1].message


def test_time_that_runs_out_in_the_other_mode_is_no_fault(oracle, pool, monkeypatch):
    def late(trial, case):
        trial._deadline = PatientDeadline(0.0)
        raise WorkerFailure(FailureKind.TIMEOUT, "no answer before the deadline")

    monkeypatch.setattr(modes, "observe", late)
    (workload,) = oracle.task.split(Split.SEARCH)
    with Trial(oracle, *built("honest"), pool, deadline=PatientDeadline(600.0), seeds=Seeds()) as trial:
        found = modes.Modes().probe(trial, oracle.case(workload, 1))
    assert found.status == "unknown", found


@pytest.mark.long
def test_without_the_check_it_gets_through(judged):
    assert judged("cheats in eval", frozenset({"modes"})).status == "accepted"


def test_the_other_mode_has_facts_of_its_own(oracle):
    (workload,) = oracle.task.split(Split.SEARCH)
    other = oracle.in_other_mode(workload)
    assert (oracle.task.contract.mode, other.task.contract.mode) == ("train", "eval")
    assert oracle.task.contract.mutates
    assert not other.task.contract.mutates
    assert not oracle.case(workload, 1).outputs[0].native.equal(other.case(workload, 1).outputs[0].native)
