"""Kernels hold to their references where single numbers are NaN, infinite, signed zeros or subnormal."""

import dataclasses
import math

import pytest
import torch

from kernelwright import ops
from kernelwright.api.ops import named_cases, task_of
from kernelwright.api.special_values import KINDS, Special, called, special_calls


def wrong_calls(family: str, name: str, workloads: int) -> tuple[list[str], int]:
    """Return what is wrong with a kernel on special values, and how many calls were judged."""
    cases = named_cases(family)[name]
    (op,) = (op for op in ops.ops_of(ops.family(family)) if op.name == cases.op)
    drawn = [one for one in special_calls(task_of(family, cases), cases, workloads=workloads) if one.judged]
    wrong = [(one, one.wrong(called(op, one.inputs))) for one in drawn]
    return [f"{one.workload}, {one.kind} in {one.argument}: {what}" for one, what in wrong if what], len(
        drawn
    )


@pytest.mark.parametrize("columns", [5, 40])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_farthest(value, columns):
    x, c = torch.randint(-3, 4, (40, columns)).float(), torch.randint(-3, 4, (9, columns)).float()
    x[3, 1], x[7, 2], c[0, 2] = value, -value, value
    labels, distances = ops.kmeans.assign(x, c)
    right, exact = ops.kmeans.reference.assign(x, c)
    assert torch.equal(labels, right)
    assert set(labels[distances.isfinite()].tolist()) <= set(range(1, 9))
    torch.testing.assert_close(distances, exact, equal_nan=True)


@pytest.mark.parametrize(
    "given", [{}, {"sigmoid": True}, {"sigmoid": True, "groups": 4, "kept": 2, "best_of_group": 2}]
)
def test_an_expert_whose_score_is_nan_is_chosen_first(given):
    logits = torch.randint(-5, 6, (30, 16)).float()
    logits[4, 9], logits[5, 15], logits[6, 2:4], logits[7, 3] = math.nan, math.inf, math.nan, -math.inf
    (op,) = (op for op in ops.ops_of(ops.moe) if op.name == "moe_gate")
    words = {
        "chosen": 3,
        "sigmoid": False,
        "groups": 1,
        "kept": 1,
        "best_of_group": 1,
        "renormalised": True,
        "scale": 1.0,
    }
    numbers = (words | given).values()
    weights, ids = op(logits, None, *numbers)
    exact, right = ops.moe.reference.gate(logits, None, *numbers)
    assert torch.equal(ids, right)
    assert ids[4, 0] == 9
    torch.testing.assert_close(weights, exact, equal_nan=True)


@pytest.mark.long
@pytest.mark.parametrize("family", ops.families())
def test_every_kernel_is_right_on_special_values_in_each_argument(family):
    said = {name: wrong_calls(family, name, 2) for name in named_cases(family)}
    assert not [what for wrong, _ in said.values() for what in wrong]
    for name, cases in named_cases(family).items():
        floats = any(
            text.split("[")[0] not in ("int8", "int32", "int64", "uint8", "index")
            for text in cases.arguments.values()
        )
        assert bool(said[name][1]) == floats, name


@pytest.fixture(scope="module")
def drawn() -> dict[str, Special]:
    cases = named_cases("activations")["activation"]
    found = {one.kind: one for one in special_calls(task_of("activations", cases), cases, workloads=1)}
    assert tuple(found) == KINDS
    return found


def test_what_is_swallowed_invented_or_of_the_wrong_sign_is_found(drawn):
    (op,) = (op for op in ops.ops_of(ops.activations) if op.name == "activation")
    for kind in KINDS:
        (right,) = called(op, drawn[kind].inputs)
        assert not drawn[kind].wrong([right])
        assert drawn[kind].wrong(
            [torch.where(torch.arange(right.numel()).view_as(right) == 0, torch.nan, right)]
        )
    (right,) = called(op, drawn["NaN"].inputs)
    assert drawn["NaN"].wrong([right.nan_to_num()])
    (right,) = called(op, drawn["infinity"].inputs)
    assert drawn["infinity"].wrong([torch.where(right.isinf(), -right, right)])


def test_arguments_of_no_infinity_get_none():
    made = named_cases("activations")["activation"]
    cases = dataclasses.replace(made, no_infinity=("x",))
    kinds = [one.kind for one in special_calls(task_of("activations", made), cases, workloads=1)]
    assert kinds == ["NaN", "signed zeros", "subnormals"]
