"""Norms: RMS norm, with a residual added too, layer norm, and group norm with silu; forward and backward.

| function | what it computes |
|---|---|
| `rms_norm(x, weight)` | rows over their root mean square |
| `add_rms_norm(x, residual, weight)` | the norm of a sum, and the sum, which is the next residual |
| `layer_norm(x, weight, bias)` | rows less their mean, over their deviation |
| `group_norm_silu(x, weight, bias, groups=...)` | groups of channels normed, through silu |

Sums and products are of float32, or wider; results are rounded once. A tensor that is not contiguous is copied first.
Gradients of gradients are the references'.
"""

from pathlib import Path
from typing import Any

import torch

from .._core import Kernel, Op, checked, cpu_only, floats, refuse, remembered
from . import reference

__all__ = ["KERNEL", "add_rms_norm", "group_norm_silu", "layer_norm", "rms_norm"]

KERNEL = Kernel(Path(__file__).with_name("kernel.cpp"))
"""The library of this family."""
_Tensor = torch.Tensor
_Maybe = torch.Tensor | None


def _check_scale(op: str, name: str, scale: _Tensor, size: int, unit: str) -> None:
    floats(op, name, scale)
    if scale.shape != (size,):
        refuse(op, name, f"of shape {tuple(scale.shape)}", f"({size},), as x has {unit}")


def _columns(op: str, x: _Tensor) -> int:
    floats(op, "x", x)
    if not x.dim():
        refuse(op, "x", "of no dimensions", "at least one")
    return x.shape[-1]


def _check_like(op: str, name: str, other: _Tensor, x: _Tensor) -> None:
    floats(op, name, other)
    if other.shape != x.shape or other.dtype is not x.dtype:
        refuse(
            op, name, f"of shape {tuple(other.shape)}, {other.dtype}", f"{tuple(x.shape)}, {x.dtype}, as x is"
        )


def _check_rms(x: _Tensor, weight: _Maybe, *_: float) -> None:
    columns = _columns("norms.rms_norm", x)
    if weight is not None:
        _check_scale("norms.rms_norm", "weight", weight, columns, "columns")


def _check_add_rms(x: _Tensor, residual: _Tensor, weight: _Maybe, *_: float) -> None:
    columns = _columns("norms.add_rms_norm", x)
    if weight is not None:
        _check_scale("norms.add_rms_norm", "weight", weight, columns, "columns")
    _check_like("norms.add_rms_norm", "residual", residual, x)


def _check_layer(x: _Tensor, weight: _Maybe, bias: _Maybe, *_: float) -> None:
    columns = _columns("norms.layer_norm", x)
    if weight is not None:
        _check_scale("norms.layer_norm", "weight", weight, columns, "columns")
    if bias is not None:
        _check_scale("norms.layer_norm", "bias", bias, columns, "columns")


def _check_group(x: _Tensor, weight: _Maybe, bias: _Maybe, groups: int, *_: Any) -> None:
    op = "norms.group_norm_silu"
    floats(op, "x", x)
    if x.dim() < 2:
        refuse(op, "x", f"of shape {tuple(x.shape)}", "(items, channels, ...)")
    if groups < 1 or x.shape[1] % groups:
        refuse(op, "groups", groups, f"a divisor of {x.shape[1]}, the channels of x")
    for name, scale in (("weight", weight), ("bias", bias)):
        if scale is not None:
            _check_scale(op, name, scale, x.shape[1], "channels")


def _check_rms_gradient(
    g: _Tensor, x: _Tensor, weight: _Maybe, extra: _Maybe, eps: float, offset: float
) -> None:
    _check_rms(x, weight, eps, offset)
    _check_like("norms.rms_norm_backward", "g", g, x)
    if extra is not None:
        _check_like("norms.rms_norm_backward", "extra", extra, x)


def _check_layer_gradient(g: _Tensor, x: _Tensor, weight: _Maybe, bias: _Maybe, eps: float) -> None:
    _check_layer(x, weight, bias, eps)
    _check_like("norms.layer_norm_backward", "g", g, x)


def _check_group_gradient(
    g: _Tensor, x: _Tensor, weight: _Maybe, bias: _Maybe, groups: int, eps: float, silu: bool
) -> None:
    _check_group(x, weight, bias, groups, eps, silu)
    _check_like("norms.group_norm_silu_backward", "g", g, x)


def _serves(*arguments: Any) -> str | None:
    """Serve contiguous float32, and bfloat16 with weights of bfloat16 or float32."""
    dtype = arguments[0].dtype
    if dtype is not torch.float32 and dtype is not torch.bfloat16:
        return f"x is of {dtype}, and the kernel takes float32 and bfloat16"
    for x in arguments:
        if isinstance(x, torch.Tensor):
            if x.dtype is not dtype and x.dtype is not torch.float32:
                return f"x is of {dtype} and a weight of {x.dtype}"
            if not x.is_contiguous():
                return "a tensor is not contiguous"
            if not x.is_cpu:
                return cpu_only(x)
    return None


