"""Scans along every axis, forwards, backwards, exclusive and over pointwise values."""

import pytest
import torch
from tests.ops.templates import Function, check, corners


def _exclusive(x: torch.Tensor) -> torch.Tensor:
    zeros = torch.zeros_like(x.select(1, 0).unsqueeze(1))
    return torch.cumsum(torch.cat((zeros, x), dim=1)[:-1], dim=1)


def _shapes(*shapes: tuple[int, ...]) -> list[list[torch.Tensor]]:
    return [[torch.randn(shape)] for shape in shapes]


@pytest.mark.long
@pytest.mark.parametrize(
    ("function", "cases"),
    [
        (lambda x: torch.cumsum(x, 1), _shapes((3, 64), (1, 1), (5, 1037), (2, 70001), (1, 140003))),
        (lambda x: torch.cumsum(x, 0), _shapes((30, 64), (1, 1), (5, 1037), (700, 3), (97, 211))),
        (lambda x: torch.cumsum(x, 1), _shapes((3, 64, 5), (2, 17, 1), (1, 9, 4099))),
        (lambda x: torch.cumsum(x.flip(-1), -1).flip(-1), _shapes((3, 64), (2, 1037), (1, 140003))),
        (lambda x: torch.cumsum(x.flip(0), 0).flip(0), _shapes((3, 64), (41, 37))),
        (lambda x: torch.cumprod(x * 0.1 + 1, -1), _shapes((3, 64), (2, 2048), (4, 1))),
        (_exclusive, _shapes((4, 64), (2, 1023), (5, 3000))),
    ],
)
def test_other_sizes(function: Function, cases: list[list[torch.Tensor]]) -> None:
    check("scan", function, cases)


def test_masked() -> None:
    cases = [[torch.randn(shape), torch.rand(shape) > 0.5] for shape in ((3, 65), (2, 3001))]
    check("scan", lambda x, mask: torch.cumsum(x * mask, 1), cases)


@pytest.mark.long
@pytest.mark.parametrize("axis", [0, 1])
def test_every_corner_and_streaming(axis: int) -> None:
    check(
        "scan",
        lambda x: torch.cumsum(x, axis),
        [[torch.randn(1201, 2803)], [torch.randn(3, 7)]],
        chosen=corners,
    )


@pytest.mark.parametrize("axis", [0, 1])
def test_special_values(axis: int) -> None:
    x = torch.randn(21, 40)
    x[3, 5], x[4, 17], x[4, 30], x[9, 1] = float("inf"), float("inf"), float("-inf"), float("nan")
    x[11] *= 1e38
    check("scan", lambda x: torch.cumsum(x, axis), [[x]])
