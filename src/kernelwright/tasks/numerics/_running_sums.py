"""How far a sum is off when float32 adds its terms one after another, as the simplest kernel does.

Terms that are alike (a constant, the zeros of a sparse tensor less their mean) round alike, so that their errors add up
instead of wandering, and all rows that are alike are off alike. No model of random rounding (`_products`) shows that.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

_HALF = 2.0**-24
"""Half an epsilon of float32."""
_NEARBY = 2.0**-19
"""How far the terms of two kernels may be apart, relative to their size."""
_LARGE = 1 << 18
"""Elements beyond which sums are added up once."""


def drift(name: str, args: tuple[Any, ...], result: Tensor) -> Tensor | None:
    """Return how far a sum's elements are off, in half epsilons of float32.

    Args:
        name: The operator, without its overload.
        args: Its arguments.
        result: What it gave, float64.

    Returns:
        A tensor of the result's shape, zero where it is not finite; none where the operator is no sum.

    Example:
        >>> x = torch.full((4096,), 0.1, dtype=torch.float64)
        >>> bool(drift("sum", (x,), x.sum()).abs() > 100 * x.sum())
        True
    """
    if name not in ("sum", "mean", "var", "cumsum") or not args[0].numel():
        return None
    x = args[0]
    if name == "cumsum":
        x = _level(x.movedim(args[1], -1))
        off = (_running(x) - x.cumsum(-1)).movedim(-1, args[1])
    else:
        x = _rows(x, args[1] if len(args) > 1 else None)
        if name == "var":
            x = (x - x.mean(-1, keepdim=True)).square_()
        off = _farthest(_level(x))
        if name != "sum":
            off *= 1 / x.shape[-1] if name == "mean" else result.reshape(off.shape) / x.sum(-1)
        off = off.reshape(result.shape)
    return off.div_(_HALF).nan_to_num_(0.0, 0.0, 0.0)


def _rows(x: Tensor, dims: int | Sequence[int] | None) -> Tensor:
    """Bring the axes that are summed together to the end, as one."""
    dims = (dims,) if isinstance(dims, int) else tuple(dims or range(x.dim()))
    return x.movedim(dims, tuple(range(-len(dims), 0))).flatten(-len(dims)) if dims else x[..., None]


def constant(x: Tensor, dim: int) -> Tensor:
    """Tell which rows along an axis, which is kept, are one value as far as that shows in a running sum of theirs."""
    rows = x.movedim(dim, -1)
    first = rows[..., :1]
    margin = first.abs() * (rows.shape[-1] * 2 * _HALF)
    found = ((rows[..., -1:] - first).abs() <= margin).squeeze(-1)
    if bool(found.any()):  # of rows whose ends differ no more is read
        found[found.clone()] = ((rows[found] - first[found]).abs() <= margin[found]).all(-1)
    return found.unsqueeze(-1).movedim(-1, dim)


def _level(x: Tensor) -> Tensor:
    """Make rows constant that are but for rounding: that of their inputs, as drawn here, may stop what drifts."""
    found = constant(x, -1)
    return torch.where(found, x[..., :1], x) if bool(found.any()) else x


def _farthest(x: Tensor) -> Tensor:
    """Return how far the sums of rows drift, at most: a term that many are like may round down where a kernel's own,
    a little larger, rounds up."""
    total = x.sum(-1)
    farthest = _running(x)[..., -1] - total
    for factor in (1 - _NEARBY, 1 + _NEARBY) if x.numel() <= _LARGE else ():
        off = _running(x * factor)[..., -1] - total * factor
        farthest = torch.where(off.abs() > farthest.abs(), off, farthest)
    return farthest


def _running(x: Tensor) -> Tensor:
    """Add up the last axis in float32, one element after another."""
    with np.errstate(all="ignore"):
        return torch.from_numpy(np.add.accumulate(x.float().numpy(), axis=-1)).double()
