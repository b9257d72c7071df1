"""Scans: the selective scan of Mamba, Mamba-2, linear attention with decay, and the gated delta rule, forward and back.

| function | what it computes |
|---|---|
| `selective_scan(u, delta, a, b, c)` | a recurrence for each channel and state, whose decay depends on the time |
| `ssd(x, delta, a, b, c)` | Mamba-2: a matrix of state for each head, one decay for all of it |
| `linear_attention(q, k, v)` | the same with queries, keys and values, and a decay or none |
| `gated_delta_rule(q, k, v, beta)` | a state that forgets what a key held before it takes the new value |

All return the results and the state after the last row, from which the next call goes on: a row at a time, or many.
States, decays and what is summed are float32. Tensors that are not contiguous are copied first.
"""

from typing import Any

import torch

from .._core import checked, floats, refuse, remembered, told
from . import _ops
from ._ops import KERNEL

__all__ = ["KERNEL", "gated_delta_rule", "linear_attention", "selective_scan", "ssd"]

_Tensor = torch.Tensor
_Maybe = torch.Tensor | None
_Found = tuple[torch.Tensor, torch.Tensor]


def _packed(*tensors: Any) -> list[Any]:
    """Return tensors, or contiguous copies; what is no tensor goes to the check."""
    return [x.contiguous() if isinstance(x, torch.Tensor) else x for x in tensors]


@remembered
@checked
def selective_scan(
    u: _Tensor, delta: _Tensor, a: _Tensor, b: _Tensor, c: _Tensor, *, d: _Maybe = None, state: _Maybe = None
) -> _Found:
    """Return `y[t] = c[t] . h[t] + d u[t]` with `h[t] = exp(delta[t] a) h[t - 1] + delta[t] u[t] b[t]`, and the last h.

    Args:
        u: (batch, length, channels) float32 or bfloat16; other floats run the reference.
        delta: As u: the sizes of steps, after softplus.
        a: (channels, states) float32, below zero where states are to fade.
        b: (batch, length, states), of u's dtype.
        c: As b.
        d: (channels,) float32; 0 if none.
        state: (batch, channels, states) float32: h before the first time; 0 if none.

    Returns:
        y, as u, and the state after the last time, as `state`.

    Raises:
        ArgumentError: shapes or dtypes do not fit.

    Example:
        >>> one = torch.ones(1, 3, 1)
        >>> y, state = selective_scan(one, one, torch.zeros(1, 1), one, one)
        >>> y.flatten().tolist(), state.item()
        ([1.0, 2.0, 3.0], 3.0)
    """
    found: _Found = _ops.selective(*_packed(u, delta, a, b, c, d, state))
    return found


@remembered
@checked
def linear_attention(
    q: _Tensor, k: _Tensor, v: _Tensor, *, decay: _Maybe = None, state: _Maybe = None, scale: float = 1.0
) -> _Found:
    """Return `scale q[t] . s[t]` with `s[t] = exp(decay[t]) s[t - 1] + k[t] (x) v[t]`, and the last s.

    Args:
        q: (batch, groups, length, inner) float32 or bfloat16; other floats run the reference.
        k: As q.
        v: (batch, heads, length, columns), of q's dtype; as many neighbouring heads as `heads / groups` share q and k.
        decay: (batch, heads, length) float32, logarithms, 0 or less; none keeps all.
        state: (batch, heads, inner, columns) float32: s before the first row; 0 if none.
        scale: Times every result.

    Returns:
        The results, as v, and the state after the last row, as `state`.

    Raises:
        ArgumentError: shapes or dtypes do not fit.

    Example:
        >>> one = torch.ones(1, 1, 3, 1)
        >>> out, state = linear_attention(one, one, one, decay=torch.full((1, 1, 3), 0.5).log())
        >>> [round(x, 4) for x in out.flatten().tolist()]
        [1.0, 1.5, 1.75]
    """
    found: _Found = _ops.linear(*_packed(q, k, v, decay, state), scale)
    return found


