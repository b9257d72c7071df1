"""References of image ops: torch alone."""

import torch
from torch import Tensor

NEAREST, BILINEAR, BICUBIC = range(3)
ROWS = 512
"""Boxes that are held against all at once."""


def taps(size: int, out: int, mode: int, antialias: bool, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return which places along an axis each result reads, and their weights: two of (out, taps), int64 and float64.

    Pixels are squares: the middle of result i lies at `(i + 0.5) * size / out`. A window grows with the step where it
    is to be smoothed. What a cubic reads beyond the edge is the edge; a smoothed window ends there.
    """
    step = size / max(out, 1)
    middle = (torch.arange(out, dtype=torch.float64, device=device) + 0.5) * step
    if mode == NEAREST:
        places = torch.arange(out, device=device) * size // max(out, 1)
        return places[:, None], torch.ones_like(middle)[:, None]
    reach = 1 if mode == BILINEAR else 2
    wide = max(step, 1.0) if antialias else 1.0
    support = reach * wide
    first = (middle - support + 0.5).floor().long()
    places = first[:, None] + torch.arange(int(2 * support) + 2, device=device)
    apart = ((places + 0.5 - middle[:, None]) / wide).abs()
    weights = 1 - apart if mode == BILINEAR else _cubic(apart, -0.5 if antialias else -0.75)
    weights = torch.where(apart < reach, weights, 0.0)
    if antialias:
        weights = torch.where((places >= 0) & (places < size), weights, 0.0)
        weights = weights / weights.sum(1, keepdim=True)
    return places.clamp(0, size - 1), weights


def _cubic(x: Tensor, a: float) -> Tensor:
    """Return Keys' cubic for x >= 0; of no meaning from 2 on."""
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    return torch.where(x <= 1, near, ((x - 5) * x + 8) * x * a - 4 * a)


def resize(x: Tensor, height: int, width: int, mode: int = 1, antialias: bool = False) -> Tensor:
    """Return (items, channels, height, width): rows are resized, then columns, in float32 at least."""
    wide = x if x.dtype is torch.float64 else x.float()
    for axis, out in ((3, width), (2, height)):
        places, weights = taps(x.shape[axis], out, mode, antialias, x.device)
        read = wide.index_select(axis, places.flatten())
        read = read.view(*wide.shape[:axis], *places.shape, *wide.shape[axis + 1 :])
        each = weights.to(wide.dtype).view((*weights.shape, 1) if axis == 2 else weights.shape)
        wide = (torch.where(each != 0, read, 0.0) * each).sum(axis + 1)  # what does not count may be infinite
    return wide.to(x.dtype)


def overlaps(some: Tensor, boxes: Tensor, threshold: float) -> Tensor:
    """Return which of some boxes share more than the threshold with which of all, (some, boxes) bool."""
    low = torch.maximum(some[:, None, :2], boxes[:, :2])
    shared = (torch.minimum(some[:, None, 2:], boxes[:, 2:]) - low).clamp(min=0).prod(2)
    sizes = [(x[:, 2:] - x[:, :2]).prod(1) for x in (some, boxes)]
    return shared > threshold * (sizes[0][:, None] + sizes[1] - shared)


def suppress(boxes: Tensor, threshold: float = 0.5, classes: Tensor | None = None) -> Tensor:
    """Return which boxes are kept: those that overlap no earlier one that is kept, (boxes,) bool."""
    boxes = boxes.to(torch.promote_types(boxes.dtype, torch.float32))
    kept = torch.ones(boxes.shape[0], dtype=torch.bool, device=boxes.device)
    for begin in range(0, boxes.shape[0], ROWS):
        over = overlaps(boxes[begin : begin + ROWS], boxes, threshold)
        if classes is not None:
            over = over & (classes[begin : begin + ROWS, None] == classes)
        clear = ~over.triu(begin + 1)
        for i in range(len(clear)):
            kept = torch.where(kept[begin + i], kept & clear[i], kept)
    return kept
