"""References of convolutions: torch alone."""

from torch import Tensor
from torch.nn import functional

NONE, RELU, SILU = range(3)


def conv(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride_y: int = 1,
    stride_x: int = 1,
    top: int = 0,
    left: int = 0,
    bottom: int = 0,
    right: int = 0,
    dilation_y: int = 1,
    dilation_x: int = 1,
    groups: int = 1,
    curve: int = 0,
) -> Tensor:
    """Return curve(the convolution of x, with zeros around it, plus the bias)."""
    padding = (top, left)
    if (top, left) != (bottom, right):
        x, padding = functional.pad(x, (left, right, top, bottom)), (0, 0)
    y = functional.conv2d(x, weight, bias, (stride_y, stride_x), padding, (dilation_y, dilation_x), groups)
    if curve == RELU:
        return y.relu()
    return functional.silu(y) if curve == SILU else y
