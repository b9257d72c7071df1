"""OpenCL kernels on the installed device against float64."""

import pytest
import torch
import torch.nn.functional as F
from tests.ops.templates import Function, check

pytestmark = pytest.mark.needs("OpenCL")
Tensor = torch.Tensor


def _rms(x: Tensor, weight: Tensor) -> Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weight


@pytest.mark.long
@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (lambda x, y, b: F.gelu(x + b) * y, [((3, 40), (3, 40), (40,)), ((2, 1031), (2, 1031), (1031,))]),
        (lambda x: F.softmax(x, -1), [((5, 40),), ((3, 1031),), ((1, 1),), ((2, 3, 7),)]),
        (lambda x: F.log_softmax(x, -1), [((5, 40),), ((3, 129),)]),
        (_rms, [((5, 40), (40,)), ((3, 1031), (1031,))]),
    ],
)
def test_other_sizes(function: Function, shapes: list) -> None:
    cases = [[torch.randn(s) for s in case] for case in shapes]
    check("rows", function, [c for c in cases if c[0].dim() == cases[0][0].dim()], language="opencl")
