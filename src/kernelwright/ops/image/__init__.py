"""Images: resizing, and which of boxes that overlap are kept.

| function | what it computes |
|---|---|
| `resize(x, size, mode=..., antialias=...)` | images of another size, as `F.interpolate` without aligned corners |
| `nms(boxes, scores, threshold)` | boxes that overlap none of a higher score; of their class, if classes are given |

Sums are of float32, rounded once. Images that are not contiguous are copied first. Gradients of `resize` are those that
torch has for the reference.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from .._core import Kernel, Op, by_reference, checked, cpu_only, floats, refuse, remembered, told
from . import reference

__all__ = ["KERNEL", "nms", "resize"]

KERNEL = Kernel(Path(__file__).with_name("kernel.cpp"))
"""The library of this family."""
T = torch.Tensor
_MODES = {"nearest": reference.NEAREST, "bilinear": reference.BILINEAR, "bicubic": reference.BICUBIC}
_RESIZE, _NMS = "image.resize", "image.nms"


def _check_resize(x: T, height: int, width: int, mode: int, antialias: bool) -> None:
    floats(_RESIZE, "x", x)
    if x.dim() != 4 or not x.shape[2] * x.shape[3]:
        refuse(_RESIZE, "x", told(x), "(items, channels, height, width), of one pixel at least")
    if min(height, width) < 1:
        refuse(_RESIZE, "size", (height, width), "two numbers of at least 1")
    if not 0 <= mode < len(_MODES):
        refuse(_RESIZE, "mode", mode, f"0 to {len(_MODES) - 1}")
    if antialias and mode == reference.NEAREST:
        refuse(_RESIZE, "antialias", True, "False, for mode 'nearest'")


def _serves_resize(x: T, *_: Any) -> str | None:
    if x.dtype is not torch.float32 and x.dtype is not torch.bfloat16:
        return f"x is of {x.dtype}, and the kernel takes float32 and bfloat16"
    return cpu_only(x) if x.is_contiguous() else "x is not contiguous"


def _keep(ctx: Any, inputs: tuple[Any, ...], output: T) -> None:  # noqa: ARG001
    ctx.save_for_backward(inputs[0])
    ctx.rest = inputs[1:]


def _gradient(ctx: Any, slope: T) -> tuple[T | None, ...]:
    (found,) = by_reference(reference.resize, ctx.saved_tensors, ctx.rest, [True], slope)
    return found, None, None, None, None


def _check_suppress(boxes: T, threshold: float, classes: T | None) -> None:
    floats(_NMS, "boxes", boxes)
    if boxes.dim() != 2 or boxes.shape[1] != 4:
        refuse(_NMS, "boxes", told(boxes), "(boxes, 4)")
    if not 0 <= threshold <= 1:
        refuse(_NMS, "threshold", threshold, "a number from 0 to 1")
    if classes is not None and (classes.shape != boxes.shape[:1] or classes.dtype is not torch.int64):
        refuse(_NMS, "classes", told(classes), f"({boxes.shape[0]},), torch.int64")


def _serves_suppress(boxes: T, _: float, classes: T | None) -> str | None:
    if boxes.dtype is not torch.float32:
        return f"boxes are of {boxes.dtype}, and the kernel takes float32"
    if not boxes.is_contiguous() or not (classes is None or classes.is_contiguous()):
        return "a tensor is not contiguous"
    return cpu_only(boxes, classes)


_resize = Op(
    "image_resize(Tensor x, int height, int width, int mode, bool antialias) -> Tensor",
    reference=reference.resize, kernel=KERNEL, check=_check_resize, serves=_serves_resize,
    outputs=lambda x, height, width, *_: x.new_empty(*x.shape[:2], height, width), gradient=(_keep, _gradient),
)  # fmt: skip
_suppress = Op(
    "image_suppress(Tensor boxes, float threshold, Tensor? classes) -> Tensor",
    reference=reference.suppress, kernel=KERNEL, check=_check_suppress, serves=_serves_suppress,
    outputs=lambda boxes, *_: boxes.new_empty(boxes.shape[0], dtype=torch.bool),
)  # fmt: skip


@remembered
@checked
def resize(x: T, size: int | Sequence[int], *, mode: str = "bilinear", antialias: bool = False) -> T:
    """Return images of another size; pixels are squares, so corners are not aligned.

    Args:
        x: (items, channels, height, width) float32 or bfloat16; other floats run the reference.
        size: Height and width of the results, or one number for both.
        mode: 'nearest', 'bilinear' or 'bicubic'.
        antialias: Whether each result is a mean over what it covers where images become smaller.

    Returns:
        (items, channels, *size), of x's dtype.

    Raises:
        ArgumentError: shapes, sizes or words do not fit.

    Example:
        >>> resize(torch.tensor([[[[0.0, 4.0]]]]), (1, 4)).tolist()
        [[[[0.0, 1.0, 3.0, 4.0]]]]
    """
    sizes = (size, size) if isinstance(size, int) else size
    if not isinstance(sizes, list | tuple) or len(sizes) != 2 or not all(type(n) is int for n in sizes):
        refuse(_RESIZE, "size", repr(size), "a whole number or two")
    if not isinstance(mode, str) or mode not in _MODES:
        refuse(_RESIZE, "mode", repr(mode), "'nearest', 'bilinear' or 'bicubic'")
    if not isinstance(antialias, bool):
        refuse(_RESIZE, "antialias", repr(antialias), "True or False")
    floats(_RESIZE, "x", x)
    found: T = _resize(x.contiguous(), *sizes, _MODES[mode], antialias)
    return found


@checked
def nms(boxes: T, scores: T, threshold: float = 0.5, *, classes: T | None = None) -> T:
    """Return the indices of boxes that overlap none with a higher score that is kept, the highest score first.

    Boxes overlap if what both cover is more than `threshold` of what they cover together. Of equal scores the first
    counts as the highest.

    Args:
        boxes: (boxes, 4) float32; other floats run the reference. Each is x and y of one corner, x and y of the other.
        scores: (boxes,) floats.
        threshold: From 0 to 1.
        classes: (boxes,) int64; boxes of different classes do not meet. All are of one class if none.

    Returns:
        (kept,) int64.

    Raises:
        ArgumentError: shapes, dtypes or the threshold do not fit.

    Example:
        >>> boxes = torch.tensor([[0.0, 0.0, 2.0, 2.0], [0.0, 0.0, 2.0, 1.5], [5.0, 5.0, 6.0, 6.0]])
        >>> nms(boxes, torch.tensor([0.5, 0.9, 0.7])).tolist()
        [1, 2]
    """
    for name, t in (("boxes", boxes), ("scores", scores)):
        floats(_NMS, name, t)
    if not isinstance(threshold, int | float):
        refuse(_NMS, "threshold", told(threshold), "a number from 0 to 1")
    if classes is not None and not isinstance(classes, torch.Tensor):
        refuse(_NMS, "classes", told(classes), "a tensor or None")
    _check_suppress(boxes, threshold, classes)
    if scores.shape != boxes.shape[:1]:
        refuse(_NMS, "scores", told(scores), f"({boxes.shape[0]},): a number for each box")
    if scores.device != boxes.device:
        refuse(_NMS, "scores", f"on {scores.device}", f"{boxes.device}, as boxes are")
    order = scores.detach().argsort(descending=True, stable=True)
    kept = _suppress(boxes.detach()[order], threshold, None if classes is None else classes[order])
    return order[kept]
