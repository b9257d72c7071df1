"""Convolutions of channels-first images and sequences: depthwise, pointwise and small ones, with an activation.

| function | what it computes |
|---|---|
| `conv1d(x, weight, bias, ...)` | a convolution along sequences, causal if asked |
| `conv2d(x, weight, bias, ...)` | a convolution over images |

Arguments are those of `torch.nn.functional`, and an activation. Sums are of float32, rounded after the activation.
bfloat16 has a kernel where each channel is convolved by itself at stride 1, and is torch's elsewhere.
Gradients are those that torch has for the reference. Tensors that are not contiguous are copied first.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from .._core import Kernel, Op, Parts, by_reference, checked, cpu_only, floats, refuse, remembered, told
from . import reference

__all__ = ["KERNEL", "conv1d", "conv2d"]

KERNEL = Kernel(Path(__file__).with_name("kernel.cpp"))
"""The library of this family."""
T = torch.Tensor
_ONE, _TWO = "conv.conv1d", "conv.conv2d"
_ACTIVATIONS = {None: reference.NONE, "relu": reference.RELU, "silu": reference.SILU}
_MOST = 1 << 31
"""Above all places of an image, so that a kernel's arithmetic holds."""
_Numbers = int | Sequence[int]


def _sizes(x: T, weight: T, stride_y: int, stride_x: int, *rest: int) -> tuple[int, int]:
    """Return height and width of the result; below 1 where the window is larger than the padded image."""
    top, left, bottom, right, dilation_y, dilation_x = rest[:6]
    return (
        (x.shape[2] + top + bottom - dilation_y * (weight.shape[2] - 1) - 1) // stride_y + 1,
        (x.shape[3] + left + right - dilation_x * (weight.shape[3] - 1) - 1) // stride_x + 1,
    )


def _check(x: T, weight: T, bias: T | None, *numbers: int) -> None:
    stride, padding, dilation, groups = numbers[:2], numbers[2:6], numbers[6:8], numbers[8]
    floats(_TWO, "x", x)
    if x.dim() != 4:
        refuse(_TWO, "x", told(x), "(items, channels, height, width)")
    for name, given, least in (("stride", stride, 1), ("padding", padding, 0), ("dilation", dilation, 1)):
        if min(given) < least or max(given) >= _MOST:
            refuse(_TWO, name, given, f"numbers of at least {least} and below {_MOST}")
    if groups < 1 or not x.shape[1] or x.shape[1] % groups:
        refuse(
            _TWO,
            "groups",
            groups,
            f"a divisor of {x.shape[1]}, the channels of x, of which there is one at least",
        )
    floats(_TWO, "weight", weight)
    if weight.dim() != 4 or weight.shape[1] != x.shape[1] // groups or weight.dtype is not x.dtype:
        refuse(_TWO, "weight", told(weight), f"(results, {x.shape[1] // groups}, height, width), {x.dtype}")
    if not weight.shape[0] or weight.shape[0] % groups or not weight.shape[2] * weight.shape[3]:
        refuse(
            _TWO,
            "weight",
            told(weight),
            f"a window, and a number of results that {groups}, the groups, divides",
        )
    if bias is not None and (bias.shape != weight.shape[:1] or bias.dtype is not x.dtype):
        refuse(_TWO, "bias", told(bias), f"({weight.shape[0]},), {x.dtype}: one number for each result")
    if min(_sizes(x, weight, *numbers)) < 1:
        refuse(_TWO, "x", told(x), "an image that with its padding is no smaller than the window of weight")


def _serves(x: T, weight: T, bias: T | None, *numbers: int) -> str | None:
    by_channel = numbers[8] == x.shape[1] and numbers[:2] == (1, 1)
    if x.dtype is not torch.float32 and not (x.dtype is torch.bfloat16 and by_channel):
        return f"x is of {x.dtype}, and the kernel takes float32, and bfloat16 of channels by themselves at stride 1"
    if not all(t is None or t.is_contiguous() for t in (x, weight, bias)):
        return "a tensor is not contiguous"
    return cpu_only(x, weight, bias)


def _output(x: T, weight: T, _: T | None, *numbers: int) -> T:
    return x.new_empty(x.shape[0], weight.shape[0], *_sizes(x, weight, *numbers))


def _keep(ctx: Any, inputs: tuple[Any, ...], output: T) -> None:  # noqa: ARG001
    ctx.save_for_backward(*inputs[:3])
    ctx.numbers = inputs[3:]


def _gradient(ctx: Any, slope: T) -> tuple[T | None, ...]:
    found = by_reference(reference.conv, ctx.saved_tensors, ctx.numbers, ctx.needs_input_grad[:3], slope)
    return *found, *[None] * len(ctx.numbers)


def _by_channel(*arguments: Any) -> int:
    """Tell whether each channel gives results by itself, and is read without a stride."""
    x, *_, groups, _ = arguments
    return int(x.shape[1] == groups and arguments[3] == arguments[4] == 1)


_conv = Op(
    "conv(Tensor x, Tensor weight, Tensor? bias, int stride_y, int stride_x, int top, int left, int bottom, int right,"
    " int dilation_y, int dilation_x, int groups, int curve) -> Tensor",
    reference=reference.conv, kernel=KERNEL, outputs=_output, check=_check, serves=_serves,
    gradient=(_keep, _gradient), parts=Parts("KW_BY_CHANNEL", (0, 1), _by_channel),
)  # fmt: skip