def _like(x: _Tensor, *_: Any) -> _Tensor:
    return torch.empty_like(x)


def _like_two(x: _Tensor, *_: Any) -> tuple[_Tensor, _Tensor]:
    return torch.empty_like(x), torch.empty_like(x)


def _sums(x: _Tensor, like: _Maybe) -> _Tensor:
    return x.new_empty(0) if like is None else torch.empty_like(like)


def _one_gradient(_: _Tensor, x: _Tensor, weight: _Maybe, *__: Any) -> tuple[_Tensor, _Tensor]:
    return torch.empty_like(x), _sums(x, weight)


def _two_gradients(
    _: _Tensor, x: _Tensor, weight: _Maybe, bias: _Maybe, *__: Any
) -> tuple[_Tensor, _Tensor, _Tensor]:
    return torch.empty_like(x), _sums(x, weight), _sums(x, bias)


_rms_backward = Op(
    "rms_norm_backward(Tensor g, Tensor x, Tensor? weight, Tensor? extra, float eps, float offset) -> (Tensor, Tensor)",
    reference=reference.rms_norm_backward, kernel=KERNEL, outputs=_one_gradient, check=_check_rms_gradient,
    serves=_serves,
)  # fmt: skip
_layer_backward = Op(
    "layer_norm_backward(Tensor g, Tensor x, Tensor? weight, Tensor? bias, float eps) -> (Tensor, Tensor, Tensor)",
    reference=reference.layer_norm_backward, kernel=KERNEL, outputs=_two_gradients, check=_check_layer_gradient,
    serves=_serves,
)  # fmt: skip
_group_backward = Op(
    "group_norm_silu_backward(Tensor g, Tensor x, Tensor? weight, Tensor? bias, int groups, float eps, bool silu)"
    " -> (Tensor, Tensor, Tensor)",
    reference=reference.group_norm_silu_backward, kernel=KERNEL, outputs=_two_gradients,
    check=_check_group_gradient, serves=_serves,
)  # fmt: skip


def _backward(op: Op, *arguments: Any) -> Any:
    """Run a backward op, or where gradients of gradients are asked for its reference, which has them."""
    plain = [a.contiguous() if isinstance(a, torch.Tensor) else a for a in arguments]
    return (op.reference if torch.is_grad_enabled() else op)(*plain)


def _keep_rms(ctx: Any, inputs: tuple[Any, ...], output: _Tensor) -> None:  # noqa: ARG001
    x, weight, *ctx.rest = inputs
    ctx.save_for_backward(x, weight)


def _rms_gradient(ctx: Any, g: _Tensor) -> tuple[Any, ...]:
    x, weight = ctx.saved_tensors
    dx, dw = _backward(_rms_backward, g, x, weight, None, *ctx.rest)
    return dx, None if weight is None else dw, None, None


def _keep_add_rms(ctx: Any, inputs: tuple[Any, ...], output: tuple[_Tensor, _Tensor]) -> None:
    _, _, weight, *ctx.rest = inputs
    ctx.save_for_backward(output[1], weight)


def _add_rms_gradient(ctx: Any, g: _Tensor, extra: _Tensor) -> tuple[Any, ...]:
    summed, weight = ctx.saved_tensors
    dx, dw = _backward(_rms_backward, g, summed, weight, extra, *ctx.rest)
    return dx, dx, None if weight is None else dw, None, None


def _keep_two(ctx: Any, inputs: tuple[Any, ...], output: _Tensor) -> None:  # noqa: ARG001
    x, weight, bias, *ctx.rest = inputs
    ctx.save_for_backward(x, weight, bias)


def _two(op: Op, ctx: Any, g: _Tensor) -> tuple[Any, ...]:
    x, weight, bias = ctx.saved_tensors
    dx, dw, db = _backward(op, g, x, weight, bias, *ctx.rest)
    nothing = (None,) * len(ctx.rest)
    return dx, None if weight is None else dw, None if bias is None else db, *nothing


_rms = Op(
    "rms_norm(Tensor x, Tensor? weight, float eps, float offset) -> Tensor",
    reference=reference.rms_norm, kernel=KERNEL, outputs=_like, check=_check_rms, serves=_serves,
    gradient=(_keep_rms, _rms_gradient),
)  # fmt: skip
_add_rms = Op(
    "add_rms_norm(Tensor x, Tensor residual, Tensor? weight, float eps, float offset) -> (Tensor, Tensor)",
    reference=reference.add_rms_norm, kernel=KERNEL, outputs=_like_two, check=_check_add_rms, serves=_serves,
    gradient=(_keep_add_rms, _add_rms_gradient),
)  # fmt: skip
_layer = Op(
    "layer_norm(Tensor x, Tensor? weight, Tensor? bias, float eps) -> Tensor",
    reference=reference.layer_norm, kernel=KERNEL, outputs=_like, check=_check_layer, serves=_serves,
    gradient=(_keep_two, lambda ctx, g: _two(_layer_backward, ctx, g)),
)  # fmt: skip
_group = Op(
    "group_norm_silu(Tensor x, Tensor? weight, Tensor? bias, int groups, float eps, bool silu) -> Tensor",
    reference=reference.group_norm_silu, kernel=KERNEL, outputs=_like, check=_check_group, serves=_serves,
    gradient=(_keep_two, lambda ctx, g: _two(_group_backward, ctx, g)),
)  # fmt: skip


