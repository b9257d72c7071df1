"""Rotary position embedding in the forms that models write it."""

import pytest
import torch
from tests.ops.templates import Function, check, corners, load, templates

Tensor = torch.Tensor


def _rotate_half(x: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)


def _llama(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    return q * cos + _rotate_half(q) * sin, k * cos + _rotate_half(k) * sin


def _halves(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def _neighbours(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)


def _gptj(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    rotated = torch.stack((-x[..., 1::2], x[..., ::2]), -1).reshape(x.shape)
    return x * cos + rotated * sin


def _heads(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    x = x.transpose(1, 2)
    return x * cos[None, None] + _rotate_half(x) * sin[None, None]


@pytest.mark.long
@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (
            _llama,
            [
                ((2, 3, 5, 64), (2, 1, 5, 64), (2, 5, 64), (2, 5, 64)),
                ((1, 4, 7, 34), (1, 2, 7, 34), (1, 7, 34), (1, 7, 34)),
            ],
        ),
        (
            _halves,
            [
                ((2, 3, 5, 64), (5, 32), (5, 32)),
                ((1, 2, 9, 6), (9, 3), (9, 3)),
                ((2, 1, 1, 80), (1, 40), (1, 40)),
            ],
        ),
        (
            _neighbours,
            [
                ((2, 3, 5, 64), (5, 32), (5, 32)),
                ((1, 2, 9, 6), (9, 3), (9, 3)),
                ((2, 1, 3, 82), (3, 41), (3, 41)),
            ],
        ),
        (_gptj, [((2, 3, 5, 64), (5, 64), (5, 64)), ((1, 2, 9, 38), (9, 38), (9, 38))]),
        (_heads, [((2, 5, 3, 64), (5, 64), (5, 64)), ((3, 9, 2, 10), (9, 10), (9, 10))]),
    ],
)
def test_other_sizes(function: Function, shapes: list[tuple[tuple[int, ...], ...]]) -> None:
    check("rope", function, [[torch.randn(s) for s in case] for case in shapes])


@pytest.mark.long
def test_every_corner_and_streaming() -> None:
    cases = [[torch.randn(8, 16, 301, 128), torch.randn(301, 64), torch.randn(301, 64)]]
    cases.append([torch.randn(2, 1, 3, 20), torch.randn(3, 10), torch.randn(3, 10)])
    check("rope", _halves, cases, chosen=corners)


@pytest.mark.parametrize("language", ["cpp", pytest.param("triton", marks=pytest.mark.long)])
def test_rows_of_odd_length_are_left_to_the_native_op(language: str) -> None:
    """There the one odd element is broadcast against two even ones, and the result has four."""
    rows, table = torch.randn(2, 4, 8), torch.randn(4, 4)
    (template, *_) = templates("rope", _neighbours, [rows, table, table], language)
    kernel = load(template)
    with pytest.raises((NotImplementedError, RuntimeError), match=r"^Unsupported"):
        kernel(_neighbours, [torch.randn(2, 4, 3), torch.randn(4, 1), torch.randn(4, 1)])


def test_plain_concatenation_of_other_sizes_does_not_match() -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        return torch.cat((x, y), -1)

    assert not templates("rope", function, [torch.randn(2, 3), torch.randn(2, 5)])
