"""Fresh content: other values each time, within the range and the structure that was declared."""

import torch

from kernelwright.measure._content import Content
from kernelwright.records import Split
from kernelwright.tasks import Problem, load_task

TASK = """
import torch
import kernelwright as kw

@kw.task(x="float32[n]", y="float32[n] uniform(1, 2)", k="int64[n] integers(0, 5)", workloads=[{"n": 512}])
def all_of_them(x, y, k):
    return x * y * k
"""


def content(tmp_path):
    path = tmp_path / "task.py"
    path.write_text(TASK)
    problem = Problem(load_task(str(path)))
    return Content(problem, problem.task.split(Split.SEARCH)[0])


def test_no_value_comes_twice_at_a_place_or_at_another(tmp_path):
    drawn = content(tmp_path)
    lists = drawn.several(8)
    for i in (0, 1):
        seen = torch.cat([values[i] for values in lists])
        assert seen.unique().numel() > 0.99 * seen.numel()
    assert not torch.equal(lists[0][2], lists[1][2])


def test_a_narrow_dtype_meets_as_many_factors_as_a_wide_one(tmp_path):
    path = tmp_path / "task.py"
    path.write_text(TASK.replace("float32[n] uniform(1, 2)", "bfloat16[n] uniform(1, 2)"))
    problem = Problem(load_task(str(path)))
    drawn = Content(problem, problem.task.split(Split.SEARCH)[0])
    drawn._pools[1].copy_(torch.linspace(1, 1.9, drawn._pools[1].numel()))
    firsts = {tuple(values[1].sort().values.tolist()) for values in drawn.several(64)}
    assert len(firsts) > 48


def test_the_declared_range_is_kept(tmp_path):
    for x, y, k in content(tmp_path).several(8):
        assert x.min() < -1 and x.max() > 1
        assert y.min() >= 1 and y.max() < 2
        assert k.min() >= 0 and k.max() < 5
