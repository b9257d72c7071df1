"""Matrix products of every shape that the kernel treats in its own way."""

import pytest
import torch
import torch.nn.functional as F
from tests.ops.templates import Function, check, corners, load, templates

_MM = [
    ((5, 8), (8, 40)),
    ((1, 33), (33, 70)),
    ((131, 17), (17, 3)),
    ((97, 600), (600, 65)),
    ((3, 700), (700, 2)),
]


def _transposed(shapes: list, left: bool, right: bool) -> list:
    return [((*a[::-1],) if left else a, (*b[::-1],) if right else b) for a, b in shapes]


def test_sizes_of_each_way() -> None:
    check("gemm", lambda a, b: a @ b, [[torch.randn(s) for s in case] for case in _MM])


@pytest.mark.long
@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (lambda a, b: a.T @ b, _transposed(_MM, True, False)),
        (lambda a, b: a @ b.T, _transposed(_MM, False, True)),
        (lambda a, b: a.T @ b.T, _transposed(_MM, True, True)),
        (lambda a, b: a @ b, [((1, 90, 70), (1, 70, 40)), ((1, 3, 7), (1, 7, 5))]),
        (lambda a, b: a @ b, [((2, 5, 8), (8, 4)), ((3, 7, 33), (33, 65))]),
        (
            lambda a, b: torch.einsum("bijl,lk->bijk", a, b),
            [((2, 5, 8, 3), (3, 4)), ((2, 3, 4, 33), (33, 65))],
        ),
        (
            lambda a, w, b: F.gelu(F.linear(a, w, b)),
            [((5, 8), (40, 8), (40,)), ((70, 300), (65, 300), (65,)), ((1, 64), (1000, 64), (1000,))],
        ),
        (
            lambda a, w, b: F.silu(F.linear(a, w, b)) * 2,
            [((2, 5, 8), (40, 8), (40,)), ((3, 7, 9), (5, 9), (5,))],
        ),
        (
            lambda a, w, r: F.linear(a, w) + r,
            [((2, 5, 8), (40, 8), (2, 5, 40)), ((3, 7, 9), (5, 9), (3, 7, 5))],
        ),
        (lambda a, b: torch.triu(a @ b), [((40, 40), (40, 40)), ((200, 200), (200, 200)), ((3, 3), (3, 3))]),
        (lambda a, b: torch.tril(a @ b, -1), [((40, 40), (40, 40)), ((130, 130), (130, 130))]),
    ],
)
def test_other_sizes(function: Function, shapes: list) -> None:
    check("gemm", function, [[torch.randn(s) for s in case] for case in shapes])


@pytest.mark.long
def test_every_corner_and_streaming() -> None:
    cases = [[torch.randn(1600, 33), torch.randn(33, 2080)], [torch.randn(50, 700), torch.randn(700, 50)]]
    check("gemm", lambda a, b: F.relu(a @ b), cases, chosen=corners)


def test_a_batch_is_left_to_others() -> None:
    """At a size of one it is a product like any other; the kernel declines what is more."""
    one, many = ([torch.randn(n, 5, 8), torch.randn(n, 8, 9)] for n in (1, 3))
    assert not templates("gemm", torch.matmul, many)
    kernel = load(templates("gemm", torch.matmul, one)[0])
    with pytest.raises((NotImplementedError, RuntimeError), match=r"^Unsupported: a batch"):
        kernel(torch.matmul, many)
