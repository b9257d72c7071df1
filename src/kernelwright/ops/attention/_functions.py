"""The public functions of attention."""

from itertools import pairwise
from typing import Literal, overload

import torch

from .._core import cap_of, checked, fixed, refuse, remembered
from . import masks
from ._ops import forward, of_four, of_heads, said

T = torch.Tensor


@overload
def attention(
    q: T, k: T, v: T, mask: "masks.Mask | T | None" = None, *, scale: float | None = None,
    soft_cap: float | None = None, sinks: T | None = None, alibi: T | None = None, return_lse: Literal[False] = False,
) -> T: ...  # fmt: skip
@overload
def attention(
    q: T, k: T, v: T, mask: "masks.Mask | T | None" = None, *, scale: float | None = None,
    soft_cap: float | None = None, sinks: T | None = None, alibi: T | None = None, return_lse: Literal[True],
) -> tuple[T, T]: ...  # fmt: skip
@remembered
@checked
def attention(
    q: T, k: T, v: T, mask: "masks.Mask | T | None" = None, *, scale: float | None = None,
    soft_cap: float | None = None, sinks: T | None = None, alibi: T | None = None, return_lse: bool = False,
) -> T | tuple[T, T]:  # fmt: skip
    """Return attention: values weighted by the softmax over keys of `scale * q @ k.T`, capped, biased and masked.

    Scores go through `soft_cap * tanh(score / soft_cap)`, the bias is added, the mask hides. Sums are float32.
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
    cap = cap_of("attention", "soft_cap", soft_cap)
    if scale is None:
        scale = max(1, q.shape[3]) ** -0.5
    elif not isinstance(scale, float | int):
        refuse("attention", "scale", said(scale), "a finite number, or None")
    of_heads("attention", "sinks", sinks, q.shape[1])
    of_heads("attention", "alibi", alibi, q.shape[1])
    out: T
    lse: T
    out, lse = forward(q, k, v, ranges, sinks, alibi, float(scale), cap)
    return (out, lse) if return_lse else out


def ranges_of(mask: object, q: T, k: T) -> T | None:
    """Return a mask as (1 or batch, 1 or heads, rows, ranges, 2) int32 on q's device; None where all is seen."""
    if mask is None or isinstance(mask, masks.Full):
        return None
    rows, keys = q.shape[2], k.shape[2]
    if isinstance(mask, T) and mask.dtype is torch.bool:
        if mask.dim() not in (2, 3) or mask.shape[-2:] != (rows, keys):
            wanted = f"({rows}, {keys}), or one such for each head"
            refuse("attention", "mask", f"of shape {tuple(mask.shape)}", wanted)
        mask = masks.Dense(mask)
    kept = isinstance(mask, masks.Mask) and mask.by_value
    if isinstance(mask, masks.Mask):
        ranges = mask.ranges(rows, keys, q.device)
    elif isinstance(mask, T) and mask.dtype is torch.int32 and 3 <= mask.dim() <= 5:
        ranges = mask
    else:
        given = f"{mask.dtype} of shape {tuple(mask.shape)}" if isinstance(mask, T) else said(mask)
        refuse(
            "attention", "mask", given, "a spec of attention.masks, ranges of int32, a bool tensor, or None"
        )
    ranges = ranges if ranges.is_cpu and q.is_cpu else ranges.to(q.device)
    ranges = ranges if ranges.dim() == 5 else ranges[(None,) * (5 - ranges.dim())]
    return fixed(ranges) if kept else ranges


@checked
def varlen(
    q: T, k: T, v: T, q_starts: T, k_starts: T, *, causal: bool = False, window: int | None = None,
    scale: float | None = None, soft_cap: float | None = None, sinks: T | None = None,
) -> T:  # fmt: skip
    """Return attention of sequences that lie one after another, each to its own keys.

    Args:
        q: (tokens, heads, inner), as for `attention`.
        k: (keys, kv heads, inner).
        v: (keys, kv heads, columns).
        q_starts: (sequences + 1,) int32 or int64: where each sequence's queries begin, and the end.
        k_starts: The same of keys.
        causal: Whether a query sees no key after it; the last query of a sequence stands at its last key.
        window: Keys at most this far away are seen; None for all.
        scale: What scores are multiplied by; 1 / sqrt(inner) by default.
        soft_cap: Scores are kept within it; None for no cap.
        sinks: (heads,) float32, as for `attention`.

    Returns:
        (tokens, heads, columns) of q's dtype, with gradients as `attention` has.

    Raises:
        ArgumentError: an argument does not fit.

    Example:
        >>> x, starts = torch.randn(5, 2, 8), torch.tensor([0, 2, 5])
        >>> out = varlen(x, x, x, starts, starts)
        >>> torch.allclose(out[:2], varlen(x[:2], x[:2], x[:2], starts[:2], starts[:2]), atol=1e-6)
        True
    """
    for name, x in (("q", q), ("k", k), ("v", v)):
        if not isinstance(x, T):
            refuse("attention.varlen", name, f"a {type(x).__name__}", "a tensor")
        if x.dim() != 3:
            refuse("attention.varlen", name, f"of shape {tuple(x.shape)}", "(tokens, heads, columns)")
    _check_starts("q_starts", q_starts, len(q))
    _check_starts("k_starts", k_starts, len(k))
    if len(q_starts) != len(k_starts):
        refuse(
            "attention.varlen", "k_starts", f"of {len(k_starts)} places", f"{len(q_starts)}, as q_starts has"
        )
    if window is not None and (not isinstance(window, int) or isinstance(window, bool) or window < 0):
        refuse("attention.varlen", "window", said(window), "a whole number from 0, or None")
    begins, ends = k_starts[:-1].long(), k_starts[1:].long()
    place = torch.arange(len(q), device=q_starts.device)
    at = torch.searchsorted(q_starts[1:].long(), place, right=True)
    position = ends[at] + place - q_starts[1:].long()[at]  # among keys
    low, high = begins[at], ends[at]
    if causal:
        high = torch.minimum(high, position + 1)
    if window is not None:
        low, high = torch.maximum(low, position - window), torch.minimum(high, position + window + 1)
    ranges = torch.stack((low, high), -1).to(torch.int32)[:, None]
    mine, keys, values = (t.transpose(0, 1)[None] for t in (q, k, v))
    out = attention(mine, keys, values, ranges, scale=scale, soft_cap=soft_cap, sinks=sinks)
    return out[0].transpose(0, 1)


def _check_starts(argument: str, starts: object, most: int) -> None:
    if not isinstance(starts, T):
        refuse("attention.varlen", argument, f"a {type(starts).__name__}", "a tensor of whole numbers")
    if starts.dim() != 1 or not len(starts) or starts.dtype not in (torch.int32, torch.int64):
        given = f"of shape {tuple(starts.shape)}, {starts.dtype}"
        refuse("attention.varlen", argument, given, "(sequences + 1,), torch.int32 or torch.int64")
    if torch.compiler.is_compiling() or starts.device.type == "meta":
        return
    places = starts.tolist()
    if places[0] != 0 or places[-1] != most or any(a > b for a, b in pairwise(places)):
        refuse("attention.varlen", argument, f"{places}", f"places that rise from 0 to {most}")
