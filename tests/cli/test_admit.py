"""`kernelwright admit` says what refuses each wrong answer."""

from kernelwright.cli.admit import admit

TASK = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)

rows = 24
dim = 48

def get_inputs():
    return [torch.rand(rows, dim)]

def get_init_inputs():
    return []
"""


def test_the_regime_that_refuses_is_named(tmp_path, capsys):
    path = tmp_path / "positive.py"
    path.write_text(TASK)
    assert admit(str(path)) == 0
    rows = dict(line.split("\t") for line in capsys.readouterr().out.splitlines() if "\t" in line)
    assert rows["zeros"] == "caught"
    assert rows["input-0"].endswith("values only")


FIXED = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x, index, mask):
        return x[index] * mask

rows = 24
dim = 48

def get_inputs():
    return [torch.randn(rows, dim), torch.arange(rows) * 5 % rows, torch.ones(rows, dim)]

def get_init_inputs():
    return []
"""


def test_arguments_that_no_draw_varies_are_named(tmp_path, capsys):
    path = tmp_path / "fixed.py"
    path.write_text(FIXED)
    assert admit(str(path)) == 0
    said = [line for line in capsys.readouterr().out.splitlines() if "rely on" in line]
    assert len(said) == 1
    assert " index: " in said[0]
