"""Sizes that a reference does not take: tied where they must be, else dropped and counted, never an error."""

from pathlib import Path

import pytest

from kernelwright.errors import TaskError
from kernelwright.records import Split, Task
from kernelwright.tasks import Problem, load_task

_FILE = """
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        {init}

    def forward(self, {names}):
        return {body}


def get_inputs():
    return [{inputs}]
"""


def _load(folder: Path, body: str, inputs: str, names: str = "x, y", init: str = "pass") -> Task:
    file = folder / "op.py"
    file.write_text(_FILE.format(body=body, inputs=inputs, names=names, init=init))
    return load_task(file)


def _all_run(task: Task) -> None:
    problem = Problem(task)
    for workload in task.workloads:
        problem.run_reference(workload, problem.inputs(workload, 1), problem.state(workload, 1))


def test_a_bound_of_indices_moves_with_the_size_that_they_index(tmp_path: Path) -> None:
    inputs = "torch.randn(64, 3000), torch.randint(0, 3000, (64,))"
    task = _load(tmp_path, "F.cross_entropy(x, y)", inputs)
    for workload in task.workloads:
        logits, targets = Problem(task).inputs(workload, 0)
        assert 0 <= int(targets.min()) <= int(targets.max()) < logits.shape[1]
    classes = {w.arguments[0].shape[1] for w in task.split(Split.HIDDEN)}  # type: ignore[union-attr]
    assert len(classes) >= 4
    assert not [note for note in task.notes if note.startswith("dropped")]


def test_sizes_that_the_reference_does_not_take_are_dropped_and_counted(tmp_path: Path) -> None:
    inputs = "torch.randn(64, 3000), torch.randint(0, 2999, (64,))"
    task = _load(tmp_path, "F.cross_entropy(x, y)", inputs)
    _all_run(task)
    (note,) = [note for note in task.notes if note.startswith("dropped")]
    assert note.endswith("derived workloads that the reference does not take")
    assert {w.arguments[0].shape[0] for w in task.workloads} > {64}  # type: ignore[union-attr]


def test_a_table_inside_the_module_bounds_the_sizes_that_index_it(tmp_path: Path) -> None:
    inputs = "torch.randn(8, 512, 64)"
    init = "self.places = nn.Embedding(512, 64)"
    task = _load(tmp_path, "x + self.places(torch.arange(x.shape[1]))", inputs, "x", init)
    _all_run(task)


def test_the_file_s_own_sizes_fail_it_in_one_sentence(tmp_path: Path) -> None:
    inputs = "torch.randn(64, 3000), torch.randint(3001, 3002, (64,))"
    with pytest.raises(
        TaskError, match=r"raised IndexError at its own sizes, workload .*out of bounds"
    ) as raised:
        _load(tmp_path, "F.cross_entropy(x, y)", inputs)
    assert "\n" not in str(raised.value)
