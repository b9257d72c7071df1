"""Sums of terms that are alike are off by what a loop in float32 shows, and rows that are alike are off alike."""

import pytest
import torch

from kernelwright.tasks.numerics import _running_sums
from kernelwright.tasks.numerics._rounding import Rounding
from kernelwright.tasks.numerics._running_sums import drift
from kernelwright.tasks.numerics._summation_error import spread

HALF = 2.0**-24


def added_up(x):
    """Add the last axis up in float32, by a loop."""
    total = torch.zeros(x.shape[:-1])
    for k in range(x.shape[-1]):
        total = total + x[..., k].float()
    return total.double()


def constant(*shape):
    return torch.full(shape, 0.1, dtype=torch.float64)


@pytest.fixture
def once(monkeypatch):
    """Sums are added up once, as large ones are."""
    monkeypatch.setattr(_running_sums, "_LARGE", 0)


def test_a_sum_drifts_as_a_loop_does(once):
    x = constant(3, 1000)
    x[1] = torch.randn(1000, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    found = drift("sum", (x, [1], True), x.sum(1, keepdim=True))
    assert found.shape == (3, 1)
    assert torch.allclose(found[:, 0] * HALF, added_up(x) - x.sum(1), rtol=1e-6, atol=1e-12)
    assert torch.equal(found[0], found[2])
    assert float(found[0].abs()) > 3 * float(spread("sum", (x, [1]), x.sum(1))[0])


@pytest.mark.parametrize("dims", [None, [], [0], [0, 2], [-1]])
def test_any_axes_are_added_up_in_order(dims, once):
    x = constant(6, 5, 40)
    total = x.sum(dims) if dims else x.sum()
    args = (x,) if dims is None else (x, dims)
    axes = [d % 3 for d in dims or range(3)]
    rows = x.permute(*(d for d in range(3) if d not in axes), *axes).flatten(3 - len(axes))
    assert torch.allclose(drift("sum", args, total) * HALF, added_up(rows) - rows.sum(-1), rtol=1e-6)


def test_a_mean_and_a_variance_drift_by_their_share():
    x = constant(2, 4000)
    x[:, ::7] = 3.0
    total, mean = x.sum(1), x.mean(1)
    assert torch.allclose(drift("mean", (x, [1]), mean), drift("sum", (x, [1]), total) / 4000)
    squares = (x - mean[:, None]).square()
    expected = drift("sum", (squares, [1]), squares.sum(1)) / 3999
    assert float(expected.abs().min()) > 0
    assert torch.allclose(drift("var", (x, [1]), x.var(1)), expected)
    assert torch.equal(drift("var", (constant(2, 8), [1]), torch.zeros(2).double()), torch.zeros(2).double())


def test_running_sums_drift_more_and_more():
    x = constant(2, 3000)
    found = drift("cumsum", (x.T, 0), x.T.cumsum(0)).T
    loop = added_up(x[:, :2500]) - x[:, :2500].sum(1)
    assert torch.allclose(found[:, 2499] * HALF, loop, rtol=1e-6)


def test_constants_but_for_rounding_drift_as_constants():
    above_a_tie = 1.0 + 2.0**-13 + 2.0**-23
    x = torch.full((1, 4096), above_a_tie, dtype=torch.float64)
    noise = torch.randn(1, 4096, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    nearly = x * (1 + HALF * noise)
    nearly[0, 0] = x[0, 0]
    exact, found = (drift("sum", (t, [1]), t.sum(1)) for t in (x, nearly))
    assert torch.allclose(exact, found, rtol=1e-3)
    assert float(exact.abs()) > 10 * 4096


def test_the_farthest_of_nearby_terms_counts():
    x = torch.where(torch.arange(1000) % 2 == 0, 0.037, 1.0 + torch.arange(1000) % 7).double()[None]
    x = x * torch.linspace(0.9, 1.1, 100, dtype=torch.float64)[:, None]
    near = [added_up(x * f) - x.sum(1) * f for f in (1.0, 1 - 2.0**-19, 1 + 2.0**-19)]
    found = drift("sum", (x, [1]), x.sum(1)) * HALF
    assert torch.allclose(found.abs(), torch.stack(near).abs().amax(0), rtol=1e-6)
    assert bool((found.abs() > 2 * near[0].abs()).any())


def test_what_is_no_sum_or_is_empty_does_not():
    x = constant(2, 3)
    assert drift("mul", (x, x), x * x) is None
    assert drift("sum", (x[:, :0], [1]), x[:, :0].sum(1)) is None


def test_what_is_not_finite_is_left_alone():
    x = constant(2, 1000)
    x[0, 5] = float("inf")
    found = drift("sum", (x, [1]), x.sum(1))
    assert float(found[0]) == 0 and float(found[1]) != 0


def test_rows_that_are_alike_are_moved_alike():
    x = constant(64, 1000)
    with Rounding(2**-23, seed=0):
        moved = x.sum(1)
    off = (moved - x.sum(1)) / HALF
    expected = drift("sum", (x, [1]), x.sum(1)).abs()
    assert bool((off.abs() > 0.9 * expected).all())
    assert len(set(off.sign().tolist())) == 1


def test_a_variance_is_a_sum_too():
    x = torch.randn(5, 800, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    assert torch.allclose(spread("var", (x, [1]), x.var(1)), x.var(1) * 20)


def test_products_of_constants_are_sums_of_equal_terms():
    left, right = constant(3, 1200), constant(1200, 4)
    right[:, 1] = torch.rand(1200, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    found = spread("mm", (left, right), left @ right)
    assert torch.allclose(found[:, 0], (left @ right)[:, 0] * 100)
    assert bool((found[:, 1] < (left @ right)[:, 1] * 30).all())
    assert torch.allclose(spread("mv", (left, right[:, 2]), left @ right[:, 2]), found[:, 2])
    assert spread("mm", (left[:, :0], right[:0]), left[:, :0] @ right[:0]).shape == (3, 4)
