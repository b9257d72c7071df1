"""The op of nearest neighbours: what is checked, what the kernel serves, and the public function in front of it."""

from pathlib import Path
from typing import Any, Literal

import torch

from .._core import Kernel, Op, Tuning, by_reference, checked, cpu_only, matrix, refuse, remembered
from . import reference

KERNEL = Kernel(Path(__file__).with_name("kernel.cpp"), flags=("-O2",))
"""The library of this family."""
MOST = 128
"""Most neighbours of a row."""
Metric = Literal["sqeuclidean", "inner_product", "cosine"]
METRICS: tuple[Metric, ...] = ("sqeuclidean", "inner_product", "cosine")
"""In the order of the kernel's numbers."""
_SERVED = frozenset({torch.float32, torch.bfloat16, torch.float16})
T = torch.Tensor


def _check(x: T, points: T, count: int, _metric: int = 0) -> None:
    op = "neighbours.nearest"
    matrix(op, "x", x)
    matrix(op, "points", points)
    if points.dtype is not x.dtype:
        refuse(op, "points", f"of {points.dtype}", f"{x.dtype}, as x is")
    if points.shape[1] != x.shape[1] or not len(points):
        refuse(op, "points", f"of shape {tuple(points.shape)}", f"(points, {x.shape[1]}), as x has columns")
    if not 1 <= count <= min(len(points), MOST):
        refuse(op, "count", count, f"1 to {min(len(points), MOST)}")


def _serves(x: T, points: T, *_: int) -> str | None:
    if x.dtype not in _SERVED:
        return f"x is of {x.dtype}, and the kernel takes float32, bfloat16 and float16"
    if len(points) >= 1 << 31:
        return f"there are {len(points)} points, and the kernel takes fewer than {1 << 31}"
    return cpu_only(x, points)


def _outputs(x: T, _points: T, count: int, _metric: int) -> tuple[T, T]:
    wide = torch.promote_types(x.dtype, torch.float32)
    return x.new_empty(len(x), count, dtype=wide), x.new_empty(len(x), count, dtype=torch.int64)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[T, T]) -> None:
    ctx.save_for_backward(*inputs[:2], output[1])
    ctx.metric = inputs[3]


def _gradient(ctx: Any, slopes: T, _: T | None) -> tuple[T | None, ...]:
    """Differentiate how near each point is that was found, as if no others could have been."""
    x, points, found = ctx.saved_tensors
    wide, needs = slopes.dtype, ctx.needs_input_grad[:2]
    rows, of_x, of_points = x.to(wide), None, torch.zeros_like(points, dtype=wide) if needs[1] else None
    for slope, index in zip(slopes.unbind(1), found.unbind(1), strict=True):
        given = [rows, points[index].to(wide)]
        one, other = by_reference(reference.nearness, given, (ctx.metric,), needs, slope)
        of_x = one if of_x is None or one is None else of_x + one
        if of_points is not None and other is not None:
            of_points.index_add_(0, index, other)
    return *(g if g is None else g.to(x.dtype) for g in (of_x, of_points)), None, None


_nearest = Op(
    "neighbours_nearest(Tensor x, Tensor points, int count, int metric) -> (Tensor, Tensor)",
    reference=reference.nearest, kernel=KERNEL, outputs=_outputs, check=_check, serves=_serves,
    gradient=(_keep, _gradient),
    tuning=Tuning("stream_reduce", lambda x, points, *_: (len(x), len(points), x.shape[1])),
)  # fmt: skip


@remembered
@checked
def nearest(x: T, points: T, count: int, *, metric: Metric = "sqeuclidean") -> tuple[T, T]:
    """Return the points nearest to each row of x, the nearest first, of equally near ones the first point.

    Distances are never stored. Squared ones are those of differences in float32: no point that is nearer by them is
    missed.

    Args:
        x: (rows, columns) float32, bfloat16 or float16 of any strides; float64 runs the reference.
        points: (points, columns), of x's dtype.
        count: Neighbours of a row, at most 128.
        metric: "sqeuclidean", the squared distance, least first; "inner_product" or "cosine", largest first. Norms
            below 1e-12 count as 1e-12 in a cosine.

    Returns:
        values: (rows, count) float32, with gradients in x and points, as if no other points could have been found.
            What is no number is farthest.
        indices: (rows, count) int64: rows of points.

    Raises:
        ArgumentError: an argument does not fit.

    Example:
        >>> values, indices = nearest(torch.tensor([[3.0]]), torch.tensor([[9.0], [2.0], [4.0]]), 2)
        >>> values.tolist(), indices.tolist()
        ([[1.0, 1.0]], [[1, 2]])
    """
    found: tuple[T, T] = _nearest(x, points, count, METRICS.index(metric))
    return found
