"""Integer outputs: equal, or the index of an equal value."""

from collections.abc import Sequence

import torch


def integers_wrong(output: torch.Tensor, native: torch.Tensor, arguments: Sequence[torch.Tensor]) -> int:
    """Count integers or booleans that differ from the native op's; none where all are indices of equal values."""
    wrong = int((output != native).sum())
    if wrong and output.dtype in (torch.int64, torch.int32):
        floats = [x for x in arguments if x.dtype.is_floating_point]
        if any(_tie(output.long(), native.long(), x) for x in floats):
            return 0
    return wrong


def _tie(got: torch.Tensor, expected: torch.Tensor, x: torch.Tensor) -> bool:
    """Tell whether both index the same values of x along one axis: an extreme, a sort or a top-k."""
    return any(_tie_along(axis, got, expected, x) for axis in range(x.ndim))


def _tie_along(axis: int, got: torch.Tensor, expected: torch.Tensor, x: torch.Tensor) -> bool:
    if got.ndim == x.ndim - 1:
        got, expected = got.unsqueeze(axis), expected.unsqueeze(axis)
    others = [n for i, n in enumerate(x.shape) if i != axis]
    if got.ndim != x.ndim or [n for i, n in enumerate(got.shape) if i != axis] != others:
        return False
    if any(bool((index < 0).any()) or bool((index >= x.shape[axis]).any()) for index in (got, expected)):
        return False
    wanted = x.gather(axis, expected)
    if not bool((x.gather(axis, got) == wanted).all()):
        return False
    if got.shape[axis] == 1:
        return bool(((wanted == x.amax(axis, keepdim=True)) | (wanted == x.amin(axis, keepdim=True))).all())
    steps, places = wanted.diff(dim=axis), got.sort(dim=axis).values.diff(dim=axis)
    ordered = bool((steps >= 0).all()) or bool((steps <= 0).all())
    return ordered and bool((places > 0).all())
