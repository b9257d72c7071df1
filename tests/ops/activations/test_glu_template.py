"""Gated linear units over either half and any axis."""

import re

import pytest
import torch
import torch.nn.functional as F
from tests.ops.templates import Function, check, corners, templates


def _gated(gate: Function, axis: int = -1, first: bool = True) -> Function:
    def function(x: torch.Tensor) -> torch.Tensor:
        a, b = x.chunk(2, axis)
        return gate(a) * b if first else a * gate(b)  # type: ignore[operator]

    return function


@pytest.mark.long
@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (F.glu, [(3, 64), (1, 2), (5, 2062), (2, 3, 34)]),
        (lambda x: F.glu(x, 1), [(3, 64, 5), (1, 2, 1), (2, 6, 1031)]),
        (_gated(F.silu), [(3, 64), (7, 30), (2, 3, 2 * 1500)]),
        (_gated(F.gelu, first=False), [(3, 64), (7, 30)]),
        (_gated(F.relu, axis=0), [(4, 64), (2, 31)]),
        (
            lambda x: F.gelu(x[..., x.shape[-1] // 2 :], approximate="tanh") * x[..., : x.shape[-1] // 2],
            [(3, 64), (2, 18)],
        ),
        (
            lambda x, y: F.silu(x.chunk(2, -1)[0]) * x.chunk(2, -1)[1] + y,
            [((3, 64), (3, 32)), ((2, 18), (2, 9))],
        ),
    ],
)
def test_other_sizes(function: Function, shapes: list) -> None:
    cases = [
        [torch.randn(s) for s in (shape if isinstance(shape[0], tuple) else (shape,))] for shape in shapes
    ]
    cases = [case for case in cases if len(case[0].shape) == len(cases[0][0].shape)]
    check("activations", function, cases)


def test_every_corner_and_streaming() -> None:
    special = torch.randn(7, 66)
    special[1, 3], special[2, 40], special[3, 5] = float("nan"), float("inf"), float("-inf")
    check("activations", _gated(F.silu), [[special], [torch.randn(1203, 2 * 2801)]], chosen=corners)


def test_unequal_parts_do_not_match() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        a, b = x.split([10, 20], -1)
        return a * b[..., :10]

    assert not templates("activations", function, [torch.randn(3, 30)])


def test_what_is_read_of_every_input_is_asked_for_ahead() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        a, _, c = x.chunk(3, -1)
        return F.silu(a) * c + y

    template = templates("activations", function, [torch.randn(3, 30), torch.randn(3, 10)])[0]
    text = template.render(template.default()).sources[0].text
    places = dict.fromkeys(re.findall(r"kw::load\((.*?), lanes\)", text))
    asked = [f"kw::read_ahead(x.{place}, outer * run);" for place in places]
    assert f"#define ASKED {' '.join(asked)}\n" in text
    assert len(asked) == 3
