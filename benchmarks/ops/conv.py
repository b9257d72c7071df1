"""Convolutions with what follows them, against torch's own (oneDNN) and torch.compile.

    python -m benchmarks.ops.conv [--only depthwise] [--threads 1] [--rounds 15] [--without compile] [--out rows.jsonl]

Sizes are items x channels x height x width > results, window, stride.
"""

from collections.abc import Callable, Iterator
from functools import partial

import torch
import torch.nn.functional as F

from benchmarks.ops._turns import Case, compiled, main
from kernelwright.ops import conv

Size = tuple[int, int, int, int, int, int, int]
DEPTHWISE: tuple[Size, ...] = (
    (1, 32, 112, 112, 32, 3, 1), (1, 96, 112, 112, 96, 3, 2), (1, 144, 56, 56, 144, 3, 1), (1, 192, 28, 28, 192, 5, 1),
    (1, 384, 14, 14, 384, 3, 1), (1, 960, 7, 7, 960, 3, 1), (1, 96, 56, 56, 96, 7, 1), (8, 384, 14, 14, 384, 7, 1),
)  # fmt: skip
POINTWISE: tuple[Size, ...] = (
    (1, 32, 112, 112, 16, 1, 1), (1, 24, 56, 56, 144, 1, 1), (1, 144, 56, 56, 24, 1, 1), (1, 192, 28, 28, 64, 1, 1),
    (1, 64, 14, 14, 384, 1, 1), (1, 320, 7, 7, 1280, 1, 1), (4, 64, 56, 56, 64, 1, 1), (1, 256, 28, 28, 256, 1, 1),
)  # fmt: skip
SMALL: tuple[Size, ...] = (
    (1, 3, 224, 224, 32, 3, 2), (1, 3, 224, 224, 64, 7, 2), (1, 1, 256, 256, 16, 5, 1), (1, 16, 112, 112, 16, 3, 1),
    (1, 4, 64, 64, 32, 3, 1), (1, 32, 56, 56, 32, 3, 1), (8, 3, 32, 32, 16, 3, 1), (1, 64, 28, 28, 64, 3, 1),
)  # fmt: skip
SEQUENCES = ((1, 2048, 512, 4), (4, 1536, 256, 4), (1, 768, 2048, 3), (16, 1024, 128, 4))
"""Items, channels, length, taps."""
Form = Callable[..., torch.Tensor]


def _images(op: str, sizes: tuple[Size, ...], curve: str, native: Form) -> Iterator[Case]:
    for dtype in (torch.float32, torch.bfloat16) if op == "depthwise" else (torch.float32,):
        form = compiled(native)
        for items, channels, height, width, results, taps, stride in sizes:
            if dtype is torch.bfloat16 and stride > 1:
                continue  # torch's own
            groups = channels if op == "depthwise" else 1
            x = torch.randn(items, channels, height, width).to(dtype)
            weight = torch.randn(results, channels // groups, taps, taps).to(dtype) / taps
            given = (x, weight, torch.randn(results).to(dtype), stride, taps // 2, groups)
            own = partial(
                conv.conv2d, *given[:3], stride=stride, padding=taps // 2, groups=groups, activation=curve
            )
            calls = {"kernel": own, "torch": partial(native, *given), "compile": partial(form, *given)}
            size = f"{items}x{channels}x{height}x{width}>{results},{taps},{stride}"
            tolerance = 1e-4 if dtype is torch.float32 else 2e-2
            yield Case(op, size, str(dtype).removeprefix("torch."), calls, tolerance)


def _rectified(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, stride: int, padding: int, groups: int
) -> torch.Tensor:
    return F.conv2d(x, weight, bias, stride, padding, 1, groups).relu()


def _causal(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    taps = weight.shape[2]
    return F.silu(F.conv1d(x, weight, bias, 1, taps - 1, 1, x.shape[1])[..., : x.shape[2]])


def _sequences() -> Iterator[Case]:
    for dtype in (torch.float32, torch.bfloat16):
        form = compiled(_causal)
        for items, channels, length, taps in SEQUENCES:
            x = torch.randn(items, channels, length).to(dtype)
            given = (x, torch.randn(channels, 1, taps).to(dtype), torch.randn(channels).to(dtype))
            own = partial(conv.conv1d, *given, padding="causal", groups=channels, activation="silu")
            calls = {"kernel": own, "torch": partial(_causal, *given), "compile": partial(form, *given)}
            tolerance = 1e-4 if dtype is torch.float32 else 2e-2
            size = f"{items}x{channels}x{length},{taps}"
            yield Case("causal", size, str(dtype).removeprefix("torch."), calls, tolerance)


def cases(only: str) -> Iterator[Case]:
    """Make the cases of each kind of convolution."""
    torch.manual_seed(0)
    for op, sizes in (("depthwise", DEPTHWISE), ("pointwise", POINTWISE), ("small", SMALL)):
        if only in op:
            yield from _images(op, sizes, "relu", _rectified)
    if only in "causal":
        yield from _sequences()


if __name__ == "__main__":
    main(cases, "benchmarks.ops.conv")
