"""Rotary position embedding of queries and keys in one call: halves or neighbours, of whole heads or their beginnings.

| function | what it computes |
|---|---|
| `rope(q, k, cos, sin)` | q and k, pairs of elements turned by the angles of their positions |

The gradient is the same op, turned back. Tensors may be views, as those of one projection are; they are not copied.
"""

from pathlib import Path
from typing import Any

import torch

from .._core import Kernel, Op, checked, cpu_only, floats, refuse, remembered
from . import reference

__all__ = ["KERNEL", "rope"]

KERNEL = Kernel(Path(__file__).with_name("kernel.cpp"))
"""The library of this family."""
_Tensor = torch.Tensor
_NAME = "rope.rope"


def _check(
    q: _Tensor,
    k: _Tensor,
    cos: _Tensor,
    sin: _Tensor,
    positions: _Tensor | None,
    interleaved: bool,  # noqa: ARG001
    heads_first: bool,
    inverse: bool,  # noqa: ARG001
) -> None:
    heads, length = (1, 2) if heads_first else (2, 1)
    for name, x in (("q", q), ("k", k)):
        floats(_NAME, name, x)
        if x.dim() != 4:
            order = "heads, length" if heads_first else "length, heads"
            refuse(_NAME, name, f"of shape {tuple(x.shape)}", f"(batch, {order}, size)")
    like = list(q.shape)
    like[heads] = k.shape[heads]
    if k.shape != tuple(like) or k.dtype is not q.dtype:
        refuse(
            _NAME,
            "k",
            f"of shape {tuple(k.shape)}, {k.dtype}",
            f"{tuple(like)}, {q.dtype}, as q but for its heads",
        )
    for name, x in (("cos", cos), ("sin", sin)):
        floats(_NAME, name, x)
    if cos.dim() != 2 or 2 * cos.shape[1] > q.shape[3]:
        refuse(
            _NAME,
            "cos",
            f"of shape {tuple(cos.shape)}",
            f"(positions, at most {q.shape[3] // 2}), half of a head",
        )
    if sin.shape != cos.shape or sin.dtype is not cos.dtype:
        refuse(
            _NAME,
            "sin",
            f"of shape {tuple(sin.shape)}, {sin.dtype}",
            f"{tuple(cos.shape)}, {cos.dtype}, as cos is",
        )
    if positions is None:
        if q.shape[length] > cos.shape[0]:
            refuse(
                _NAME,
                "cos",
                f"of {cos.shape[0]} rows",
                f"{q.shape[length]}, a row for each position, or positions",
            )
    elif positions.shape != (q.shape[0], q.shape[length]) or positions.dtype is not torch.int64:
        refuse(
            _NAME,
            "positions",
            f"of shape {tuple(positions.shape)}, {positions.dtype}",
            f"({q.shape[0]}, {q.shape[length]}), torch.int64",
        )


def _serves(
    q: _Tensor, k: _Tensor, cos: _Tensor, sin: _Tensor, positions: _Tensor | None, *_: bool
) -> str | None:
    if q.dtype is not torch.float32 and q.dtype is not torch.bfloat16:
        return f"q is of {q.dtype}, and the kernel takes float32 and bfloat16"
    if cos.dtype is not torch.float32 and cos.dtype is not torch.bfloat16:
        return f"cos is of {cos.dtype}, and the kernel takes float32 and bfloat16"
    if (q.shape[3] > 1 and q.stride(3) != 1) or (k.shape[3] > 1 and k.stride(3) != 1):
        return "the elements of a head are not side by side"
    if not (cos.is_contiguous() and sin.is_contiguous() and (positions is None or positions.is_contiguous())):
        return "cos, sin or positions are not contiguous"
    return cpu_only(q, k, cos, sin, positions)


def _outputs(q: _Tensor, k: _Tensor, *_: Any) -> tuple[_Tensor, _Tensor]:
    return q.new_empty(q.shape), k.new_empty(k.shape)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:  # noqa: ARG001
    _, _, cos, sin, positions, *ctx.how = inputs
    ctx.save_for_backward(cos, sin, positions)


def _gradient(ctx: Any, gq: _Tensor, gk: _Tensor) -> tuple[Any, ...]:
    interleaved, heads_first, inverse = ctx.how
    turned = _rope(gq, gk, *ctx.saved_tensors, interleaved, heads_first, not inverse)
    return *turned, None, None, None, None, None, None


_rope = Op(
    "rope(Tensor q, Tensor k, Tensor cos, Tensor sin, Tensor? positions, bool interleaved, bool heads_first,"
    " bool inverse) -> (Tensor, Tensor)",
    reference=reference.rope, kernel=KERNEL, outputs=_outputs, check=_check, serves=_serves,
    gradient=(_keep, _gradient),
)  # fmt: skip


@remembered
@checked
def rope(
    q: _Tensor,
    k: _Tensor,
    cos: _Tensor,
    sin: _Tensor,
    *,
    positions: _Tensor | None = None,
    interleaved: bool = False,
    heads_first: bool = False,
) -> tuple[_Tensor, _Tensor]:
    """Return q and k, pairs of elements of each head turned by the angles of their positions.

    Args:
        q: (batch, length, heads, size) float32 or bfloat16, any view whose last axis is contiguous; other floats run
            the reference.
        k: As q, but for the number of heads.
        cos: (positions, pairs) float32 or bfloat16, `2 * pairs <= size`: elements beyond `2 * pairs` stay.
        sin: As cos.
        positions: (batch, length) int64, rows of cos and sin; 0, 1, 2, ... if none.
        interleaved: Pairs are neighbours, (0, 1), (2, 3), ...; else elements of the two halves, (0, pairs), ...
        heads_first: q and k are (batch, heads, length, size).

    Returns:
        Two, of the shapes and the dtype of q and k, contiguous. No gradient flows to cos and sin.

    Raises:
        ArgumentError: shapes or dtypes do not fit.
        ValueError: cos has no row of a position.

    Example:
        >>> quarter = torch.tensor([[0.0]]), torch.tensor([[1.0]])
        >>> q, k = rope(torch.tensor([[[[2.0, 1.0]]]]), torch.tensor([[[[0.0, 5.0]]]]), *quarter)
        >>> q.tolist(), k.tolist()
        ([[[[-1.0, 2.0]]]], [[[[-5.0, 0.0]]]])
    """
    turned: tuple[_Tensor, _Tensor] = _rope(q, k, cos, sin, positions, interleaved, heads_first, False)
    return turned
