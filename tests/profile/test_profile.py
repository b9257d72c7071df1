"""Profile: shares on planted work."""

import time
from pathlib import Path

import pytest
import torch

from kernelwright.devices import Device
from kernelwright.errors import InputError
from kernelwright.profile import profile
from kernelwright.tasks import Problem, load_task

CPU = Device(kind="cpu", name="any", cores=1, memory_bytes=1, torch_device="cpu")
LOPSIDED = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.heavy = nn.Linear(512, 512)
        self.light = nn.ReLU()

    def forward(self, x):
        for _ in range(4):
            x = self.heavy(x)
        return self.light(x)

def get_inputs():
    return [torch.randn(256, 512)]
"""


@pytest.fixture
def lopsided(tmp_path: Path) -> Problem:
    file = tmp_path / "lopsided.py"
    file.write_text(LOPSIDED)
    return Problem(load_task(str(file)))


def test_the_heavy_operator_and_submodule_come_first(lopsided: Problem) -> None:
    found = profile(lopsided, lopsided.task.workloads[0], CPU, seconds=0.05)
    assert found.operators[0].name == "aten::addmm"
    assert found.operators[0].calls == 4
    assert found.submodules[0].name == "heavy"
    assert found.submodules[0].kind == "Linear"
    assert found.submodules[0].calls == 4
    assert found.submodules[0].share > 0.5 > found.submodules[-1].share
    assert found.operators[0].most_speedup > 1.5


def test_operator_shares_add_up_to_one(lopsided: Problem) -> None:
    found = profile(lopsided, lopsided.task.workloads[0], CPU, seconds=0.05)
    assert sum(o.share for o in found.operators) == pytest.approx(1.0)


def test_time_is_of_one_call_in_microseconds(tmp_path: Path) -> None:
    file = tmp_path / "sleepy.py"
    file.write_text(
        "import time, torch, torch.nn as nn\n"
        "class Model(nn.Module):\n"
        "    def forward(self, x):\n"
        "        if x.device.type != 'meta': time.sleep(0.002)\n"
        "        return x + 1\n"
        "def get_inputs(): return [torch.randn(8)]\n"
    )
    problem = Problem(load_task(str(file)))
    start = time.perf_counter()
    found = profile(problem, problem.task.workloads[0], CPU, seconds=0.05)
    assert 2_000 <= found.time_us < (time.perf_counter() - start) * 1e6
    assert found.submodules == ()


def test_a_function_has_no_submodules_and_its_inputs_and_seeds_stay(tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.write_text(
        "import torch\nimport kernelwright as kw\n"
        "@kw.task(x='float32[n]', workloads=[{'n': 64}])\n"
        "def double(x):\n    return x * 2 + torch.rand(())\n"
    )
    problem = Problem(load_task(str(file)))
    before = torch.random.get_rng_state()
    found = profile(problem, problem.task.workloads[0], CPU, seconds=0.01)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert found.submodules == ()
    assert {"aten::mul", "aten::add"} <= {o.name for o in found.operators}


@pytest.mark.needs("no GPU")
def test_a_device_that_torch_cannot_reach_is_named(lopsided: Problem) -> None:
    gpu = CPU.model_copy(update={"kind": "cuda", "torch_device": "cuda:0"})
    with pytest.raises(InputError, match="cuda:0"):
        profile(lopsided, lopsided.task.workloads[0], gpu)


def test_a_slow_reference_is_called_once_for_each_question(tmp_path):
    path = tmp_path / "slow.py"
    path.write_text(
        "import kernelwright as kw\nCALLS = []\n@kw.task(x='float32[n]', workloads=[{'n': 8}])\n"
        "def slow(x):\n    CALLS.append(1)\n    return x + 1\n"
    )
    problem = Problem(load_task(path))
    calls = problem.reference(problem.task.workloads[0]).__globals__["CALLS"]
    before = len(calls)
    found = profile(problem, problem.task.workloads[0], CPU, seconds=0.0)
    assert (found.calls, len(calls) - before) == (1, 3)
