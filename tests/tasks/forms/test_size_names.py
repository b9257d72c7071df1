"""Workloads of a plain file are named after the arguments and axes that their sizes belong to."""

from pathlib import Path

from kernelwright.records import Split
from kernelwright.tasks import load_task

_FILE = """
import torch
import torch.nn as nn

{constants}

class Model(nn.Module):
    def forward(self, x, weight):
        return x @ weight


def get_inputs():
    return [{inputs}]
"""


def _file(folder: Path, inputs: str, constants: str = "") -> Path:
    file = folder / "op.py"
    file.write_text(_FILE.format(inputs=inputs, constants=constants))
    return file


def test_literals_are_named_after_argument_and_axis_and_a_shared_size_once(tmp_path: Path) -> None:
    task = load_task(_file(tmp_path, "torch.randn(96, 64), torch.randn(64, 32)"))
    (search,) = task.split(Split.SEARCH)
    assert search.name == "x[0]=96,x[1]=64,weight[1]=32"
    assert not [w.name for w in task.workloads if "get_inputs" in w.name]


def test_a_name_that_the_file_gives_stays(tmp_path: Path) -> None:
    task = load_task(_file(tmp_path, "torch.randn(rows, 64), torch.randn(64, 32)", "rows = 96"))
    assert task.split(Split.SEARCH)[0].name == "rows=96,x[1]=64,weight[1]=32"


def test_a_label_is_what_fixed_takes(tmp_path: Path) -> None:
    task = load_task(_file(tmp_path, "torch.randn(96, 64), torch.randn(64, 32)"), fixed=("x[1]",))
    assert {w.arguments[0].shape[1] for w in task.workloads} == {64}  # type: ignore[union-attr]


def test_what_was_shrunk_is_named_alike(tmp_path: Path) -> None:
    task = load_task(_file(tmp_path, "torch.randn(9600, 64), torch.randn(64, 32)"), max_elements=200_000)
    assert task.notes == ("shrunk x[0]: 9,600 → 1,200",)
