"""References that ask autograd for gradients themselves are recorded; what cannot be is one sentence."""

import pytest

from kernelwright.errors import TaskError
from kernelwright.records import Split
from kernelwright.tasks import Problem, load_task
from kernelwright.tasks.capture import _capture, capture, recorded

FORCES = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.fc = nn.Linear(dim, dim)

    def forward(self, x):
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            energy = torch.tanh(self.fc(x)).sum()
            (force,) = torch.autograd.grad(energy, x)
        return CALL(force)

def get_inputs():
    return [torch.randn(8, 4)]

def get_init_inputs():
    return [4]
"""


def problem_of(tmp_path, call):
    path = tmp_path / "forces.py"
    path.write_text(FORCES.replace("CALL", call))
    return Problem(load_task(path))


@pytest.mark.parametrize("find", [capture, recorded])
def test_a_reference_that_calls_autograd_is_recorded_with_its_backward(tmp_path, find):
    problem = problem_of(tmp_path, "")
    (workload,) = problem.task.split(Split.SEARCH)[:1]
    graph = find(problem, workload)
    ops = [node.op for node in graph.ops]
    assert ops.count("aten.addmm.default") == 1
    assert ops.count("aten.mm.default") == 1
    assert graph.state == ("fc.weight", "fc.bias")
    assert [graph.node(name).shape for name in graph.outputs] == [(8, 4)]


def test_what_cannot_be_recorded_is_one_sentence(tmp_path, monkeypatch):
    def refused(*_):
        raise RuntimeError("not under\na transform")

    problem = problem_of(tmp_path, "(lambda force: force if force.sum() > 0 else -force)")
    monkeypatch.setattr(_capture, "record", refused)
    with pytest.raises(
        TaskError, match=r"^forces: its operations cannot be recorded.*not under a transform$"
    ):
        capture(problem, problem.task.workloads[0])
