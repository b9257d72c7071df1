"""Launches recorded in a CUDA graph: the printed lines, where running them again stands for a GPU's graph."""

from contextlib import contextmanager

import pytest
import torch
from tests.models.conftest import written

from kernelwright.compiler import schedules
from kernelwright.models import capture_model, load_model
from kernelwright.models._timing import untimed
from kernelwright.models._whole_task import whole_task
from kernelwright.tasks import Problem

MODEL = """
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up = nn.LayerNorm(16), nn.Linear(16, 16)

    def forward(self, x):
        return x + nn.functional.silu(self.up(self.norm(x)))

def build():
    torch.manual_seed(0)
    return nn.Sequential(Block(), Block()), (torch.randn(4, 16),)
"""


class Graph:
    """Runs what was captured again, into the results of the first time."""

    captured = None

    def replay(self):
        call, arguments, found = self.captured
        found.copy_(call(*arguments))


@contextmanager
def recording(graph):
    yield


@pytest.fixture
def program(tmp_path, monkeypatch):
    loaded = load_model(f"{written(tmp_path, 'blocks.py', MODEL)}:build")
    captured = capture_model(loaded)
    task = whole_task(loaded, captured, {p.name: untimed(p) for p in captured.pieces}).task
    schedule = next(iter(schedules(Problem(task), ("triton",))))
    capturing = [False]
    cuda = {
        "Event": Event,
        "CUDAGraph": Graph,
        "graph": recording,
        "is_current_stream_capturing": lambda: capturing[0],
    }
    for name, value in (cuda | {"synchronize": lambda device: None}).items():
        monkeypatch.setattr(torch.cuda, name, value)
    return schedule, loaded, capturing


class Event:
    """Counts."""

    waits = records = 0

    def wait(self):
        Event.waits += 1

    def record(self):
        Event.records += 1


def loaded_text(text, once):
    """Run the lines after the launches, with another function in place of these."""
    space = {"torch": torch, "once": once}
    lines = text[text.index("\n\nclass Recorded") :]
    name = (
        next(line for line in reversed(text.splitlines()) if line.startswith("    return "))
        .split("(")[0]
        .split()[-1]
    )
    exec(f"import threading\n{lines}".replace(name, "once"), space)
    return space


def test_a_long_program_is_replayed_with_its_inputs_and_weights_as_they_are(program):
    schedule, loaded, capturing = program
    assert schedule.space.parameters[-1].values == (True, False)
    text = schedule.render(schedule.default()).sources[0].text
    assert "class Recorded" not in schedule.render({**schedule.default(), "replay": False}).sources[0].text
    calls = []

    def once(x, *weights):
        calls.append(x)
        return x + weights[0].sum()

    space = loaded_text(text, once)
    weights = tuple(loaded.module.state_dict().values())
    recorded = space["Recorded"](weights)
    recorded.graph.captured = (once, (*recorded.held, *weights), recorded.found)
    x, run = torch.randn(4, 16), space[[n for n in space if n not in ("torch", "once", "prepare")][-1]]
    for _ in range(2):
        torch.testing.assert_close(run(x, (weights, recorded)), x + weights[0].sum())
        x = x * 2
    weights[0].mul_(3)
    first = run(x, (weights, recorded))
    torch.testing.assert_close(first, x + weights[0].sum())
    run(x + 1, (weights, recorded))
    torch.testing.assert_close(first, x + weights[0].sum())  # a result is the caller's own
    assert all(given is recorded.held[0] for given in calls) and Event.waits == Event.records == 4
    other = torch.randn(2, 16)
    for given in (other, other.double()):
        run(given, (weights, recorded))
        assert calls[-1] is given
    capturing[0] = True
    run(x, (weights, recorded))
    assert calls[-1] is x
    assert space["prepare"](dict(enumerate(weights)))[1] is None


def test_short_programs_are_not(tmp_path):
    loaded = load_model(torch.nn.Sequential(torch.nn.LayerNorm(16)), (torch.randn(4, 16),))
    captured = capture_model(loaded)
    task = whole_task(loaded, captured, {p.name: untimed(p) for p in captured.pieces}).task
    schedule = next(iter(schedules(Problem(task), ("triton",))))
    assert "replay" not in {p.name for p in schedule.space.parameters}