@checked
def ssd(
    x: _Tensor, delta: _Tensor, a: _Tensor, b: _Tensor, c: _Tensor, *, d: _Maybe = None, state: _Maybe = None
) -> _Found:
    """Return Mamba-2's `c[t] . h[t] + d x[t]` and the last h.

    A state is `h[t] = exp(delta[t] a) h[t - 1] + delta[t] b[t] (x) x[t]`, a matrix for each head.

    Args:
        x: (batch, length, heads, columns) float32 or bfloat16; other floats run the reference.
        delta: (batch, length, heads) float32: the sizes of steps, after softplus.
        a: (heads,) float32, below zero.
        b: (batch, length, groups, states), of x's dtype; `heads / groups` neighbouring heads share it.
        c: As b.
        d: (heads,) float32; 0 if none.
        state: (batch, heads, states, columns) float32; 0 if none.

    Returns:
        The results, as x, and the state after the last row, as `state`.

    Raises:
        ArgumentError: shapes or dtypes do not fit.

    Example:
        >>> x = torch.ones(1, 3, 1, 1)
        >>> y, state = ssd(x, torch.ones(1, 3, 1), torch.zeros(1), x, x)
        >>> y.flatten().tolist()
        [1.0, 2.0, 3.0]
    """
    op = "scan.ssd"
    for name, one, axes, words in (
        ("x", x, 4, "(batch, length, heads, columns)"), ("delta", delta, 3, "(batch, length, heads)"),
        ("a", a, 1, "(heads,)"), ("b", b, 4, "(batch, length, groups, states)"), ("c", c, 4, "as b"),
        *([] if d is None else [("d", d, 1, "(heads,)")]),
    ):  # fmt: skip
        floats(op, name, one)
        if one.dim() != axes:
            refuse(op, name, told(one), words)
    if delta.shape != x.shape[:3] or a.shape != x.shape[2:3] or (d is not None and d.shape != a.shape):
        refuse(
            op,
            "delta, a or d",
            f"{told(delta)}, {told(a)}",
            f"{tuple(x.shape[:3])} and {tuple(x.shape[2:3])}, as x is",
        )
    for name, one in (("delta", delta), ("a", a), *([] if d is None else [("d", d)])):
        if one.dtype is not torch.promote_types(x.dtype, torch.float32):
            refuse(op, name, told(one), f"of {torch.promote_types(x.dtype, torch.float32)}")
    groups = b.shape[2]
    if b.shape[:2] != x.shape[:2] or not groups or x.shape[2] % groups or b.dtype is not x.dtype:
        refuse(op, "b", told(b), f"{tuple(x.shape[:2])}, a divisor of {x.shape[2]} heads, states; {x.dtype}")
    if c.shape != b.shape or c.dtype is not b.dtype:
        refuse(op, "c", told(c), f"{tuple(b.shape)}, {b.dtype}, as b")
    scaled = (x * delta[..., None]).to(x.dtype)
    turned = [one.transpose(1, 2) for one in (c, b, scaled)]
    decay = (delta * a).transpose(1, 2)
    rows, after = linear_attention(*turned, decay=decay, state=state)
    y = rows.transpose(1, 2)
    return (y if d is None else (y + d[:, None] * x).to(x.dtype)), after


@remembered
@checked
def gated_delta_rule(
    q: _Tensor, k: _Tensor, v: _Tensor, beta: _Tensor, *, decay: _Maybe = None, state: _Maybe = None,
    scale: float = 1.0,
) -> _Found:  # fmt: skip
    """Return `scale q[t] . s[t]` and the last s, of a state in which a key's new value takes the place of its old one.

    A state is `s[t] = r + k[t] (x) beta[t] (v[t] - k[t] . r)`, where `r = exp(decay[t]) s[t - 1]`.

    Args:
        q: (batch, groups, length, inner) float32 or bfloat16; other floats run the reference.
        k: As q, rows of length 1 as a rule: the rule is stable where `beta k . k` is between 0 and 2.
        v: (batch, heads, length, columns), of q's dtype; as many neighbouring heads as `heads / groups` share q and k.
        beta: (batch, heads, length) float32: how much of the old value of a key gives way to the new.
        decay: (batch, heads, length) float32, logarithms, 0 or less; none keeps all.
        state: (batch, heads, inner, columns) float32: s before the first row; 0 if none.
        scale: Times every result.

    Returns:
        The results, as v, and the state after the last row, as `state`. The gradient is that of the recurrence, step by
        step in torch: it is right, and slow.

    Raises:
        ArgumentError: shapes or dtypes do not fit.

    Example:
        >>> one = torch.ones(1, 1, 2, 1)
        >>> values = torch.tensor([3.0, 5.0]).view(1, 1, 2, 1)
        >>> out, state = gated_delta_rule(one, one, values, torch.ones(1, 1, 2))
        >>> out.flatten().tolist(), state.item()
        ([3.0, 5.0], 5.0)
    """
    found: _Found = _ops.delta(*_packed(q, k, v, beta, decay, state), scale)
    return found
