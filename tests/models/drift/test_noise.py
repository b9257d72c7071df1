"""What honest evaluations are off by, and the limits taken from it."""

import math

import pytest
import torch
from tests.models.drift.conftest import SMALL
from tests.models.drift.tiny import Tiny
from torch import nn

from kernelwright.models.drift._limits import DRIFTED, Limits, Statistics, errors_of, limits_of, statistics_of
from kernelwright.models.drift._noise import Reordered, dtype_of, exact_of, ways_of


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_steps_are_rounded_to_a_neighbour_without_bias(dtype):
    x = torch.full((20_000,), 1.0, dtype=dtype)
    with Reordered(seed=0):
        y = x / 3
    neighbours = y.unique()
    assert len(neighbours) == 2
    assert float(neighbours[1] - neighbours[0]) == pytest.approx(torch.finfo(dtype).eps / 4)
    assert float(y.double().mean()) == pytest.approx(1 / 3, abs=torch.finfo(dtype).eps / 200)


def test_sums_are_in_another_order_each_time():
    random = torch.Generator().manual_seed(0)
    x, w = torch.randn(6, 300, generator=random), torch.randn(300, 6, generator=random)
    found = []
    for seed in range(3):
        with Reordered(seed):
            found.append(x @ w)
    exact = x.double() @ w.double()
    assert not torch.equal(found[0], found[1])
    assert all((y - exact).abs().max() < 1e-4 for y in found)
    with Reordered(0):
        total = x.sum(1)
    torch.testing.assert_close(total.double(), x.double().sum(1), rtol=0, atol=1e-4)


def test_what_rounds_nothing_stays_to_the_bit():
    x = torch.randn(5, 7, generator=torch.Generator().manual_seed(0))
    with Reordered(0):
        same = torch.cat((x.T.contiguous().T, x.neg().neg(), torch.where(x > 0, x, x)))
    assert torch.equal(same, torch.cat((x, x, x)))
    infinite = torch.tensor([math.inf, -math.inf, math.nan])
    with Reordered(0):
        moved = infinite * 2
    torch.testing.assert_close(moved, infinite, equal_nan=True)


def test_the_exact_model_is_exact_through_casts():
    model = Tiny(SMALL).bfloat16()
    exact = exact_of(model)(lambda wide: wide(torch.arange(4)[None])[0])
    assert exact.dtype is torch.float64
    kept = model.layers[0].before.weight.double()
    other = Tiny(SMALL)
    other.load_state_dict({k: v.float() for k, v in model.state_dict().items()})
    assert torch.equal(kept, other.layers[0].before.weight.double())
    single = other(torch.arange(4)[None])[0].double()
    assert 0 < (single - exact).abs().max() < 1e-4


def test_ways_and_dtypes():
    assert len(ways_of(torch.float32, 3, 0)) > len(ways_of(torch.bfloat16, 3, 0)) == 3
    mixed = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2).half())
    assert dtype_of(mixed) is torch.float16


def test_a_further_honest_evaluation_passes_the_limit_as_seldom_as_it_says():
    """Planted: statistics whose logarithms are normal, the limit's allowance for double rounding taken away."""
    random = torch.Generator().manual_seed(0)
    passed, chance = 0, 0.1
    for _ in range(2_000):
        drawn = (0.3 * torch.randn(13, generator=random) + 0.5).exp().tolist()
        honest = tuple(Statistics(v, 1.0 + 0.01 * v) for v in drawn[:-1])
        limits = Limits(torch.ones(1), honest, comparisons=1, least=torch.zeros(1))
        passed += drawn[-1] > limits.limit("largest", chance) / math.sqrt(2)
    assert 0.08 < passed / 2_000 < 0.12


def test_more_comparisons_and_smaller_chances_have_wider_limits():
    honest = tuple(Statistics(1 + 0.1 * n, 1.0 + 0.01 * n) for n in range(8))
    few, many = (Limits(torch.ones(1), honest, comparisons=n, least=torch.zeros(1)) for n in (1, 8))
    assert few.limit("largest", 0.05) < many.limit("largest", 0.05) < many.limit("largest", DRIFTED)


def test_an_error_at_one_position_is_seen_among_many():
    random = torch.Generator().manual_seed(0)
    exact = [torch.randn(200, 16, generator=random).double()]
    honest = [[exact[0] + 1e-6 * torch.randn(200, 16, generator=random)] for _ in range(12)]
    limits = limits_of(torch.stack([errors_of(y, exact) for y in honest[:-1]]), exact, 1e-7, comparisons=2)
    fair = statistics_of(errors_of(honest[-1], exact), limits.noise)
    assert limits.excess(fair, DRIFTED) < 1
    honest[-1][0][77] += 5e-6
    wrong = statistics_of(errors_of(honest[-1], exact), limits.noise)
    assert limits.excess(wrong, DRIFTED) > 1
    assert wrong.overall < 1.5
    honest[-1][0][3] = torch.nan
    assert math.isinf(statistics_of(errors_of(honest[-1], exact), limits.noise).largest)
