"""Triton kernels in the interpreter against float64, and their cross-compilation."""

import pytest
import torch
import torch.nn.functional as F
from tests.ops.templates import Function, hold, load, templates

from kernelwright.languages import get_language
from kernelwright.records import BuildStatus

pytestmark = pytest.mark.needs("triton")
Tensor = torch.Tensor


def _rms(x: Tensor, residual: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    h = x + residual
    return h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6) * weight, h


def _rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


def _neighbours(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)


def _silu_gate(x: Tensor) -> Tensor:
    a, b = x.chunk(2, -1)
    return F.silu(a) * b


def _classes(rows: int, n: int) -> Tensor:
    return torch.arange(rows) * 7 % n


_CASES: dict[str, tuple[Function, list]] = {
    "softmax": (lambda x: F.softmax(x, -1), [((5, 40),), ((3, 129),), ((1, 1),)]),
    "log-softmax": (lambda x: F.log_softmax(x * 0.5, -1), [((5, 40),), ((2, 3),)]),
    "layer-norm": (
        lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b),
        [((5, 40), (40,), (40,)), ((3, 17), (17,), (17,))],
    ),
    "rms-norm": (_rms, [((5, 40), (5, 40), (40,)), ((2, 33), (2, 33), (33,))]),
    "glu": (lambda x: F.glu(x, 1), [((3, 10, 5),), ((2, 6, 1),)]),
    "swiglu": (_silu_gate, [((3, 40),), ((5, 2),)]),
    "rope": (_rotated, [((2, 3, 5, 16), (5, 16), (5, 16)), ((1, 2, 3, 10), (3, 10), (3, 10))]),
    "rope-neighbours": (_neighbours, [((2, 3, 5, 16), (5, 8), (5, 8)), ((1, 2, 3, 10), (3, 5), (3, 5))]),
    "linear": (lambda a, w, b: F.gelu(F.linear(a, w, b)), [((5, 8), (40, 8), (40,)), ((33, 70), (17, 70), (17,))]),
    "matmul": (lambda a, b: a @ b, [((3, 5, 8), (3, 8, 9)), ((2, 33, 34), (2, 34, 3))]),
    "transposed": (lambda a, b: F.relu(a.T @ b), [((9, 5), (9, 4)), ((40, 33), (40, 35))]),
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("name", _CASES)
def test_other_sizes(name: str) -> None:
    function, shapes = _CASES[name]
    cases = [[torch.randn(s) for s in case] for case in shapes]
    (template,) = templates("", function, cases[0], "triton")
    kernel = load(template)
    for case in cases:
        hold(kernel, function, case)


@pytest.mark.parametrize("reduction", ["mean", pytest.param("sum", marks=pytest.mark.long)])
def test_cross_entropy(reduction: str) -> None:
    def function(x: Tensor, t: Tensor) -> Tensor:
        return F.cross_entropy(x, t, reduction=reduction)

    cases = [[torch.randn(5, 40), _classes(5, 40)], [torch.randn(3, 2500), _classes(3, 2500)]]
    cases[1][1][1] = -100
    (template,) = templates("", function, cases[0], "triton")
    kernel = load(template)
    for case in cases:
        hold(kernel, function, case)


def test_softmax_of_half_precision() -> None:
    x = torch.randn(5, 70, dtype=torch.float16)
    (template,) = templates("", lambda x: F.softmax(x, -1), [x], "triton")
    hold(load(template), lambda x: F.softmax(x, -1), [x])


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        pytest.param(lambda x: F.softmax(x, -1), [(512, 4096)], marks=pytest.mark.long),
        (_rms, [(512, 4096), (512, 4096), (4096,)]),
        *(
            pytest.param(*case, marks=pytest.mark.long)
            for case in (
                (_silu_gate, [(512, 8192)]),
                (_rotated, [(2, 8, 128, 128), (128, 128), (128, 128)]),
                (lambda a, w, b: F.gelu(F.linear(a, w, b)), [(512, 512), (512, 512), (512,)]),
            )
        ),
    ],
)
def test_defaults_compile_without_spills(function: Function, shapes: list[tuple[int, ...]]) -> None:
    (template,) = templates("", function, [torch.empty(s) for s in shapes], "triton")
    build = get_language("triton").build(template.render(template.default()))
    assert build.status is BuildStatus.OK, build.diagnostics
    assert build.evidence["sm_90.spill_bytes"] == 0
    assert int(str(build.evidence["sm_90.registers"])) > 0
