"""Helper modules beside a task's file are part of the task."""

import shutil
import sys

import pytest
import torch

from kernelwright.languages import get_language
from kernelwright.tasks import Problem, load_task

OWN = """
import kernelwright as kw
from helper import factor
from parts.scale import scaled

@kw.task(x="float32[rows, columns]", workloads=[{"rows": 4, "columns": 16}])
def scale(x):
    return scaled(x, factor)
"""
KERNELBENCH = """
import torch
import helper

rows = 8

class Model(torch.nn.Module):
    def forward(self, x):
        return x * helper.factor

def get_inputs():
    return [torch.randn(rows, 4)]

def get_init_inputs():
    return []
"""


def written(folder, text, factor):
    folder.mkdir()
    (folder / "task.py").write_text(text)
    (folder / "helper.py").write_text(f"import deeper\nfactor = deeper.value + {factor - 1}.0\n")
    (folder / "deeper.py").write_text("value = 1.0\n")
    (folder / "unused.py").write_text("raise RuntimeError\n")
    (folder / "parts").mkdir()
    (folder / "parts" / "__init__.py").write_text("")
    (folder / "parts" / "scale.py").write_text("def scaled(x, factor):\n    return x * factor\n")
    return folder / "task.py"


def result(problem):
    workload = problem.task.workloads[0]
    x = torch.ones(workload.arguments[0].shape)
    return float(problem.run_reference(workload, [x], {}).outputs[0].flatten()[0])


@pytest.mark.parametrize("text", [OWN, KERNELBENCH])
def test_what_a_task_imports_beside_it_goes_with_it(tmp_path, text):
    """Two tasks whose helpers bear the same name, run after their folders are gone."""
    tasks = [load_task(written(tmp_path / str(f), text, f)) for f in (3, 5)]
    names = {f.path for f in tasks[0].reference.files}
    assert {"task.py", "helper.py", "deeper.py"} <= names
    assert "unused.py" not in names
    assert ("parts/scale.py" in names) == (text is OWN)
    shutil.rmtree(tmp_path / "3")
    shutil.rmtree(tmp_path / "5")
    assert [result(Problem(task)) for task in tasks] == [3.0, 5.0]
    assert [result(Problem(task)) for task in tasks] == [3.0, 5.0]


def test_a_changed_helper_is_another_task(tmp_path):
    path = written(tmp_path / "a", OWN, 3)
    before = load_task(path)
    assert load_task(path).key == before.key
    (path.parent / "deeper.py").write_text("value = 2.0\n")
    after = load_task(path)
    assert after.key != before.key
    assert (result(Problem(before)), result(Problem(after))) == (3.0, 4.0)


def test_modules_of_the_same_name_stay_as_they_were(tmp_path, monkeypatch):
    mine = type(sys)("helper")
    mine.__file__ = "elsewhere/helper.py"
    monkeypatch.setitem(sys.modules, "helper", mine)
    assert result(Problem(load_task(written(tmp_path / "a", OWN, 3)))) == 3.0
    assert sys.modules["helper"] is mine


def test_a_baseline_is_built_of_all_files(tmp_path):
    task = load_task(written(tmp_path / "a", OWN, 3))
    candidate = Problem(task).baseline("eager", task.workloads[0])
    assert {s.path for s in candidate.sources} == {f.path for f in task.reference.files}
    assert get_language("torch").build(candidate).status == "ok"
