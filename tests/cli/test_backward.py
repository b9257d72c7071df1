"""`--backward` makes a forward task one of forward and backward together, in whatever form it came."""

import json

import pytest

import kernelwright.tasks
from kernelwright.cli import main

MODEL = """
import torch
import torch.nn as nn

rows, dim = 24, 48

class Model(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.linear = nn.Linear(dim, dim)

    def forward(self, x):
        return torch.tanh(self.linear(x))

def get_inputs():
    return [torch.randn(rows, dim)]

def get_init_inputs():
    return [dim]
"""
DEFINITION = {
    "name": "scaled",
    "axes": {"rows": {"type": "const", "value": 24}, "columns": {"type": "const", "value": 48}},
    "inputs": {"x": {"shape": ["rows", "columns"], "dtype": "float32"}},
    "outputs": {"y": {"shape": ["rows", "columns"], "dtype": "float32"}},
    "workloads": [{"axes": {}}],
    "reference": "import torch\n\ndef run(x):\n    return torch.tanh(x)\n",
}


def described(path, capsys, *flags):
    assert main(["describe", str(path), "--json", *flags]) == 0
    told = json.loads(capsys.readouterr().out)
    return told["contract"]["backward"], [o["name"] for o in told["workloads"][0]["outputs"]]


@pytest.mark.parametrize(
    ("name", "text", "gradients"),
    [
        ("model.py", MODEL, ["grad_x", "grad_linear.weight", "grad_linear.bias"]),
        ("scaled.json", json.dumps(DEFINITION), ["grad_x"]),
    ],
    ids=["kernelbench", "definition"],
)
def test_gradients_become_outputs(name, text, gradients, tmp_path, capsys):
    path = tmp_path / name
    path.write_text(text)
    forward, outputs = described(path, capsys)
    assert not forward and len(outputs) == 1
    backward, outputs = described(path, capsys, "--backward")
    assert backward and outputs[1:] == gradients


class _LoadedError(BaseException):
    """What a command asked for."""


@pytest.mark.parametrize("command", ["admit", "bound", "profile", "judge", "optimize"])
def test_every_command_that_loads_a_task_has_the_flag(command, tmp_path, monkeypatch):
    def load(target, **asked):
        raise _LoadedError(asked["backward"])

    monkeypatch.setattr(kernelwright.tasks, "load_task", load)
    more = ["candidate.py"] if command == "judge" else []
    with pytest.raises(_LoadedError, match="True"):
        main([command, "task.py", *more, "--backward", "--store", str(tmp_path)])
    with pytest.raises(_LoadedError, match="False"):
        main([command, "task.py", *more, "--store", str(tmp_path)])
