"""Pooling: windows, pads, dilation, ceil mode and adaptive sizes, on sizes the kernel was not matched on."""

import pytest
import torch
import torch.nn.functional as F
from tests.ops.templates import Function, check, corners

_ONE = [(2, 3, 64), (1, 1, 17), (3, 2, 9), (2, 5, 1031)]
_TWO = [(2, 3, 33, 40), (1, 2, 17, 9), (3, 1, 12, 131), (2, 2, 70, 70)]
_THREE = [(2, 3, 9, 10, 11), (1, 1, 8, 9, 40), (2, 2, 13, 7, 9)]


def _special(x: torch.Tensor) -> torch.Tensor:
    x = x.clone()
    flat = x.view(-1)
    flat[::7] = float("nan")
    flat[3::11] = float("-inf")
    flat[5::13] = float("inf")
    return x


@pytest.mark.long
@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (lambda x: F.max_pool1d(x, 3, 1, 1, 2), _ONE),
        (lambda x: F.max_pool1d(x, 4, 2), _ONE),
        (lambda x: F.max_pool1d(x, 4, 3, ceil_mode=True), _ONE),
        (lambda x: F.avg_pool1d(x, 4, 2, 1, ceil_mode=True), _ONE),
        (lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True), _TWO),
        (lambda x: F.max_pool2d(x, (2, 5), (3, 1), (1, 2)), _TWO),
        (lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), _TWO),
        (lambda x: F.avg_pool2d(x, 3, 3, 1, ceil_mode=True), _TWO),
        (lambda x: F.avg_pool2d(x, 2, divisor_override=3), _TWO),
        (lambda x: F.max_pool3d(x, 3, 2, 1), _THREE),
        (lambda x: F.avg_pool3d(x, 3, 2, 1, ceil_mode=True), _THREE),
        (lambda x: F.adaptive_avg_pool2d(x, (3, 5)), _TWO),
        (lambda x: F.adaptive_max_pool2d(x, (2, 7)), _TWO),
        (lambda x: F.adaptive_avg_pool1d(x, 4), _ONE),
        (lambda x: F.adaptive_avg_pool3d(x, (2, 3, 4)), _THREE),
    ],
)
def test_other_sizes(function: Function, shapes: list[tuple[int, ...]]) -> None:
    check("pool", function, [[torch.randn(shape)] for shape in shapes])


@pytest.mark.long
def test_large_output_is_streamed() -> None:
    check(
        "pool",
        lambda x: F.max_pool2d(x, 3, 1, 1),
        [[torch.randn(3, 5, 301, 1101)], [torch.randn(2, 2, 5, 7)]],
        chosen=corners,
    )


@pytest.mark.parametrize("maximum", [True, False])
def test_special_values(maximum: bool) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return F.max_pool2d(x, 2, 1, 1) if maximum else F.avg_pool2d(x, 2, 1, 1)

    check("pool", function, [[_special(torch.randn(2, 3, 19, 37))]])
