"""Choices are made on values that are off, and what is chosen keeps its exact value."""

import pytest
import torch
import torch.nn.functional as F

from kernelwright.tasks.numerics._choices import CHOICES, Recorded, Turned

X = torch.tensor([[3.0, 3.0 + 1e-9, 1.0, 2.0], [5.0, 1.0, 5.0 - 1e-9, 0.0]], dtype=torch.float64)
NEAR = torch.tensor([[2e-9, 0.0, 0.0, 0.0], [0.0, 0.0, 2e-9, 0.0]], dtype=torch.float64)
"""What makes the second largest of each row the largest."""
WINNERS, RUNNERS_UP = [1, 0], [0, 2]


def turned(call, *given, off=NEAR, times=1.0):
    with Turned([tuple(g + off for g in given if isinstance(g, torch.Tensor))], times):
        return call(*given)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.max(1), lambda x: x.max(dim=-1), lambda x: tuple(t[:, 0] for t in x.topk(2, 1)),
        lambda x: tuple(t[:, 0] for t in x.sort(descending=True)), lambda x: x.kthvalue(4, 1),
        lambda x: tuple(t[:, -1] for t in x.cummax(1)), lambda x: tuple(t[:, 0] for t in torch.sort(x, 1, True)),
    ],
)  # fmt: skip
def test_an_extreme_with_its_index_is_another_one_of_exact_value(call):
    rows = torch.arange(2)
    for (values, indices), expected in ((call(X), WINNERS), (turned(call, X), RUNNERS_UP)):
        assert indices.tolist() == expected
        assert torch.equal(values, X[rows, expected])


@pytest.mark.parametrize(
    ("pool", "window", "shape"),
    [
        (F.max_pool2d, (1, 4), (2, 1, 1, 4)), (F.adaptive_max_pool2d, 1, (2, 1, 4, 1)),
        (F.max_pool3d, (1, 1, 4), (2, 1, 1, 1, 4)), (F.adaptive_max_pool3d, 1, (2, 1, 1, 2, 2)),
    ],
)  # fmt: skip
def test_so_is_that_of_a_window(pool, window, shape):
    values, indices = turned(
        lambda x: pool(x, window, return_indices=True), X.view(shape), off=NEAR.view(shape)
    )
    assert indices.flatten().tolist() == RUNNERS_UP
    assert torch.equal(values.flatten(), X[torch.arange(2), RUNNERS_UP])


def test_an_extreme_alone_is_too():
    expected = X[torch.arange(2), RUNNERS_UP]
    assert torch.equal(turned(lambda x: x.amax(1), X), expected)
    assert torch.equal(turned(lambda x: x.amax(-1, keepdim=True), X), expected[:, None])
    assert torch.equal(turned(lambda x: x.amin(1), -X, off=-NEAR), -expected)


@pytest.mark.parametrize("whole", [torch.max, torch.amax])
def test_an_extreme_of_everything_is_too(whole):
    off = torch.zeros_like(X)
    off[0, 3] = 9.0
    assert turned(whole, X, off=off) == 2.0


def test_the_larger_of_two_is_the_other_one_where_they_are_near():
    a, b = X[:, 0], X[:, 0] + torch.tensor([1e-9, 1.0], dtype=torch.float64)
    with Turned([(a + 2e-9, b)], 1.0):
        assert torch.equal(torch.maximum(a, b), torch.stack([a[0], b[1]]))
    with Turned([(a + 2e-9, b)], 1.0):
        assert torch.equal(torch.minimum(a, b), torch.stack([b[0], a[1]]))


def test_a_comparison_and_a_whole_number_turn_where_they_are_near():
    x = torch.tensor([1 - 1e-9, 0.5, 1 + 1e-9], dtype=torch.float64)
    off = torch.tensor([2e-9, 2e-9, -2e-9], dtype=torch.float64)
    assert turned(lambda x: x >= 1, x, off=off).tolist() == [True, False, False]
    assert turned(torch.floor, x, off=off).tolist() == [1.0, 0.0, 0.0]
    assert turned(lambda x: x == x, x, off=off).all()


def test_how_far_off_they_are_counts_times_over():
    assert turned(lambda x: x.argmax(1), X, off=NEAR / 3).tolist() == WINNERS
    assert turned(lambda x: x.argmax(1), X, off=NEAR / 3, times=4.0).tolist() == RUNNERS_UP


def test_nothing_else_is_moved_and_what_is_not_finite_stays():
    x = X.clone()
    x[0, 2], x[1, 3] = -torch.inf, torch.nan
    with Turned([(x + 1,), (x + 1,)], 4.0):
        assert torch.equal(x.exp().nan_to_num(), x.exp().nan_to_num())
        assert (x > -torch.inf).tolist() == [[True, True, False, True], [True, True, True, False]]


def test_a_choice_between_exact_values_stays():
    x = X.clone().requires_grad_()

    def gradient(mode):
        with mode:
            return torch.autograd.grad(F.max_pool2d(x[:, None, None], (1, 4)).sum(), x)[0]

    recorded = Recorded(2.0**-23, seed=0)
    exact = gradient(recorded)
    assert not CHOICES.isdisjoint(recorded.ran)
    assert torch.equal(gradient(Turned(recorded.values, 4.0)) != 0, exact != 0)


def test_the_gradient_of_a_near_tie_goes_to_either():
    x = torch.tensor([[1.0, 1.0 + 2**-25, 1.0, 0.5]], dtype=torch.float64).requires_grad_()
    found = set()
    for seed in range(20):
        recorded = Recorded(2.0**-23, seed)
        for mode in (recorded, Turned(recorded.values, 4.0)):
            with mode:
                gradient = torch.autograd.grad(F.max_pool2d(x.exp()[:, None, None], (1, 4)).sum(), x)[0]
        found.add(int(gradient.argmax()))
        assert int((gradient != 0).sum()) == 1
    assert found == {0, 1, 2}
