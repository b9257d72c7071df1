"""Packed experts: weights as panels of 32 columns, in the order in which the kernel reads them."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from .._core import checked, matrix, refuse, told

_HALF = 16


@dataclass(frozen=True)
class Experts:
    """The weights of a layer of experts."""

    by_fields: ClassVar = ("ups", "downs", "routed", "shared")
    ups: torch.Tensor
    """(experts, panels, hidden, 2, 16): gates and ups side by side."""
    downs: torch.Tensor
    """(experts, panels, width, 2, 16)."""
    routed: int
    """Experts that tokens choose."""
    shared: int = 0
    """Experts behind them that every token has, with weight 1."""


def check_chosen(op: str, x: torch.Tensor, weights: torch.Tensor, ids: torch.Tensor) -> None:
    """Refuse tokens, and what they chose, that do not fit."""
    matrix(op, "x", x)
    if ids.dim() != 2 or len(ids) != len(x) or ids.dtype is not torch.int64:
        refuse(op, "ids", told(ids), f"({len(x)}, chosen), torch.int64")
    wide = torch.promote_types(x.dtype, torch.float32)
    if weights.shape != ids.shape or weights.dtype not in (torch.float32, wide):
        refuse(op, "weights", told(weights), f"{tuple(ids.shape)}, torch.float32")


@checked
def pack_groups(weight: torch.Tensor) -> torch.Tensor:
    """Pack weights (groups, columns, inner) for `grouped_mm`: (groups, panels, inner, 2, 16), zeros beyond the last.

    Raises:
        ArgumentError: it is no stack of matrices.

    Example:
        >>> pack_groups(torch.randn(3, 40, 8)).shape
        torch.Size([3, 2, 8, 2, 16])
    """
    if weight.dim() != 3:
        refuse("moe.pack_groups", "weight", f"of shape {tuple(weight.shape)}", "(groups, columns, inner)")
    padded = torch.nn.functional.pad(weight, (0, 0, 0, -weight.shape[1] % (2 * _HALF)))
    panels: torch.Tensor = padded.unflatten(1, (-1, 2, _HALF))  # type: ignore[no-untyped-call]  # torch does not annotate it
    return panels.permute(0, 1, 4, 2, 3).contiguous()


@checked
def pack(
    gates_and_ups: torch.Tensor,
    downs: torch.Tensor,
    *,
    shared: tuple[torch.Tensor, torch.Tensor] | None = None,
) -> Experts:
    """Pack a layer of experts.

    Args:
        gates_and_ups: (experts, 2 * width, hidden), the gate's rows first.
        downs: (experts, hidden, width).
        shared: One expert that every token has: (2 * any width, hidden) and (hidden, any width). It is cut into experts
            of the others' width, which add up to it.

    Raises:
        ArgumentError: shapes or dtypes do not fit.

    Example:
        >>> pack(torch.randn(4, 64, 48), torch.randn(4, 48, 32)).ups.shape
        torch.Size([4, 2, 48, 2, 16])
    """
    op = "moe.pack"
    if gates_and_ups.dim() != 3 or gates_and_ups.shape[1] % 2:
        refuse(op, "gates_and_ups", f"of shape {tuple(gates_and_ups.shape)}", "(experts, 2 * width, hidden)")
    routed, double, hidden = gates_and_ups.shape
    width = double // 2
    if downs.shape != (routed, hidden, width) or downs.dtype is not gates_and_ups.dtype:
        expected = f"{(routed, hidden, width)}, {gates_and_ups.dtype}"
        refuse(op, "downs", f"of shape {tuple(downs.shape)}, {downs.dtype}", expected)
    gates, ups = gates_and_ups.chunk(2, 1)
    count = 0
    if shared is not None:
        if shared[0].dim() != 2 or shared[0].shape[0] % 2 or not shared[0].shape[0]:
            refuse(op, "shared", told(shared[0]), f"(2 * any width, {hidden}), and ({hidden}, that width)")
        (one, two), down = shared[0].chunk(2, 0), shared[1]
        if not shared[0].dtype is down.dtype is gates.dtype:
            given = f"of {shared[0].dtype} and {down.dtype}"
            refuse(op, "shared", given, f"{gates.dtype}, as the experts are")
        if one.shape[1] != hidden or down.shape != (hidden, len(one)):
            refuse(
                op,
                "shared",
                f"of shapes {tuple(shared[0].shape)}, {tuple(down.shape)}",
                f"{hidden} hidden elements",
            )
        count = -(-len(one) // width)
        missing = count * width - len(one)
        pad = torch.nn.functional.pad
        gates = torch.cat((gates, pad(one, (0, 0, 0, missing)).view(count, width, hidden)))
        ups = torch.cat((ups, pad(two, (0, 0, 0, missing)).view(count, width, hidden)))
        downs = torch.cat((downs, pad(down, (0, missing)).view(hidden, count, width).transpose(0, 1)))
    missing = -width % _HALF
    both = torch.stack([torch.nn.functional.pad(w, (0, 0, 0, missing)) for w in (gates, ups)], 2)
    panels = both.unflatten(1, (-1, _HALF)).permute(0, 1, 4, 3, 2).contiguous()  # type: ignore[no-untyped-call]  # torch does not annotate it
    return Experts(panels, pack_groups(torch.nn.functional.pad(downs, (0, missing))), routed, count)
