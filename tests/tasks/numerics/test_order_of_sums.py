"""What a product's sums may be off by: the same for every way to write the product, and measured on its own terms."""

import pytest
import torch
import torch.nn.functional as F

from kernelwright.tasks.numerics._rounding import Rounding
from kernelwright.tasks.numerics._summation_error import spread


def _drawn(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape)), dtype=torch.float64)


def _convolution(x, weight, stride, padding, dilation, transposed, groups):
    rank = x.dim() - 2
    many = [[v] * rank for v in (stride, padding, dilation)]
    args = (x, weight, None, *many, transposed, [0] * rank, groups)
    return spread("convolution", args, torch.convolution(*args))


def test_matrices_of_any_rank_are_measured_alike():
    x, w = _drawn(3, 32), _drawn(32, 5)
    expected = spread("mm", (x, w), x @ w)
    assert torch.allclose(expected, spread("bmm", (x[None], w[None]), (x @ w)[None])[0])
    assert torch.allclose(expected, spread("addmm", (_drawn(5), x, w), x @ w))
    one = spread("mv", (x, w[:, 0]), x @ w[:, 0])
    assert one.shape == (3,)
    assert one[0] >= 1.2 * x[0].norm() * w[:, 0].norm() * (1 - 1e-12)
    assert spread("dot", (x[0], w[:, 0]), x[0] @ w[:, 0]) > 0


def test_terms_of_one_sign_grow_to_the_result():
    x, w = torch.ones(2, 800, dtype=torch.float64), torch.ones(800, 3, dtype=torch.float64)
    w[::2], w[1::2] = 0.5, 1.5
    assert torch.equal(spread("mm", (x, w), x @ w), torch.full((2, 3), 800.0 * 20, dtype=torch.float64))


@pytest.mark.parametrize("special", [float("nan"), float("inf")])
def test_what_is_not_finite_hides_nothing_beside_it(special):
    x, w = _drawn(3, 32), _drawn(32, 5)
    expected = spread("mm", (x, w), x @ w)
    marked = w.clone()
    marked[7, 2] = special
    found = spread("mm", (x, marked), x @ marked)[:, [0, 1, 3, 4]]
    assert bool((found / expected[:, [0, 1, 3, 4]] - 1).abs().max() < 0.5)


@pytest.mark.parametrize(("stride", "padding", "dilation"), [(1, 0, 1), (2, 1, 1), (1, 2, 2)])
def test_a_convolution_is_the_product_of_its_windows(stride, padding, dilation):
    x, weight = _drawn(2, 4, 9, 9), _drawn(6, 4, 3, 3)
    columns = F.unfold(x, 3, dilation, padding, stride)
    expected = 1.2 * weight.flatten(1).norm(dim=1)[:, None] * columns.norm(dim=1)[:, None]
    found = _convolution(x, weight, stride, padding, dilation, False, 1).flatten(2)
    assert bool((found >= expected * (1 - 1e-12)).all())
    assert bool((found <= expected * (1 + 1e-12)).any())


@pytest.mark.parametrize("transposed", [False, True])
def test_groups_are_convolutions_side_by_side(transposed):
    x, weight = _drawn(2, 6, 7), _drawn(6, 4, 3) if transposed else _drawn(8, 3, 3)
    both = _convolution(x, weight, 2, 1, 1, transposed, 2)
    halves = [
        _convolution(a, b, 2, 1, 1, transposed, 1)
        for a, b in zip(x.chunk(2, 1), weight.chunk(2), strict=True)
    ]
    assert torch.allclose(both, torch.cat(halves, 1))


def test_a_transposed_convolution_spreads_what_it_reads():
    x, weight = torch.zeros(1, 2, 5, dtype=torch.float64), _drawn(2, 3, 3)
    x[0, 1, 2] = 2.0
    found = _convolution(x, weight, 1, 0, 1, True, 1)[0]
    assert bool((found[:, 2:5] >= 2.4 * weight.norm(dim=(0, 2))[:, None] * (1 - 1e-12)).all())
    assert bool((found[:, :2] < found[:, 2:3]).all())


def test_a_sum_is_a_product_with_ones():
    x = _drawn(3, 500)
    ones = torch.ones(500, dtype=torch.float64)
    expected = 1.2 * x.norm(dim=1) * ones.norm()
    assert bool((spread("sum", (x, [1]), x.sum(1)) >= expected * (1 - 1e-12)).all())
    assert torch.allclose(spread("mean", (x, [1]), x.mean(1)), spread("sum", (x, [1]), x.sum(1)) / 500)
    assert torch.allclose(spread("cumsum", (x, 1), x.cumsum(1))[:, -1], spread("sum", (x, [1]), x.sum(1)))


def test_no_other_operator_is_a_product():
    x = _drawn(3, 3)
    assert spread("mul", (x, x), x * x) is None


def test_an_infinity_stays_one_where_sums_are_moved():
    x, w = _drawn(3, 32), _drawn(32, 5).abs()
    x[1, 4] = float("inf")
    with Rounding(2**-23, seed=0):
        product = x @ w
    exact = x @ w
    assert torch.equal(product.isinf(), exact.isinf())
    assert not bool(product.isnan().any())
    assert not bool((product[0] == exact[0]).any())


def test_an_extreme_stays_equal_to_what_it_was_chosen_from():
    x, target = _drawn(200), torch.arange(200) % 7
    with Rounding(2**-23, seed=0):
        top = torch.full((7,), -9.0, dtype=torch.float64).scatter_reduce(0, target, x, "amax")
        total = torch.zeros(7, dtype=torch.float64).scatter_reduce(0, target, x, "sum")
        middle, last = x.median(), x.cummax(0).values
    assert torch.equal(top, torch.full_like(top, -9.0).scatter_reduce(0, target, x, "amax"))
    assert bool((middle == x).any()) and torch.equal(last, x.cummax(0).values)
    assert not bool((total == torch.zeros_like(total).scatter_reduce(0, target, x, "sum")).any())


def test_the_gradient_of_an_extreme_is_finite():
    x, target = _drawn(50).requires_grad_(), torch.arange(50) % 7
    with Rounding(2**-23, seed=0):
        torch.full((7,), -9.0, dtype=torch.float64).scatter_reduce(0, target, x * 3, "amax").sum().backward()
    assert torch.allclose(x.grad.sum(), torch.tensor(21.0, dtype=torch.float64))
