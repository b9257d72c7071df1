"""Where a choice hangs on rounding, either choice is right: a gradient may go either way there, and nowhere else."""

import dataclasses
from types import SimpleNamespace

import pytest
import torch
from benchmarks.honest import judge, load
from benchmarks.problems import problems

from kernelwright.records import CheckStatus, Contract, Split
from kernelwright.tasks import Problem, load_task
from kernelwright.verify import Oracle, _sensitivity, error_against, output_tolerance
from kernelwright.verify.checks.correct import compare_outputs

POOLED = """
import torch
import torch.nn as nn
import torch.nn.functional as F

class Model(nn.Module):
    def forward(self, x):
        return F.max_pool1d(torch.softmax(x, -1)[:, None], 4)[:, 0]

rows, columns = 16, 32

def get_inputs():
    return [torch.randn(rows, columns)]

def get_init_inputs():
    return []
"""
DRAW = ("BATCH=5,IN_CHANNELS=3,DEPTH=5,HEIGHT=9,WIDTH=8,OUT_CHANNELS=8,regime=tiny-scale", 27_818_706_991_548)
"""A draw on which functions two units off choose another element of a window than the native op does."""


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    """Make windows whose largest elements are a unit apart (row 0), twenty units (row 1) and far (all others)."""
    path = tmp_path_factory.mktemp("pooled") / "pooled.py"
    path.write_text(POOLED)
    oracle = Oracle(Problem(load_task(path, backward=True, max_elements=4096)))
    workload = oracle.task.split(Split.SEARCH)[0]
    x, g = oracle.problem.inputs(workload, 1)
    x = x.clone().clamp_(max=3.0)
    x[0, ::4], x[0, 1::4] = 4.0, 4.0 - 2.0**-22
    x[1, ::4], x[1, 1::4] = 4.0, 4.0 - 2.0**-18
    return oracle.make(workload, 1, (x, g), {})


def gradients(x, g, rows=(), times=1.0):
    """Pool and go back; in some rows to the second largest of each window, and so many times as much as is right."""
    y = torch.softmax(x, -1)
    windows = y.view(len(x), -1, 4)
    order = windows.argsort(-1, descending=True)
    place = order[..., 0].clone()
    place[list(rows)] = order[..., 1][list(rows)]
    factors = torch.ones_like(g)
    factors[list(rows)] = times
    into = torch.zeros_like(windows).scatter_(-1, place[..., None], (g * factors)[..., None]).view(y.shape)
    return windows.amax(-1), y * (into - (into * y).sum(-1, keepdim=True))


def passes(outputs, case):
    return compare_outputs("correct", SimpleNamespace(outputs=outputs), case).status is CheckStatus.PASS


def test_a_gradient_may_go_to_either_of_two_that_rounding_does_not_tell_apart(case):
    assert passes(gradients(*case.inputs), case)
    assert passes(gradients(*case.inputs, rows=[0]), case)


@pytest.mark.parametrize(
    ("rows", "times"), [([1], 1.0), ([2], 1.0), (range(16), 1.0), ([0], 3.0), ([3], 1.0001)]
)
def test_but_not_elsewhere_nor_more_than_there_is(case, rows, times):
    assert not passes(gradients(*case.inputs, rows=rows, times=times), case)


def test_who_is_far_off_where_something_is_chosen_gets_a_closer_look(case):
    looked = []
    for chooses in (False, True):
        seen = dataclasses.replace(case, chooses=chooses, closer=lambda: looked.append(True) or case)
        assert not passes(gradients(*case.inputs, rows=[3]), seen)
        assert bool(looked) is chooses
    assert case.chooses


def test_a_near_tie_leaves_other_rows_as_strict(case):
    y, gradient = gradients(*case.inputs)
    tolerance, closer = case.outputs[1], case.closer().outputs[1]
    down, up = closer.jumps
    assert bool((down + up)[0].max() > 0) and not bool((down + up)[1:].max() > 1e-12)
    assert bool((closer.allowed[1:] <= 4 * tolerance.allowed[1:]).all())
    for row in (1, 2, 15):
        spoilt = gradient.clone()
        spoilt[row] *= 1.0001
        assert not passes((y, spoilt), case)


@pytest.mark.parametrize("turns", [0, _sensitivity._TURNS])
def test_functions_two_units_off_choose_another_one(turns, monkeypatch):
    monkeypatch.setattr(_sensitivity, "_TURNS", turns)
    path = next(p for _, p in problems() if p.stem == "conv_3d_softmax_pool")
    oracle = load(path, backward=True)
    name, seed = DRAW
    workloads = [w for w in oracle.task.workloads if w.name == name]
    found = judge(oracle, [seed], ["functions", "fast"], workloads)
    assert found.total == 2
    assert bool(found.refused) == (turns == 0)


def test_a_jump_is_allowed_once_on_its_side_beside_an_error_of_its_own():
    truth = torch.linspace(1, 2, 64, dtype=torch.float64)
    down, up = torch.zeros_like(truth), torch.zeros_like(truth)
    up[7], up[8], down[9] = 0.5, 1e-6, 0.5
    tolerance = output_tolerance(truth, truth.float(), Contract(), jumps=(down, up))
    cases = (
        (7, 0.5, True), (7, 0.51, False), (7, -0.5, False), (7, 0.25, True), (8, 1e-6, True), (8, 1e-5, False),
        (9, -0.5, True), (9, 0.5, False), (10, 1e-5, False), (10, -1e-5, False),
    )  # fmt: skip
    for place, error, right in cases:
        moved = truth.clone()
        moved[place] += error
        assert error_against(moved.float(), tolerance).ok is right, (place, error)
    exact = dataclasses.replace(tolerance, exact=True)
    assert error_against(moved.float(), exact).kind == "exact"


def test_jumps_of_an_answer_in_another_layout_stay_with_their_elements():
    truth = torch.linspace(1, 2, 64, dtype=torch.float64).view(4, 16).t()
    up = torch.zeros(4, 16, dtype=torch.float64).t()
    up[3, 2] = 0.5
    tolerance = output_tolerance(truth, truth.float(), Contract(), jumps=(torch.zeros_like(up), up))
    for place, right in (((3, 2), True), ((2, 3), False)):
        moved = truth.clone()
        moved[place] += 0.5
        assert error_against(moved.float(), tolerance).ok is right


def test_jumps_do_not_count_in_norm():
    truth = torch.linspace(1, 2, 64, dtype=torch.float64) * 1e-3
    truth[5] = 1.0
    up = torch.zeros_like(truth)
    up[:5] = 4e-7
    noise = torch.full_like(truth, 1e-12)
    noise[5] = 1e-6
    tolerance = output_tolerance(
        truth, truth.float(), Contract(), sensitivity=noise, jumps=(torch.zeros_like(up), up)
    )
    jumped = truth + up
    assert error_against(jumped.float(), tolerance).ok
    assert error_against((truth - up).float(), tolerance).kind == "norm"


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.long) for n in (6, 7))])
def test_a_single_jump_in_a_small_gradient_is_right(seed):
    oracle = load(next(p for _, p in problems() if p.stem == "conv_3d_softmax_pool"), backward=True)
    workloads = [w for w in oracle.task.workloads if w.regime == "tiny-scale"]
    found = judge(oracle, [seed], ["functions", "fast"], workloads)
    assert found.total and not found.refused
