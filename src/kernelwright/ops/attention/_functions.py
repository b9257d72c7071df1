"""The public functions of attention."""

from typing import Literal, overload

import torch

from .._core import refuse
from . import masks
from ._ops import forward, of_four, of_heads

T = torch.Tensor


@overload
def attention(
    q: T, k: T, v: T, mask: "masks.Mask | T | None" = None, *, scale: float | None = None, soft_cap: float | None = None,
    sinks: T | None = None, alibi: T | None = None, return_lse: Literal[False] = False,
) -> T: ...  # fmt: skip
@overload
def attention(
    q: T, k: T, v: T, mask: "masks.Mask | T | None" = None, *, scale: float | None = None, soft_cap: float | None = None,
    sinks: T | None = None, alibi: T | None = None, return_lse: Literal[True],
) -> tuple[T, T]: ...  # fmt: skip
def attention(
    q: T, k: T, v: T, mask: "masks.Mask | T | None" = None, *, scale: float | None = None, soft_cap: float | None = None,
    sinks: T | None = None, alibi: T | None = None, return_lse: bool = False,
) -> T | tuple[T, T]:  # fmt: skip
    """Return attention: values weighted by the softmax over keys of `scale * q @ k.T`, capped, biased and masked.

    Scores go through `soft_cap * tanh(score / soft_cap)`, then the bias is added, then the mask hides; sums are float32.
    What a mask hides has no part in a row, be it infinite or NaN; a row that sees no key is zeros. Gradients are
    computed from scores that are made again, tile by tile; there are none by `alibi`, and no second derivatives.

    Args:
        q: (batch, heads, rows, inner) float32, bfloat16 or float16, of any strides but the last; float64 runs the
            reference.
        k: (batch, kv heads, keys, inner), of q's dtype; kv heads divide heads, and each serves as many in turn.
        v: (batch, kv heads, keys, columns), of q's dtype.
        mask: A spec of `masks`; or ranges [begin, end) of keys, (..., rows, ranges, 2) int32, of which those before
            rows are (), (heads,) or (batch, heads), 1 for all; or a bool tensor (rows, keys), or (heads, rows, keys).
        scale: What scores are multiplied by; 1 / sqrt(inner) by default.
        soft_cap: Scores are kept within it; None for no cap.
        sinks: (heads,) float32: the score of one more key without a value, which takes its share of the softmax.
        alibi: (heads,) float32: `alibi * |distance|` is subtracted from scores.
        return_lse: Whether to return the log-sum-exp of each row's scores too.

    Returns:
        (batch, heads, rows, columns) of q's dtype; and (batch, heads, rows) float32, -inf for a row without keys.

    Raises:
        ArgumentError: an argument does not fit.

    Example:
        >>> q, k, v = torch.randn(1, 4, 6, 8), torch.randn(1, 2, 6, 8), torch.randn(1, 2, 6, 8)
        >>> out = attention(q, k, v, masks.Causal())
        >>> torch.allclose(out[:, 0, 0], v[:, 0, 0], atol=1e-6)
        True
    """
    of_four("attention", "q", q)
    of_four("attention", "k", k, q)
    ranges = ranges_of(mask, q, k)
    if soft_cap is not None and not (isinstance(soft_cap, float | int) and soft_cap > 0):
        refuse("attention", "soft_cap", repr(soft_cap), "a number above 0, or None")
    if scale is None:
        scale = max(1, q.shape[3]) ** -0.5
    elif not isinstance(scale, float | int):
        refuse("attention", "scale", repr(scale), "a finite number, or None")
    of_heads("attention", "sinks", sinks, q.shape[1])
    of_heads("attention", "alibi", alibi, q.shape[1])
    out: T
    lse: T
    out, lse = forward(q, k, v, ranges, sinks, alibi, float(scale), float(soft_cap or 0.0))
    return (out, lse) if return_lse else out


def ranges_of(mask: object, q: T, k: T) -> T | None:
    """Return a mask as (1 or batch, 1 or heads, rows, ranges, 2) int32 on q's device; None where all is seen."""
    if mask is None or isinstance(mask, masks.Full):
        return None
    rows, keys = q.shape[2], k.shape[2]
    if isinstance(mask, T) and mask.dtype is torch.bool:
        mask = masks.Dense(mask)
    if isinstance(mask, masks.Mask):
        ranges = mask.ranges(rows, keys)
    elif isinstance(mask, T) and mask.dtype is torch.int32 and 3 <= mask.dim() <= 5:
        ranges = mask
    else:
        given = f"{mask.dtype} of shape {tuple(mask.shape)}" if isinstance(mask, T) else repr(mask)
        refuse("attention", "mask", given, "a spec of attention.masks, ranges of int32, a bool tensor, or None")
    return ranges.reshape((1,) * (5 - ranges.dim()) + ranges.shape).to(q.device)