def _rows(x: _Tensor) -> _Tensor:
    """Return x, or a copy whose rows lie one after another; what is no tensor goes to the check."""
    return x.contiguous() if isinstance(x, torch.Tensor) else x


@remembered
@checked
def rms_norm(x: _Tensor, weight: _Maybe = None, *, eps: float = 1e-6, offset: float = 0.0) -> _Tensor:
    """Return rows over their root mean square: `x / sqrt(mean(x²) + eps) * (weight + offset)`.

    Args:
        x: (..., columns) float32 or bfloat16; other floats run the reference.
        weight: (columns,), of x's dtype or float32; 1 if none.
        eps: Keeps rows of zeros finite.
        offset: Added to the weight: 1 for Gemma.

    Returns:
        (..., columns), of x's dtype.

    Raises:
        ArgumentError: shapes or dtypes do not fit.

    Example:
        >>> rms_norm(torch.tensor([[4.0, -4.0]]), torch.tensor([1.0, 2.0]), eps=0.0).tolist()
        [[1.0, -2.0]]
    """
    normed: _Tensor = _rms(_rows(x), weight, eps, offset)
    return normed


@remembered
@checked
def add_rms_norm(
    x: _Tensor, residual: _Tensor, weight: _Maybe = None, *, eps: float = 1e-6, offset: float = 0.0
) -> tuple[_Tensor, _Tensor]:
    """Return the RMS norm of `x + residual`, and `x + residual` as it was rounded.

    Args:
        x: (..., columns) float32 or bfloat16; other floats run the reference.
        residual: As x.
        weight: (columns,), of x's dtype or float32; 1 if none.
        eps: Keeps rows of zeros finite.
        offset: Added to the weight.

    Returns:
        Two of (..., columns), of x's dtype: the norm, and the sum.

    Raises:
        ArgumentError: shapes or dtypes do not fit.

    Example:
        >>> normed, residual = add_rms_norm(torch.tensor([[3.0, -3.0]]), torch.tensor([[1.0, -1.0]]), eps=0.0)
        >>> normed.tolist(), residual.tolist()
        ([[1.0, -1.0]], [[4.0, -4.0]])
    """
    found: tuple[_Tensor, _Tensor] = _add_rms(_rows(x), _rows(residual), weight, eps, offset)
    return found


@remembered
@checked
def layer_norm(x: _Tensor, weight: _Maybe = None, bias: _Maybe = None, *, eps: float = 1e-5) -> _Tensor:
    """Return rows less their mean, over their deviation, times the weight, plus the bias.

    Args:
        x: (..., columns) float32 or bfloat16; other floats run the reference.
        weight: (columns,), of x's dtype or float32; 1 if none.
        bias: (columns,), of x's dtype or float32; 0 if none.
        eps: Added to the variance.

    Returns:
        (..., columns), of x's dtype.

    Raises:
        ArgumentError: shapes or dtypes do not fit.

    Example:
        >>> layer_norm(torch.tensor([[1.0, 3.0]]), eps=0.0).tolist()
        [[-1.0, 1.0]]
    """
    normed: _Tensor = _layer(_rows(x), weight, bias, eps)
    return normed


@remembered
@checked
def group_norm_silu(
    x: _Tensor,
    weight: _Maybe = None,
    bias: _Maybe = None,
    *,
    groups: int,
    eps: float = 1e-5,
    silu: bool = True,
) -> _Tensor:
    """Return groups of channels less their mean, over their deviation, scaled by channel, through silu.

    Args:
        x: (items, channels, ...) float32 or bfloat16; other floats run the reference.
        weight: (channels,), of x's dtype or float32; 1 if none.
        bias: (channels,), of x's dtype or float32; 0 if none.
        groups: Into how many the channels are split; a divisor of them.
        eps: Added to the variance.
        silu: Whether the result goes through silu, `y * sigmoid(y)`.

    Returns:
        As x.

    Raises:
        ArgumentError: shapes or dtypes do not fit.

    Example:
        >>> group_norm_silu(torch.tensor([[1.0, 3.0]]), groups=1, eps=0.0, silu=False).tolist()
        [[-1.0, 1.0]]
    """
    normed: _Tensor = _group(_rows(x), weight, bias, groups, eps, silu)
    return normed
