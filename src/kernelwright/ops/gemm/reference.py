"""References of products with a packed right factor: torch alone."""

import torch
from torch import Tensor
from torch.nn import functional

NONE, RELU, SILU, GELU, GELU_TANH = range(5)


def curved(x: Tensor, curve: int) -> Tensor:
    """Return the activation of that number."""
    if curve == RELU:
        return x.relu()
    if curve == SILU:
        return functional.silu(x)
    if curve in (GELU, GELU_TANH):
        return functional.gelu(x, approximate="tanh" if curve == GELU_TANH else "none")
    return x


def unpacked(panels: Tensor, inner: int, columns: int) -> Tensor:
    """Return [inner, columns] of [panels, inner, 2, 16], or of [panels, steps, 32, elements of a step]."""
    if panels.shape[2:] == (2, 16):
        return panels.flatten(2).permute(1, 0, 2).flatten(1)[:, :columns]
    return panels.permute(1, 3, 0, 2).flatten(2).flatten(0, 1)[:inner, :columns]


def followed(
    sums: Tensor, bias: Tensor | None, curve: int, gate: Tensor | None, residual: Tensor | None
) -> Tensor:
    """Return curve(sums + bias) * gate + residual."""
    wide = sums.dtype
    out = curved(sums if bias is None else sums + bias.to(wide), curve)
    out = out if gate is None else out * gate.to(wide)
    return out if residual is None else out + residual.to(wide)


def matmul(
    a: Tensor,
    panels: Tensor,
    bias: Tensor | None = None,
    gate: Tensor | None = None,
    residual: Tensor | None = None,
    curve: int = 0,
    columns: int = 1,
) -> Tensor:
    """Return curve(a @ right + bias) * gate + residual, computed in float32 at least and rounded once."""
    wide = torch.promote_types(a.dtype, torch.float32)
    sums = a.to(wide) @ unpacked(panels, a.shape[1], columns).to(wide)
    return followed(sums, bias, curve, gate, residual).to(a.dtype)


def integers(
    a: Tensor,
    panels: Tensor,
    row_scale: Tensor | None = None,
    column_scale: Tensor | None = None,
    bias: Tensor | None = None,
    curve: int = 0,
    columns: int = 1,
) -> Tensor:
    """Return a @ right as int32, or curve(that * scales + bias); the panels' bytes are 128 more than they mean."""
    right = unpacked(panels, a.shape[1], columns).to(torch.int16) - 128
    exact = torch.int64 if a.device.type == "cpu" else torch.float64
    sums = a.to(exact) @ right.to(exact)
    if column_scale is None:
        return sums.to(torch.int32)
    out = sums.to(torch.promote_types(column_scale.dtype, torch.float32)) * column_scale
    return followed(out if row_scale is None else out * row_scale[:, None], bias, curve, None, None)
