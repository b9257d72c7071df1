"""Attention in one pass over its keys, and products whose factors are rounded to half precision, as for tensor cores.

Covers: attention by torch's own operator, and by a softmax that is multiplied by values.
Does not cover: dropout, and scores that something else changes between the softmax and the product.
"""

from typing import Any

import torch
from torch import Tensor

from kernelwright.tasks.numerics._evaluation import Arithmetic, Evaluation, in_dtype
from kernelwright.tasks.numerics._summation_error import MATRICES

_KEYS = 16
"""Keys that are taken at a time."""


class Narrowing(Evaluation):
    """An evaluation that may round some values to the dtype that the problem declares, where that is half precision."""

    declared = torch.float32

    def narrowed(self, x: Tensor) -> Tensor:
        """Round to the declared dtype and back, unless that overflows."""
        return in_dtype(x, self.declared)


class HalfFactors(Narrowing):
    """Round the factors of products and convolutions to the declared dtype, and add up in float32."""

    def replaced(self, name: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Compute what multiplies; in float32 there is nothing to round."""
        first = 0 if name == "convolution" else MATRICES.get(name)
        if self.declared is torch.float32 or first is None:
            return super().replaced(name, func, args, kwargs)
        factors = [self.narrowed(a) for a in args[first : first + 2]]
        return func(*args[:first], *factors, *args[first + 2 :], **kwargs)


class Flash(Narrowing):
    """Rescale what was added up so far whenever a larger score comes, and divide by the sum at the end.

    Weights are rounded to the declared dtype before they are multiplied by values, as a tensor core takes them.
    Source: Dao, FlashAttention-2 (2023), algorithm 1.
    """

    def __init__(self) -> None:
        super().__init__(Arithmetic())
        self._softmax: tuple[Tensor, Tensor, int] | None = None
        """The last softmax over a last axis: weights, scores and the weights' version."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run the operator, and remember what a softmax over a last axis was of."""
        result = super().__torch_dispatch__(func, types, args, kwargs)
        if func.overloadpacket.__name__ == "_softmax" and args[1] in (-1, args[0].dim() - 1):
            self._softmax = result, args[0].clone(), result._version
        return result

    def replaced(self, name: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Compute attention, or the product of weights that a softmax just gave."""
        if name == "_scaled_dot_product_flash_attention_for_cpu" and not (len(args) > 3 and args[3]):
            return self._attention(*args[:3], *args[4:], **kwargs)
        if name == "bmm" and self._softmax is not None and self._is_kept(args[0]):
            scores = self._softmax[1].reshape(args[0].shape)
            return self._by_keys(scores, args[1])[0]
        return super().replaced(name, func, args, kwargs)

    def _is_kept(self, left: Tensor) -> bool:
        assert self._softmax is not None
        weights, scores, version = self._softmax
        return (
            left.data_ptr() == weights.data_ptr()
            and left.numel() == weights.numel()
            and left.is_contiguous()
            and left.shape[-1] == scores.shape[-1]
            and weights._version == version
        )

    def _attention(
        self, query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, *,
        attn_mask: Tensor | None = None, scale: float | None = None,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        scores = query @ key.mT * (query.shape[-1] ** -0.5 if scale is None else scale)
        if is_causal:
            scores = scores + torch.full_like(scores, -torch.inf).triu(1)
        if attn_mask is not None:
            scores = scores + attn_mask
        output, logarithms = self._by_keys(scores, value)
        # Rows of all heads lie side by side, as the native op leaves them.
        return output.transpose(1, 2).contiguous().transpose(1, 2), logarithms.mT.contiguous().mT

    def _by_keys(self, scores: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Return the weighted values and the logarithms of the sums."""
        most = torch.full_like(scores[..., :1], -torch.inf)
        total = torch.zeros_like(most)
        added = torch.zeros((*scores.shape[:-1], values.shape[-1]))
        for part, value in zip(scores.split(_KEYS, -1), values.split(_KEYS, -2), strict=True):
            larger = torch.maximum(most, part.amax(-1, keepdim=True))
            factor = torch.where(larger == most, 1.0, (most - larger).exp())
            weights = torch.where(part == -torch.inf, 0.0, (part - larger).exp())
            total = total * factor + weights.sum(-1, keepdim=True)
            added = added * factor + self.narrowed(weights) @ value
            most = larger
        return added / total, (most + total.log()).squeeze(-1)
