"""The public function, and how its gradient is taken."""

import math
from typing import Any, Literal

import torch
from torch.autograd.function import once_differentiable

from .._core import cap_of, checked, last, refuse, starts_with_one
from ._ops import gradients, losses

_NAME = "loss.linear_cross_entropy"
_REDUCTIONS = ("mean", "sum", "none")
Gradients = tuple[torch.Tensor | None, ...]


class _Reduced(torch.autograd.Function):
    """A mean or a sum: the gradients come with the losses, as each row's share in the result is known."""

    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any, target: Any, bias: Any, scale: Any, *settings: Any) -> Any:
        each, dx, dw, db = gradients(x.detach(), weight.detach(), target, bias, *settings, scale)
        ctx.save_for_backward(dx, dw, None if bias is None else db.to(bias.dtype))
        return (each * scale).sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *outer: torch.Tensor) -> Gradients:
        found = ctx.saved_tensors
        if not starts_with_one(outer[0]):
            found = tuple(t if t is None else t * outer[0].to(t.dtype) for t in found)
        dx, dw, db = found
        return dx, dw, None, db, *[None] * 5


class _Each(torch.autograd.Function):
    """A loss a row: the gradients follow once the share of each is known, from logits that are computed again."""

    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any, target: Any, bias: Any, *settings: Any) -> Any:
        ctx.save_for_backward(x, weight, target, bias)
        ctx.settings = settings
        return losses(x.detach(), weight.detach(), target, bias, *settings)

    @staticmethod
    def backward(ctx: Any, *outer: torch.Tensor) -> Gradients:
        x, weight, target, bias = ctx.saved_tensors
        scale = outer[0].contiguous()
        _, dx, dw, db = gradients(x.detach(), weight.detach(), target, bias, *ctx.settings, scale)
        found = dx, dw, None, None if bias is None else db.to(bias.dtype)
        return *last(_NAME, found, (x, weight, bias, scale)), *[None] * 4


@checked
def linear_cross_entropy(
    x: torch.Tensor,
    weight: torch.Tensor,
    target: torch.Tensor,
    bias: torch.Tensor | None = None,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    softcap: float | None = None,
    reduction: Literal["mean", "sum", "none"] = "mean",
) -> torch.Tensor:
    """Return the cross-entropy of `F.linear(x, weight, bias)`, whose logits are never stored whole.

    The same as `F.cross_entropy(F.linear(x, weight, bias), target, ...)` in float32 arithmetic, with gradients in x,
    weight and bias. Logits of 256 rows are held at a time for gradients, and none without. With a mean or a sum the
    gradients are computed along with the loss: a forward pass whose gradient nobody asks for belongs under
    `torch.no_grad()`. There are no second derivatives.

    Args:
        x: (rows, columns) float32, bfloat16 or float16; float64 runs the reference.
        weight: (vocabulary, columns), of x's dtype.
        target: (rows,) int64, in [0, vocabulary) or `ignore_index`.
        bias: (vocabulary,) floats; the kernel takes float32.
        ignore_index: Rows with this target have no loss, and do not count in a mean.
        label_smoothing: Share of the target that is spread evenly over the vocabulary.
        z_loss: Weight of the squared log-sum-exp of each row's logits, which keeps logits from drifting.
        softcap: Logits z become `softcap * tanh(z / softcap)`; None for no cap.
        reduction: `mean` over rows that count (NaN if there is none), `sum`, or `none`: (rows,) losses.

    Returns:
        A float32 scalar, or (rows,) float32; float64 for float64.

    Raises:
        ArgumentError: an argument does not fit.
        IndexError: a target is no row of weight.

    Example:
        >>> x, weight, target = torch.randn(5, 8), torch.randn(100, 8), torch.arange(5)
        >>> loss = linear_cross_entropy(x, weight, target)
        >>> torch.allclose(loss, torch.nn.functional.cross_entropy(x @ weight.T, target), atol=1e-5)
        True
    """
    if reduction not in _REDUCTIONS:
        refuse(_NAME, "reduction", repr(reduction), "'mean', 'sum' or 'none'")
    settings = (ignore_index, float(label_smoothing), float(z_loss), cap_of(_NAME, "softcap", softcap))
    wanted = torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in (x, weight, bias))
    found: torch.Tensor
    if reduction == "none":
        call = _Each.apply if wanted else losses
        found = call(x, weight, target, bias, *settings)
        return found
    wide = torch.float64 if x.dtype is torch.float64 else torch.float32
    kept = (target != ignore_index).to(wide)
    scale = kept / kept.sum() if reduction == "mean" else kept
    if wanted:
        found = _Reduced.apply(x, weight, target, bias, scale, *settings)  # type: ignore[no-untyped-call]  # torch has no types for it
    else:
        found = (losses(x, weight, target, bias, *settings) * scale).sum()
    return found if len(target) or reduction == "sum" else found + math.nan  # torch's mean of no rows
