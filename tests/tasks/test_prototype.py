"""Copies of a module in place of modules made anew: all their own, and only where they answer alike."""

import functools
from pathlib import Path

import pytest
import torch
from torch import nn

from kernelwright.tasks import Problem, load_task
from kernelwright.tasks._prototype import NotWholeError, Prototype
from kernelwright.tasks.numerics._running_sums import constant

WIDE = torch.float64


class Tied(nn.Module):
    """Two layers of one weight, and what no state holds."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False)
        self.second.weight = self.first.weight
        self.register_buffer("steps", torch.tensor(3.0), persistent=False)
        self.kept = [torch.ones(2)]

    def forward(self, x):
        return self.second(self.first(x)) * self.steps + self.kept[0].sum()


def test_a_copy_is_all_its_own_and_shares_within_as_the_first_does() -> None:
    first = Tied()
    kind, state = Prototype(first), {name: torch.eye(3) for name in ("first.weight", "second.weight")}
    one, other = kind.fresh(state), kind.fresh(state)
    assert one.first.weight is one.second.weight
    one.kept.append(2)
    one.first.weight.data.zero_()
    assert len(other.kept) == len(first.kept) == 1 and float(other.first.weight.data.sum()) == 3
    x = torch.ones(1, 3)
    assert torch.equal(other(x), 3 * x + 2)


def test_a_wide_copy_is_what_double_makes() -> None:
    layer = nn.BatchNorm1d(3)
    state = {k: torch.rand_like(v) if v.is_floating_point() else v for k, v in layer.state_dict().items()}
    layer.load_state_dict(state)
    made = Prototype(nn.BatchNorm1d(3)).fresh(state, wide=True)
    wanted = layer.double().state_dict()
    assert {k: v.dtype for k, v in made.state_dict().items()} == {k: v.dtype for k, v in wanted.items()}
    assert all(torch.equal(v, wanted[k]) for k, v in made.state_dict().items())


def closing_over(layer: nn.Module) -> nn.Module:
    layer.again = lambda x: layer(x)
    return layer


def by_default(layer: nn.Module) -> nn.Module:
    def again(x, used=layer):
        return used(x)

    layer.again = again
    return layer


def hooked(layer: nn.Module) -> nn.Module:
    layer.register_forward_hook(lambda *_: layer.weight.sum())
    return layer


def with_a_view(layer: nn.Module) -> nn.Module:
    layer.row = layer.weight.data[0]
    return layer


@pytest.mark.parametrize("change", [closing_over, by_default, hooked, with_a_view])
def test_what_a_copy_would_share_or_tear_apart_is_made_anew(change) -> None:
    with pytest.raises(NotWholeError):
        Prototype(change(nn.Linear(2, 2)))


def test_a_partial_of_a_method_goes_with_its_copy() -> None:
    layer = nn.Linear(2, 2)
    layer.again = functools.partial(layer.forward)
    made = Prototype(layer).fresh({"weight": torch.eye(2), "bias": torch.zeros(2)})
    assert made.again(torch.ones(2)).tolist() == [1.0, 1.0]


ALIKE = "def forward(self, x):\n        return self.layer(x)"
BY_NUMBER = "def forward(self, x):\n        return KNOWN[self.number].layer(x)"
"""Found by a number in a list of the file's, in which a copy is not."""


@pytest.mark.parametrize(("forward", "copied"), [(ALIKE, True), (BY_NUMBER, False)])
def test_a_copy_has_to_answer_as_a_module_made_anew(tmp_path: Path, forward: str, copied: bool) -> None:
    file = tmp_path / "model.py"
    file.write_text(
        "import torch\n\nKNOWN = []\n\n\nclass Model(torch.nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.layer, self.number = torch.nn.Linear(4, 4), len(KNOWN)\n"
        f"        KNOWN.append(self)\n\n    {forward}\n\n\n"
        "def get_inputs():\n    return [torch.rand(3, 4)]\n\n\ndef get_init_inputs():\n    return []\n"
    )
    problem = Problem(load_task(str(file)))
    workload = problem.task.workloads[0]
    inputs, state = problem.inputs(workload, 1), problem.state(workload, 1)
    found = [problem.run_reference(workload, inputs, state).outputs[0] for _ in range(6)]
    wanted = nn.functional.linear(inputs[0], state["layer.weight"], state["layer.bias"])
    assert all(torch.equal(one, wanted) for one in found)
    truth = nn.functional.linear(
        *(t.to(WIDE) for t in (inputs[0], state["layer.weight"], state["layer.bias"]))
    )
    assert torch.equal(problem.run_oracle(workload, inputs, state).outputs[0], truth)
    assert [kind is not None for kind in problem._prototypes.values()] == [copied]


@pytest.mark.parametrize("dim", [-1, -2])
def test_rows_of_one_value_are_told_from_those_with_equal_ends(dim: int) -> None:
    x = torch.rand(40, 40, dtype=WIDE)
    for row in (3, 9):
        x.select(-1 - (dim == -1), row)[:] = x.select(-1 - (dim == -1), row)[0].clone()
    x.select(-1 - (dim == -1), 9)[20] += 1
    found = constant(x, dim).flatten()
    assert found.nonzero().flatten().tolist() == [3]
