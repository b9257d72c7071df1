"""Turns of the benchmarks of ops: what is timed is compared first."""

import pytest
import torch
from benchmarks.ops._turns import Case, backward, turns

RIGHT = torch.tensor([1.0, 2.0, 100.0], dtype=torch.float64)


def _case(kernel: torch.Tensor, other: torch.Tensor, truth: torch.Tensor | None) -> Case:
    contestants = {"kernel": lambda: kernel, "torch": lambda: other}
    return Case("op", "3", "bfloat16", contestants, 1e-2, None if truth is None else lambda: truth)


def test_a_peer_that_is_wrong_is_told_where_the_truth_is_given():
    row = turns(_case(RIGHT.bfloat16(), RIGHT.bfloat16() * 0.75, RIGHT), 1, 1)
    assert row["errors"] == {"kernel": 0.0, "torch": 0.25}


def test_a_kernel_that_is_wrong_stops_the_script():
    wrong = RIGHT.bfloat16() * 0.75
    with pytest.raises(
        SystemExit, match=r"op 3 bfloat16: differs from float64 by 0\.25 of the largest number"
    ):
        turns(_case(wrong, wrong, RIGHT), 1, 1)
    with pytest.raises(SystemExit, match=r"differs from torch by 0\.25"):
        turns(_case(wrong, RIGHT.bfloat16(), None), 1, 1)
    with pytest.raises(SystemExit, match="differs from float64 by nan"):
        turns(_case(wrong * float("nan"), wrong, RIGHT), 1, 1)


def test_float64_has_the_slopes_of_the_others():
    x = torch.randn(3, dtype=torch.bfloat16)
    (narrow,) = backward(lambda t: t * 1.0, [x])()
    (wide,) = backward(lambda t: t * 1.0, [x.double()], torch.bfloat16)()
    assert torch.equal(narrow.double(), wide)
