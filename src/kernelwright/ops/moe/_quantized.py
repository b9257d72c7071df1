"""Experts in codes of 1 to 8 bits: the rows of each go through the products of `lowbit`."""

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import torch

from .. import activations as gated
from .. import lowbit
from .._core import checked, floats, refuse, told
from . import reference
from ._packed import check_chosen

T = torch.Tensor


@dataclass(frozen=True)
class QuantizedExperts:
    """The weights of a layer of experts, in codes."""

    by_fields: ClassVar = ("ups", "downs", "shared")
    ups: tuple[lowbit.PackedWeight, ...]
    """Of each expert (2 * width, hidden), the gate's rows first."""
    downs: tuple[lowbit.PackedWeight, ...]
    """Of each expert (hidden, width)."""
    shared: tuple[lowbit.PackedWeight, lowbit.PackedWeight] | None = None
    """The same of an expert that every token has, with weight 1."""

    @property
    def nbytes(self) -> int:
        """Bytes of codes, scales, zero points and minima."""
        weights = (*self.ups, *self.downs, *(self.shared or ()))
        held = (t for w in weights for t in (w.codes, w.scales, w.zeros, w.minima) if t is not None)
        return sum(t.nbytes for t in held)


@checked
def quantize(
    gates_and_ups: T, downs: T, *, bits: int | None = None, group: int = 32, kind: str = "int",
    symmetric: bool = True, shared: tuple[T, T] | None = None,
) -> QuantizedExperts:  # fmt: skip
    """Quantise a layer of experts to the nearest codes.

    Args:
        gates_and_ups: (experts, 2 * width, hidden), the gate's rows first.
        downs: (experts, hidden, width).
        bits: Of a code, as for `lowbit.pack`; so are `group`, `kind` and `symmetric`.
        group: Columns of a scale.
        kind: What codes are.
        symmetric: Whether there are no zero points.
        shared: One expert that every token has: (2 * any width, hidden) and (hidden, any width).

    Raises:
        ArgumentError: shapes do not fit, or as `lowbit.pack` raises.

    Example:
        >>> quantize(torch.randn(4, 64, 32), torch.randn(4, 32, 32), bits=4).nbytes
        9216
    """
    op = "moe.quantize"
    if gates_and_ups.dim() != 3 or gates_and_ups.shape[1] % 2 or not gates_and_ups.numel():
        refuse(op, "gates_and_ups", told(gates_and_ups), "(experts, 2 * width, hidden), none of them zero")
    experts, double, hidden = gates_and_ups.shape
    if downs.shape != (experts, hidden, double // 2):
        refuse(op, "downs", told(downs), f"of shape {(experts, hidden, double // 2)}")
    if shared is not None:
        both, down = shared
        if both.dim() != 2 or not len(both) or both.shape[0] % 2 or both.shape[1] != hidden:
            refuse(op, "shared", told(both), f"(2 * any width, {hidden}), and ({hidden}, that width)")
        if down.shape != (hidden, len(both) // 2):
            refuse(op, "shared", told(down), f"of shape {(hidden, len(both) // 2)} behind")

    for name, weights in (("gates_and_ups", (gates_and_ups,)), ("downs", (downs,)), ("shared", shared or ())):
        for weight in weights:
            floats(op, name, weight)
            if not bool(weight.float().isfinite().all()):
                refuse(op, name, "not finite everywhere", "numbers, which codes can be near")
            if kind == "uint" and symmetric and bool((weight < 0).any()):
                refuse(op, name, "below zero somewhere", "none, or kind='int' or symmetric=False")

    def packed(weight: T) -> lowbit.PackedWeight:
        return lowbit.pack(weight, bits, group, kind, symmetric)

    return QuantizedExperts(
        tuple(map(packed, gates_and_ups)),
        tuple(map(packed, downs)),
        None if shared is None else (packed(shared[0]), packed(shared[1])),
    )


@checked
def quantized_experts(x: T, packed: QuantizedExperts, weights: T, ids: T, *, activations: str = "float") -> T:
    """Run a layer of quantised experts: for each token the weighted sum of what its experts make of it.

    Args:
        x: (tokens, hidden) float32 or bfloat16.
        packed: The experts, as `quantize` makes them.
        weights: (tokens, chosen) float32, or float64 where x is.
        ids: (tokens, chosen) int64; entries that are no expert's, such as -1, add nothing.
        activations: What multiplies codes, as for `lowbit.linear`.

    Returns:
        (tokens, hidden) of x's dtype, sums of float32. It has gradients by x and the weights.

    Raises:
        ArgumentError: shapes or dtypes do not fit.

    Example:
        >>> packed = quantize(torch.randn(4, 64, 32), torch.randn(4, 32, 32), bits=4)
        >>> quantized_experts(torch.randn(5, 32), packed, torch.rand(5, 2), torch.randint(4, (5, 2))).shape
        torch.Size([5, 32])
    """
    op = "moe.quantized_experts"
    check_chosen(op, x, weights, ids)
    hidden = packed.downs[0].outputs
    if x.shape[1] != hidden:
        refuse(op, "x", told(x), f"(tokens, {hidden}), as the experts have")
    out = torch.zeros(x.shape, dtype=torch.promote_types(x.dtype, torch.float32), device=x.device)
    order, offsets = reference.plan(ids.reshape(-1), len(packed.ups))
    share = weights.reshape(-1)[order, None]

    def made(rows: T, up: lowbit.PackedWeight, down: lowbit.PackedWeight) -> T:
        between = gated.swiglu(lowbit.linear(rows, up, activations=activations))
        return lowbit.linear(between, down, activations=activations).to(out.dtype)

    for up, down, (first, last) in zip(packed.ups, packed.downs, pairwise(offsets.tolist()), strict=True):
        if first < last:
            token = order[first:last] // ids.shape[1]
            out.index_add_(0, token, made(x[token], up, down) * share[first:last])
    if packed.shared is not None:
        out += made(x, *packed.shared)
    return out.to(x.dtype)