def _pair(op: str, name: str, given: Any, axes: int) -> tuple[int, ...]:
    """Return a number for each axis."""
    numbers = (given,) * axes if isinstance(given, int) else given
    if (
        not isinstance(numbers, list | tuple)
        or len(numbers) != axes
        or not all(type(n) is int for n in numbers)
    ):
        refuse(op, name, repr(given), "a whole number" + (" or two" if axes == 2 else ""))
    return tuple(numbers)


def _padding(
    op: str, padding: Any, window: Sequence[int], strides: tuple[int, ...], apart: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the zeros before and after each axis."""
    axes = len(window)
    if not isinstance(padding, str):
        numbers = _pair(op, "padding", padding, axes)
        return numbers, numbers
    words = ("valid", "same", "causal")[: 3 if axes == 1 else 2]
    if padding not in words:
        refuse(op, "padding", repr(padding), f"numbers or one of {', '.join(words)}")
    if padding == "same" and max(strides) > 1:
        refuse(op, "padding", "'same'", f"numbers, for a stride of {max(strides)}")
    reach = [d * (n - 1) if padding != "valid" else 0 for d, n in zip(apart, window, strict=True)]
    low = tuple(n if padding == "causal" else n // 2 for n in reach)
    return low, tuple(n - before for n, before in zip(reach, low, strict=True))


def _called(
    op: str, x: T, weight: T, bias: T | None, stride: Any, padding: Any, dilation: Any, groups: Any, activation: Any
) -> T:  # fmt: skip
    """Check what is no tensor or number, and call the op on images; a sequence is an image of one row."""
    axes = 1 if op == _ONE else 2
    words = "channels, length" if axes == 1 else "channels, height, width"
    for name, t, first in (("x", x, "items"), ("weight", weight, "results")):
        floats(op, name, t)
        if t.dim() != axes + 2:
            refuse(op, name, told(t), f"({first}, {words})")
    if bias is not None:
        floats(op, "bias", bias)
        bias = bias.contiguous()
    if not isinstance(activation, str | None) or activation not in _ACTIVATIONS:
        refuse(op, "activation", repr(activation), "None, 'relu' or 'silu'")
    if type(groups) is not int:
        refuse(op, "groups", repr(groups), "a whole number")
    curve, strides = _ACTIVATIONS[activation], _pair(op, "stride", stride, axes)
    apart = _pair(op, "dilation", dilation, axes)
    low, high = _padding(op, padding, weight.shape[2:], strides, apart)
    x, weight = x.contiguous(), weight.contiguous()
    if axes == 2:
        image: T = _conv(x, weight, bias, *strides, *low, *high, *apart, groups, curve)
        return image
    found: T = _conv(
        x.unsqueeze(2), weight.unsqueeze(2), bias, 1, *strides, 0, *low, 0, *high, 1, *apart, groups, curve
    )
    return found.squeeze(2)


@remembered
@checked
def conv1d(
    x: T, weight: T, bias: T | None = None, *, stride: _Numbers = 1, padding: _Numbers | str = 0,
    dilation: _Numbers = 1, groups: int = 1, activation: str | None = None,
) -> T:  # fmt: skip
    """Return the convolution of sequences, plus the bias, through the activation.

    Args:
        x: (items, channels, length) float32 or bfloat16; other floats run the reference.
        weight: (results, channels / groups, taps), of x's dtype.
        bias: (results,), of x's dtype; 0 if none.
        stride: Places from one result to the next.
        padding: Zeros at either end; 'valid' for none, 'same' for as many results as places, 'causal' for as many, of
            which none depends on later places.
        dilation: Places from one tap to the next.
        groups: Of channels, each convolved by itself.
        activation: None, 'relu' or 'silu'.

    Returns:
        (items, results, places), of x's dtype.

    Raises:
        ArgumentError: shapes, dtypes or numbers do not fit.

    Example:
        >>> conv1d(torch.tensor([[[1.0, 2.0, 3.0]]]), torch.ones(1, 1, 2), padding="causal").tolist()
        [[[1.0, 3.0, 5.0]]]
    """
    return _called(_ONE, x, weight, bias, stride, padding, dilation, groups, activation)


@remembered
@checked
def conv2d(
    x: T, weight: T, bias: T | None = None, *, stride: _Numbers = 1, padding: _Numbers | str = 0,
    dilation: _Numbers = 1, groups: int = 1, activation: str | None = None,
) -> T:  # fmt: skip
    """Return the convolution of images, plus the bias, through the activation.

    Args:
        x: (items, channels, height, width) float32 or bfloat16; other floats run the reference.
        weight: (results, channels / groups, height, width), of x's dtype.
        bias: (results,), of x's dtype; 0 if none.
        stride: Pixels from one result to the next, down and across.
        padding: Zeros around the image, down and across; 'valid' for none, 'same' for as many results as pixels.
        dilation: Pixels from one tap to the next, down and across.
        groups: Of channels, each convolved by itself.
        activation: None, 'relu' or 'silu'.

    Returns:
        (items, results, height, width), of x's dtype.

    Raises:
        ArgumentError: shapes, dtypes or numbers do not fit.

    Example:
        >>> conv2d(torch.ones(1, 1, 3, 3), torch.ones(1, 1, 3, 3), padding=1).flatten().tolist()
        [4.0, 6.0, 4.0, 6.0, 9.0, 6.0, 4.0, 6.0, 4.0]
    """
    return _called(_TWO, x, weight, bias, stride, padding, dilation, groups, activation)
