"""Embeddings: rows of a table by number, bags of them summed, averaged or maximised, and their gradients.

| function | what it computes |
|---|---|
| `embedding(ids, weight)` | the rows that are named |
| `embedding_bag(ids, weight, offsets)` | the sum, mean or largest of each bag's rows |

Gradients are dense, and the same from run to run and for any number of threads. Sums are of float32, in the order of
the entries, rounded once.
"""

import torch

from .._core import checked, fixed, refuse, remembered, told
from . import _ops
from ._ops import KERNEL

__all__ = ["KERNEL", "embedding", "embedding_bag"]

_MODES = {"sum": _ops.SUM, "mean": _ops.MEAN, "max": _ops.MAX}
_Tensor = torch.Tensor


def _flat(x: _Tensor) -> _Tensor:
    return x.contiguous() if isinstance(x, torch.Tensor) else x


def _padding(op: str, padding_idx: int | None, weight: _Tensor) -> int:
    if padding_idx is None or not isinstance(weight, torch.Tensor) or weight.dim() != 2:
        return -1
    if not -len(weight) <= padding_idx < len(weight):
        refuse(op, "padding_idx", padding_idx, f"within {len(weight)} rows")
    return padding_idx % len(weight)


@remembered
@checked
def embedding(ids: _Tensor, weight: _Tensor, padding_idx: int | None = None) -> _Tensor:
    """Return rows of a table, as `torch.nn.functional.embedding` does.

    Args:
        ids: (...) int32 or int64.
        weight: (rows, columns) float32 or bfloat16; other floats run the reference.
        padding_idx: A row whose gradient is zero.

    Returns:
        (..., columns), of the table's dtype.

    Raises:
        ArgumentError: shapes or dtypes do not fit.
        IndexError: an id is no row of the table.

    Example:
        >>> embedding(torch.tensor([2, 0]), torch.tensor([[1.0], [2.0], [3.0]])).tolist()
        [[3.0], [1.0]]
    """
    out: _Tensor = _ops.one(_flat(weight), _flat(ids), _padding("embedding.embedding", padding_idx, weight))
    return out


@remembered
@checked
def embedding_bag(
    ids: _Tensor,
    weight: _Tensor,
    offsets: _Tensor | None = None,
    *,
    mode: str = "mean",
    per_sample_weights: _Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> _Tensor:
    """Return a row for each bag of ids, as `torch.nn.functional.embedding_bag` does.

    Args:
        ids: (n,) int32 or int64, with offsets; or (bags, size), bags of one size.
        weight: (rows, columns) float32 or bfloat16; other floats run the reference.
        offsets: (bags,) int32 or int64, where each bag begins.
        mode: `sum`, `mean` or `max`. A bag without ids is zero. NaN is the largest of all.
        per_sample_weights: As ids, of the table's dtype: factors of a sum.
        include_last_offset: Whether offsets have the end of the last bag too.
        padding_idx: A row that no bag takes, and whose gradient is zero.

    Returns:
        (bags, columns), of the table's dtype.

    Raises:
        ArgumentError: shapes or dtypes do not fit.
        IndexError: an id is no row of the table.
        ValueError: offsets do not ascend.

    Example:
        >>> weight = torch.tensor([[1.0], [2.0], [4.0]])
        >>> embedding_bag(torch.tensor([0, 2, 1]), weight, torch.tensor([0, 2]), mode="sum").tolist()
        [[5.0], [2.0]]
    """
    op = "embedding.embedding_bag"
    if mode not in _MODES:
        refuse(op, "mode", repr(mode), "'sum', 'mean' or 'max'")
    _ops.check_ids(op, "ids", ids)
    padding = _padding(op, padding_idx, weight)
    if ids.dim() == 2:
        if offsets is not None:
            refuse(op, "offsets", "given", f"none, for ids of shape {tuple(ids.shape)}")
        if per_sample_weights is not None and per_sample_weights.shape != ids.shape:
            refuse(op, "per_sample_weights", told(per_sample_weights), f"of shape {tuple(ids.shape)}, as ids")
        offsets = fixed(torch.arange(ids.shape[0] + 1, device=ids.device, dtype=ids.dtype) * ids.shape[1])
        include_last_offset = True
        ids, scale = ids.reshape(-1), None if per_sample_weights is None else per_sample_weights.reshape(-1)
    else:
        if offsets is None:
            refuse(op, "offsets", "None", "where each bag begins, or ids of shape (bags, size)")
        _ops.check_ids(op, "offsets", offsets)
        scale = per_sample_weights
    scale = scale if scale is None else _flat(scale)
    offsets = _flat(offsets)
    found = _ops.bag(_flat(weight), _flat(ids), offsets, scale, _MODES[mode], padding, include_last_offset)
    out: _Tensor = found[0]
    return out
