"""The ops of k-means: what is checked, what the kernel serves, and the public functions in front of them."""

from pathlib import Path

import torch

from .._core import Kernel, Op, Tuning, checked, cpu_only, matrix, refuse, remembered
from . import reference

KERNEL = Kernel(Path(__file__).with_name("kernel.cpp"))
"""The library of this family."""
_SERVED = frozenset({torch.float32, torch.bfloat16, torch.float16})
_MOST = 1 << 31


def _check(
    x: torch.Tensor,
    centroids: torch.Tensor,
    shift: torch.Tensor | None = None,
    weights: torch.Tensor | None = None,
) -> None:
    op = "kmeans.assign"
    matrix(op, "x", x)
    matrix(op, "centroids", centroids)
    if centroids.dtype is not x.dtype and centroids.dtype is not torch.float32:
        refuse(op, "centroids", f"of {centroids.dtype}", f"{x.dtype}, as x is, or torch.float32")
    if not centroids.shape[0]:
        refuse(op, "centroids", "empty", "at least one row")
    columns = x.shape[1]
    if centroids.shape[1] != columns:
        refuse(op, "centroids", f"of {centroids.shape[1]} columns", f"{columns}, as x has")
    if shift is not None and (shift.shape != (columns,) or shift.dtype is not torch.float32):
        refuse(op, "shift", f"of shape {tuple(shift.shape)}, {shift.dtype}", f"({columns},), torch.float32")
    if weights is not None and (weights.shape != (len(x),) or weights.dtype is not torch.float32):
        refuse(
            op, "weights", f"of shape {tuple(weights.shape)}, {weights.dtype}", f"({len(x)},), torch.float32"
        )


def _serves(
    x: torch.Tensor,
    centroids: torch.Tensor,
    shift: torch.Tensor | None = None,
    weights: torch.Tensor | None = None,
) -> str | None:
    if x.dtype not in _SERVED:
        return f"x is of {x.dtype}, and the kernel takes float32, bfloat16 and float16"
    if centroids.shape[0] >= _MOST:
        return f"there are {len(centroids)} centroids, and the kernel takes fewer than {_MOST}"
    if (shift is not None and not shift.is_contiguous()) or (
        weights is not None and not weights.is_contiguous()
    ):
        return "shift or weights are not contiguous"
    return cpu_only(x, centroids, shift, weights)


def _wide(x: torch.Tensor) -> torch.dtype:
    return torch.float64 if x.dtype is torch.float64 else torch.float32


def _assigned(x: torch.Tensor, *_: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
    rows = x.shape[0]
    return x.new_empty(rows, dtype=torch.int64), x.new_empty(rows, dtype=_wide(x))


def _stepped(
    x: torch.Tensor, centroids: torch.Tensor, *_: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    wide = _wide(x)
    sums, counts = (
        x.new_empty(centroids.shape, dtype=wide),
        x.new_empty(centroids.shape[0], dtype=wide),
    )
    return *_assigned(x), sums, counts


_assign = Op(
    "kmeans_assign(Tensor x, Tensor centroids, Tensor? shift) -> (Tensor, Tensor)",
    reference=reference.assign, kernel=KERNEL, outputs=_assigned, check=_check, serves=_serves,
    tuning=Tuning("stream_reduce", lambda x, c, *_: (len(x), len(c), x.shape[1])),
)  # fmt: skip
_step = Op(
    "kmeans_step(Tensor x, Tensor centroids, Tensor? shift, Tensor? weights) -> (Tensor, Tensor, Tensor, Tensor)",
    reference=reference.step, kernel=KERNEL, outputs=_stepped, check=_check, serves=_serves,
    tuning=Tuning("stream_reduce", lambda x, c, *_: (len(x), len(c), x.shape[1])),
)  # fmt: skip


@remembered
@checked
def assign(
    x: torch.Tensor, centroids: torch.Tensor, *, shift: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return each row's nearest centroid and the squared distance to it; the product is never stored.

    Args:
        x: (rows, columns) float32, bfloat16 or float16 of any strides; float64 runs the reference.
        centroids: (clusters, columns), of x's dtype or float32.
        shift: (columns,) float32, subtracted from each row as it is read; `centroids` are then relative to it. A shift
            near the data's mean keeps rounding small where the mean is far from zero.

    Returns:
        labels: (rows,) int64; of equally near centroids the first. A row with NaN gets 0.
        distances: (rows,) float32, squared; summed from the differences, so that none is negative.

    Raises:
        ArgumentError: shapes or dtypes do not fit.

    Example:
        >>> labels, distances = assign(torch.tensor([[0.0], [5.0]]), torch.tensor([[4.0], [1.0]]))
        >>> labels.tolist(), distances.tolist()
        ([1, 0], [1.0, 1.0])
    """
    found: tuple[torch.Tensor, torch.Tensor] = _assign(x, centroids, shift)
    return found


@remembered
@checked
def step(
    x: torch.Tensor,
    centroids: torch.Tensor,
    *,
    shift: torch.Tensor | None = None,
    weights: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Assign every row, and in the same pass sum what moves the centroids: `centroids + sums / counts[:, None]`.

    Args:
        x: (rows, columns), as for `assign`.
        centroids: (clusters, columns).
        shift: (columns,), as for `assign`.
        weights: (rows,) float32; all 1 if none.

    Returns:
        labels: (rows,) int64.
        distances: (rows,) float32, squared, not weighted.
        sums: (clusters, columns) float32: weighted differences of rows to their centroid. The same for the same number
            of threads, however fast they are.
        counts: (clusters,) float32: sums of weights, zero of an empty cluster.

    Raises:
        ArgumentError: shapes or dtypes do not fit.

    Example:
        >>> x, c = torch.tensor([[0.0], [2.0], [9.0]]), torch.tensor([[0.0], [8.0]])
        >>> labels, distances, sums, counts = step(x, c)
        >>> (c + sums / counts[:, None]).tolist()
        [[1.0], [9.0]]
    """
    found: tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor] = _step(x, centroids, shift, weights)
    return found
