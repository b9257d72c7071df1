"""Permuted copies: transposes, channels last, heads, all element sizes."""

import pytest
import torch
from tests.ops.templates import Function, check, corners, load, templates


@pytest.mark.long
@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (lambda x: x.t().contiguous(), [(3, 40), (1, 1), (65, 33), (17, 128)]),
        (lambda x: x.permute(0, 2, 3, 1).contiguous(), [(2, 3, 8, 9), (1, 64, 20, 20), (3, 1, 1, 7)]),
        (lambda x: x.transpose(1, 2).contiguous(), [(2, 3, 8, 9), (1, 64, 20, 33), (3, 1, 1, 7)]),
        (lambda x: x.permute(3, 1, 0, 2).contiguous(), [(2, 3, 8, 9), (5, 17, 20, 33), (3, 1, 1, 7)]),
        (lambda x: x.view(*x.shape[:2], 4, -1).transpose(1, 2).contiguous(), [(2, 3, 20), (1, 9, 20)]),
        (lambda x: x.permute(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1), [(2, 3, 8, 9), (5, 4, 3, 9)]),
    ],
)
def test_other_sizes(function: Function, shapes: list[tuple[int, ...]]) -> None:
    check("permute", function, [[torch.randn(shape)] for shape in shapes])


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.bool])
def test_element_sizes(dtype: torch.dtype) -> None:
    cases = [
        [torch.randn(shape).mul(3).to(dtype).to(torch.float32).to(dtype)] for shape in ((5, 37), (70, 33))
    ]
    for (x,) in cases:
        (template,) = templates("permute", lambda x: x.t().contiguous(), cases[0])
        (result,) = load(template)(lambda x: x.t().contiguous(), [x])
        assert torch.equal(result, x.t())


@pytest.mark.long
def test_every_corner_and_streaming() -> None:
    special = torch.randn(1700, 2100)
    special[5, 7], special[100, 3] = float("nan"), float("-inf")
    check(
        "permute",
        lambda x: x.t().contiguous(),
        [[special], [torch.randn(1_100_000, 3)], [torch.randn(3, 5)]],
        chosen=corners,
    )
    check("permute", lambda x: x.permute(0, 2, 3, 1).contiguous(), [[torch.randn(2, 25, 301, 300)]])
