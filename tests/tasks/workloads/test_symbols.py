"""Which sizes may change, and how the arguments' sizes follow."""

from pathlib import Path

import pytest

from kernelwright.records import SizeOf
from kernelwright.tasks import Problem, load_task
from kernelwright.tasks.workloads.symbols import Symbols

EXAMPLES = Path(__file__).parents[3] / "examples"
OWN = """
import torch
import kernelwright as kw

@kw.task(x="float32[rows, 2 * dim]", w="float32[dim, dim]", b="float32[rows + 1]", fixed={fixed},
         workloads=[{{"rows": 16, "dim": 24}}])
def op(x, w, b):
    return x[:, : w.shape[0]] @ w * b[1:, None]
"""
MADE = """
import torch, torch.nn as nn
{constants}
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(dim, 8)
    def forward(self, x):
        return self.layer(x) {more}
def get_inputs():
    return [torch.randn(rows, dim)]
def get_init_inputs():
    return []
"""
LITERAL = """
import torch, torch.nn as nn
class Model(nn.Module):
    def forward(self, x, y):
        return nn.functional.cross_entropy(x, y)
def get_inputs():
    return [torch.randn(24, 32), torch.randint(0, 32, (24,))]
def get_init_inputs():
    return []
"""


@pytest.fixture
def symbols(tmp_path):
    def read(text):
        (tmp_path / "op.py").write_text(text)
        problem = Problem(load_task(str(tmp_path / "op.py")))
        return Symbols(problem, problem.task.workloads[0])

    return read


def test_sizes_follow_from_symbols_by_scale_and_offset(symbols):
    found = symbols(OWN.format(fixed=[]))
    assert [(s.name, s.value) for s in found.free] == [("rows", 16), ("dim", 24)]
    rows, dim = SizeOf(symbol="rows"), SizeOf(symbol="dim")
    assert found.arguments == (
        (rows, SizeOf(symbol="dim", scale=2)),
        (dim, dim),
        (SizeOf(symbol="rows", offset=1),),
    )
    assert [s.shape for s in found.at({"rows": 5}).arguments] == [(5, 48), (24, 24), (6,)]


def test_what_the_owner_fixed_stays(symbols):
    assert [s.name for s in symbols(OWN.format(fixed=["dim"])).free] == ["rows"]


def test_sizes_of_parameters_stay(symbols):
    found = symbols(MADE.format(constants="rows, dim = 16, 24", more=""))
    assert [s.name for s in found.free] == ["rows"]
    assert "dim stays 24: it is a size of parameters" in found.notes[0]


def test_a_size_that_the_reference_computes_with_stays(symbols):
    found = symbols(MADE.format(constants="rows, dim = 16, 24", more="* rows"))
    assert found.free == ()
    assert "rows stays 16: the reference computes something else at another value" in found.notes


def test_literals_that_move_together_are_one_symbol_named_after_argument_and_axis(symbols):
    found = symbols(LITERAL)
    assert [s.name for s in found.free] == ["x[0]", "x[1]"]
    assert found.arguments == ((SizeOf(symbol="x[0]"), SizeOf(symbol="x[1]")), (SizeOf(symbol="x[0]"),))


def test_symbols_of_a_task_that_was_shrunk_move_from_its_own_sizes_not_from_the_files():
    problem = Problem(load_task(EXAMPLES / "kernelbench_softmax.py", max_elements=10_000))
    workload = problem.task.workloads[0]
    found = Symbols(problem, workload)
    assert len(found.free) == 2 and not found.notes
    one, other = found.free
    moved = found.at({one.name: one.value + 1})
    assert moved is not None and moved.axes == {**workload.axes, **dict.fromkeys(one.axes, one.value + 1)}
    assert moved.axes[other.axes[0]] == other.value
