"""Outputs of timed calls against the baseline's."""

import torch

from kernelwright.measure._outputs import Tolerance, difference

Y = torch.randn(100, 32, generator=torch.Generator().manual_seed(0))
ALLOWED = Tolerance((2e-6,), jumpy=False)


def test_rounding_passes_and_stale_downcast_and_one_element_do_not():
    assert difference([Y * (1 + 1e-7)], [Y], ALLOWED) == ""
    assert "differ" in difference([Y.flip(0)], [Y], ALLOWED)
    assert "differ" in difference([Y.half().float()], [Y], ALLOWED)
    one = Y.clone()
    one[3, 4] += 1
    assert difference([one], [Y], ALLOWED).startswith("1 of 3200")


def test_nan_must_stand_where_the_baseline_has_it():
    marked = Y.clone()
    marked[0, 0] = float("nan")
    assert difference([marked], [marked], ALLOWED) == ""
    assert difference([Y], [marked], ALLOWED)
    assert difference([marked], [Y], ALLOWED)


def test_shape_and_number_must_fit():
    assert "shape" in difference([Y[:, :16]], [Y], ALLOWED)
    assert "outputs" in difference([], [Y], ALLOWED)
