"""Schedules in one process: calls alternate, and errors are told relative to the largest result."""

import torch
from benchmarks.leaves import error_of, timed


def test_calls_of_all_legs_alternate_until_there_are_enough():
    called = []
    variants = {"eager": lambda: called.append("eager"), "own": lambda: called.append("own")}
    times = timed(variants, seconds=0.0)
    assert called == ["eager", "own"] * (len(called) // 2) and len(called) >= 12
    assert set(times) == {"eager", "own"} and all(t >= 0 for t in times.values())


def test_the_error_is_that_of_the_worst_result():
    right = torch.tensor([1.0, -4.0]), torch.tensor([2.0])
    assert error_of((right[0], torch.tensor([2.5])), right) == 0.25
    assert error_of(torch.tensor([1.0, -3.0]), right[:1]) == 0.25
