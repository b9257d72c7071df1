"""Resized images against `F.interpolate` and torch.compile of it, boxes against words of torch, one box after another.

    python -m benchmarks.ops.image [--only resize] [--threads 1] [--rounds 15] [--without compile] [--out rows.jsonl]

Sizes are items x channels x height x width > height x width, or boxes.
"""

from collections.abc import Iterator
from functools import partial

import torch
import torch.nn.functional as F

from benchmarks.ops._turns import Case, compiled, main
from kernelwright.ops import image
from kernelwright.ops.image import reference

SIZES = (
    ((1, 3, 480, 640), (224, 224)), ((1, 3, 224, 224), (448, 448)), ((1, 64, 28, 28), (56, 56)),
    ((1, 256, 14, 14), (28, 28)), ((8, 3, 256, 256), (224, 224)), ((1, 3, 1080, 1920), (540, 960)),
    ((1, 19, 64, 64), (512, 512)), ((1, 3, 600, 800), (300, 400)),
)  # fmt: skip
WAYS = (("nearest", False), ("bilinear", False), ("bilinear", True), ("bicubic", False), ("bicubic", True))
BOXES = (100, 300, 1000, 3000)


def _interpolated(x: torch.Tensor, size: tuple[int, int], mode: str, antialias: bool) -> torch.Tensor:
    if mode == "nearest":
        return F.interpolate(x, size)
    return F.interpolate(x, size, mode=mode, align_corners=False, antialias=antialias)


def _resized(mode: str, antialias: bool) -> Iterator[Case]:
    op = f"resize {mode}" + (" smoothed" if antialias else "")
    form = compiled(_interpolated)
    for shape, size in SIZES:
        if mode == "nearest" and any(max(a, b) % min(a, b) for a, b in zip(shape[2:], size, strict=True)):
            continue  # torch's step is of float32, and takes the pixel next to the one here
        x = torch.randn(shape)
        given = (x, size, mode, antialias)
        calls = {
            "kernel": partial(image.resize, x, size, mode=mode, antialias=antialias),
            "torch": partial(_interpolated, *given),
        }
        if not antialias:  # torch.compile calls torch's own kernel there
            calls["compile"] = partial(form, *given)
        yield Case(op, "x".join(map(str, shape)) + ">" + "x".join(map(str, size)), "float32", calls, 1e-3)


def _by_matrix(boxes: torch.Tensor, scores: torch.Tensor, threshold: float) -> torch.Tensor:
    """All overlaps at once, then one row of them after another."""
    order = scores.argsort(descending=True, stable=True)
    boxes = boxes[order]
    sides = torch.minimum(boxes[:, None, 2:], boxes[:, 2:]) - torch.maximum(boxes[:, None, :2], boxes[:, :2])
    shared, size = sides.clamp(min=0).prod(2), (boxes[:, 2:] - boxes[:, :2]).prod(1)
    over = (shared > threshold * (size[:, None] + size - shared)).triu(1)
    gone = torch.zeros(boxes.shape[0], dtype=torch.bool)
    for i in range(boxes.shape[0]):
        if not gone[i]:
            gone |= over[i]
    return order[~gone]


def _one_by_one(boxes: torch.Tensor, scores: torch.Tensor, threshold: float) -> torch.Tensor:
    order = scores.argsort(descending=True, stable=True)
    return order[reference.suppress(boxes[order], threshold)]


def _boxes() -> Iterator[Case]:
    for n in BOXES:
        low = torch.randint(0, 600, (n, 2))
        given = (torch.cat([low, low + torch.randint(8, 120, (n, 2))], 1).float(), torch.rand(n), 0.5)
        forms = {"kernel": image.nms, "matrix": _by_matrix, "one by one": _one_by_one}
        yield Case("nms", str(n), "float32", {name: partial(form, *given) for name, form in forms.items()}, 0)


def cases(only: str) -> Iterator[Case]:
    """Make the cases of images and of boxes."""
    torch.manual_seed(0)
    for mode, antialias in WAYS:
        if only in f"resize {mode}" + (" smoothed" if antialias else ""):
            yield from _resized(mode, antialias)
    if only in "nms":
        yield from _boxes()


if __name__ == "__main__":
    main(cases, "benchmarks.ops.image")
