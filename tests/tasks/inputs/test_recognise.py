"""Distributions are recognised from calls, on the meta device as well."""

from collections.abc import Callable

import pytest
import torch

from kernelwright.records import Distribution
from kernelwright.tasks.inputs._recognise import Recogniser

KNOWN: list[tuple[Callable[[], torch.Tensor], Distribution]] = [
    (lambda: torch.rand(4, 5), Distribution(kind="uniform")),
    (lambda: torch.rand(4, 5) * 2 - 1, Distribution(kind="uniform", low=-1, high=1)),
    (lambda: 1 - torch.rand(4, 5), Distribution(kind="uniform", low=0, high=1)),
    (lambda: torch.rand(4, 5).T, Distribution(kind="uniform")),
    (lambda: torch.randn(4, 5) / 4, Distribution(kind="normal", scale=0.25)),
    (lambda: torch.randn(4, 5).half(), Distribution(kind="normal")),
    (lambda: torch.randn(20).view(4, 5), Distribution(kind="normal")),
    (lambda: torch.randint(0, 10, (4,)), Distribution(kind="integers", low=0, high=10)),
    (lambda: torch.randint(high=10, size=(4,)), Distribution(kind="integers", low=0, high=10)),
    (lambda: torch.randint(3, 9, (4,)).float(), Distribution(kind="integers", low=3, high=9)),
    (lambda: torch.randint(0, 2, (4,)).bool(), Distribution(kind="bernoulli", scale=0.5)),
    (lambda: torch.rand(4, 5) > 0.75, Distribution(kind="bernoulli", scale=0.25)),
    (lambda: torch.randn(4, 5).softmax(dim=-1), Distribution(kind="probabilities")),
    (lambda: torch.softmax(torch.rand(4, 5), 1), Distribution(kind="probabilities")),
    (lambda: torch.zeros(4), Distribution(kind="constant", low=0)),
    (lambda: torch.ones_like(torch.rand(4)), Distribution(kind="constant", low=1)),
    (lambda: torch.full((4,), 2.5), Distribution(kind="constant", low=2.5)),
    (lambda: torch.rand(4, 5).sort()[0], Distribution(kind="sorted")),
    (lambda: torch.randperm(4), Distribution(kind="permutation")),
    (lambda: torch.tril(torch.randn(4, 4)), Distribution(kind="triangular")),
]
UNKNOWN: list[Callable[[], torch.Tensor]] = [
    lambda: torch.rand(4, 5).softmax(dim=0),
    lambda: torch.rand(4, 5) * torch.rand(5),
    lambda: torch.randn(4, 5) + 3,
    lambda: torch.randn(4, 5).abs(),
    lambda: torch.tril(torch.rand(4, 4)),
    lambda: torch.cat([torch.rand(2), torch.ones(2)]),
    lambda: torch.randn(4, 4).tril().T,
    lambda: torch.rand(4, 5).softmax(-1).T.reshape(2, 10),
    lambda: torch.tensor([1.0, 2.0]),
]


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize(("make", "expected"), KNOWN)
def test_known(make: Callable[[], torch.Tensor], expected: Distribution, device: str) -> None:
    with torch.device(device), Recogniser() as recogniser:
        tensor = make()
    assert recogniser.distribution(tensor) == expected


@pytest.mark.parametrize("make", UNKNOWN)
def test_anything_else_is_given(make: Callable[[], torch.Tensor]) -> None:
    with Recogniser() as recogniser:
        tensor = make()
    assert recogniser.distribution(tensor) == Distribution(kind="given")


def test_a_tensor_changed_in_place_is_given() -> None:
    with Recogniser() as recogniser:
        masked, filled = torch.randn(4, 5), torch.rand(4, 5)
        masked[0] = 7.0
        filled.exp_()
    assert recogniser.distribution(masked).kind == "given"
    assert recogniser.distribution(filled).kind == "given"
