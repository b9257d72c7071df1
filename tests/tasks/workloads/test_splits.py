"""Hidden and confirm workloads: what they cover, what they cost, and what is dropped."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from kernelwright.records import Split, Task, TensorSpec, Workload
from kernelwright.tasks import Problem, load_task
from kernelwright.tasks.workloads._shrink import workload_elements

Load = Callable[..., Task]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def make(body: str, x: str = "float32[rows, dim]", sizes: str = "{'rows': 256, 'dim': 512}") -> Task:
        file = tmp_path / "op.py"
        file.write_text(
            "import torch\nimport kernelwright as kw\n"
            f"@kw.task(x='{x}', workloads=[{sizes}])\ndef op(x):\n    {body}\n"
        )
        return load_task(file)

    return make


def _regimes(task: Task) -> set[str]:
    return {w.regime for w in task.workloads}


def _layouts(task: Task) -> set[str]:
    return {s.layout for w in task.workloads for s in w.arguments if isinstance(s, TensorSpec)}


def _is_prime(n: int) -> bool:
    return n > 1 and all(n % d for d in range(2, n))


def test_kinds_of_sizes(load: Load) -> None:
    task = load("return x.softmax(-1)")
    hidden = [w.axes for w in task.split(Split.HIDDEN)]
    assert any(_is_prime(a["rows"]) and _is_prime(a["dim"]) for a in hidden)
    assert any(a["rows"] == 1 for a in hidden)
    assert any(a["dim"] == 1 for a in hidden)
    assert any(a["rows"] > 256 for a in hidden)
    assert any(a["dim"] > 512 for a in hidden)
    assert any(a["rows"] % 2 and a["dim"] % 2 and a["rows"] < 128 for a in hidden)


def test_cost(load: Load) -> None:
    task = load("return x.softmax(-1)")
    (search,) = task.split(Split.SEARCH)
    for split in (Split.HIDDEN, Split.CONFIRM):
        sizes = [workload_elements(w) for w in task.split(split)]
        assert max(sizes) <= 1.1 * workload_elements(search)
        assert max(sizes) >= 0.7 * workload_elements(search)
        assert sorted(sizes)[len(sizes) // 2] < 0.5 * workload_elements(search)


def test_confirm_repeats_the_search_shapes_and_adds_others(load: Load) -> None:
    task = load("return x.softmax(-1)")
    (search,) = task.split(Split.SEARCH)
    confirm = task.split(Split.CONFIRM)
    assert [w.axes for w in confirm].count(search.axes) == 1
    assert all(w.regime != "declared" for w in confirm)
    seen = {tuple(w.axes.values()) for w in (*task.split(Split.HIDDEN), search)}
    assert len([w for w in confirm if tuple(w.axes.values()) not in seen]) >= 3


def test_outputs_are_those_of_the_workload(load: Load) -> None:
    task = load("return x.sum(-1), x.argmax(-1)")
    problem = Problem(task)
    for workload in task.workloads:
        outputs = problem.run_reference(workload, problem.inputs(workload, 0), {}).outputs
        assert [tuple(o.shape) for o in outputs] == [s.shape for s in workload.outputs]
        assert [s.dtype for s in workload.outputs] == ["float32", "int64"]


def test_sizes_that_the_reference_refuses_are_left_out(load: Load) -> None:
    task = load("return x.view(x.shape[0] // 32, 32, -1).sum(1)")
    assert {w.axes["rows"] % 32 for w in task.workloads} == {0}
    assert len({w.axes["dim"] for w in task.workloads}) > 3


def test_regimes_under_which_the_reference_is_not_finite_are_dropped(load: Load) -> None:
    free = _regimes(load("return x * 2"))
    assert {"mixed", "large-scale", "negatives", "special", "sparse"} <= free
    logged = _regimes(load("return torch.log(x)", x="float32[rows, dim] uniform(0.5, 1)"))
    assert "negatives" not in logged
    assert "constant" in logged
    assert "large-scale" not in _regimes(load("return torch.exp(x)"))


def test_regimes_on_which_the_reference_raises_are_dropped(load: Load) -> None:
    task = load(
        "assert x.device.type == 'meta' or bool((x >= 0).all())\n    return x + 1",
        x="float32[rows, dim] uniform(0, 1)",
    )
    assert _regimes(task) == {"declared", "constant", "infinity in x"}


def test_special_values_stay_only_where_some_of_the_answer_is_defined(load: Load) -> None:
    assert "special" in _regimes(load("return x.softmax(-1)"))
    nothing = _regimes(load("return x.softmax(-1) + x.sum() * 0"))
    assert "special" not in nothing
    assert {"nan in x", "infinity in x"} <= nothing


def test_where_special_values_leave_nothing_each_argument_gets_one_in_turn(tmp_path: Path) -> None:
    file = tmp_path / "op.py"
    file.write_text(
        "import kernelwright as kw\n"
        "@kw.task(x='float32[n]', y='float32[n]', workloads=[{'n': 256}])\n"
        "def op(x, y):\n    return ((x - y) ** 2).mean()\n"
    )
    task = load_task(file)
    assert {f"{v} in {a}" for v in ("nan", "infinity") for a in ("x", "y")} <= _regimes(task)
    problem, lone = Problem(task), next(w for w in task.workloads if w.regime == "nan in y")
    x, y = problem.inputs(lone, 0)
    assert bool(x.isfinite().all()) and int(y.isnan().sum()) == 1


def test_of_a_small_task_regimes_are_tried_where_all_special_values_fit(load: Load) -> None:
    task = load("return x.tanh()", "float32[n, n]", "{'n': 20}")
    hidden = {w.regime: w for w in task.split(Split.HIDDEN) if w.regime != "negatives"}
    assert hidden["special"].axes["n"] > 8
    (x,) = Problem(task).inputs(hidden["special"], 0)
    assert isinstance(x, torch.Tensor)
    assert x.isnan().any()
    assert x.isposinf().any()
    assert x.isneginf().any()


def test_structured_arguments_get_no_regimes(load: Load) -> None:
    assert _regimes(load("return x.log()", x="float32[rows, dim] probabilities")) == {"declared"}


def test_layouts_are_kept_where_the_reference_takes_them(load: Load) -> None:
    assert _layouts(load("return x * 2")) == {"contiguous", "transposed", "strided"}
    assert _layouts(load("return x.view(-1) * 2")) == {
        "contiguous",
        "strided",
    }  # an even stride can be viewed
    assert _layouts(load("assert x.is_contiguous()\n    return x * 2")) == {"contiguous"}


def test_non_contiguous_inputs_are_really_so(load: Load) -> None:
    task = load("return x * 2")
    problem = Problem(task)
    other = [w for w in task.workloads if any(getattr(s, "layout", "") == "transposed" for s in w.arguments)]
    assert other
    for workload in other:
        (x,) = problem.inputs(workload, 0)
        assert not x.is_contiguous()


def test_a_derived_task_is_the_same_every_time(load: Load) -> None:
    assert load("return x + 1").key == load("return x + 1").key


def test_no_free_axes_still_give_regimes(load: Load) -> None:
    task = load("return x + 1", x="float32[64, 32]", sizes="{}")
    assert {w.axes.get("rows") for w in task.workloads} == {None}
    assert "mixed" in _regimes(task)


def test_inputs_of_workloads_differ_though_shapes_agree(load: Load) -> None:
    task = load("return x + 1")
    problem = Problem(task)

    def sample(workload: Workload) -> torch.Tensor:
        found: torch.Tensor = problem.inputs(workload, 0)[0]
        return found

    (search,) = task.split(Split.SEARCH)
    again = next(w for w in task.split(Split.CONFIRM) if w.axes == search.axes)
    assert not torch.equal(sample(search), sample(again))


def test_where_nothing_can_be_run_sizes_are_derived_by_shape(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kernelwright.tasks.workloads.splits._MOST_SMALL", 16)
    monkeypatch.setattr("kernelwright.tasks.workloads._feasibility.MOST_TRIED", 0)
    monkeypatch.setattr(Problem, "run_reference", lambda *_: pytest.fail("it ran"))
    task = load("return x.softmax(-1)")
    (search,) = task.split(Split.SEARCH)
    hidden, confirm = task.split(Split.HIDDEN), task.split(Split.CONFIRM)
    assert len(hidden) == 2 and all(w.axes != search.axes for w in hidden)
    assert [w.axes == search.axes for w in confirm] == [True, False]
    assert any("not run while loading" in note and "no other value regimes" in note for note in task.notes)


WEIGHED = """
import torch

STEPS = 96

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(64, 4096))

    def forward(self, x):
        return torch.tanh(x @ self.weight).sum(-1)

def get_inputs():
    return [torch.randn(7, STEPS, 64)]
"""


def test_arguments_become_small_beside_weights_that_no_axis_changes(tmp_path: Path) -> None:
    file = tmp_path / "weighed.py"
    file.write_text(WEIGHED)
    task = load_task(file)
    hidden = task.split(Split.HIDDEN)
    special = next(w for w in hidden if w.regime == "special")
    assert special.axes["STEPS"] < 48 and _layouts(task) == {"contiguous", "transposed", "strided"}
    assert max(w.axes["STEPS"] for w in hidden) > 48, "one is near the declared size"
