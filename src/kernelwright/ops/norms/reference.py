"""References of norms: torch alone, in float32 or wider, rounded once."""

import torch


def _wide(x: torch.Tensor) -> torch.Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _scaled(
    normed: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None = None, offset: float = 0.0
) -> torch.Tensor:
    if weight is not None:
        normed = normed * (_wide(weight) + offset if offset else _wide(weight))
    return normed if bias is None else normed + _wide(bias)


def rms_norm(
    x: torch.Tensor, weight: torch.Tensor | None = None, eps: float = 1e-6, offset: float = 0.0
) -> torch.Tensor:
    """Return each row of x over its root mean square, times the weight and an offset of it."""
    wide = _wide(x)
    scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return _scaled(wide * scale, weight, offset=offset).to(x.dtype)


def add_rms_norm(
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor | None = None,
    eps: float = 1e-6,
    offset: float = 0.0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the norm of x + residual, and x + residual."""
    summed = x + residual
    return rms_norm(summed, weight, eps, offset), summed


def layer_norm(
    x: torch.Tensor, weight: torch.Tensor | None = None, bias: torch.Tensor | None = None, eps: float = 1e-5
) -> torch.Tensor:
    """Return each row of x less its mean over its deviation, times the weight, plus the bias."""
    wide = _wide(x)
    centred = wide - wide.mean(-1, keepdim=True)
    scale = torch.rsqrt(centred.square().mean(-1, keepdim=True) + eps)
    return _scaled(centred * scale, weight, bias).to(x.dtype)


def group_norm_silu(
    x: torch.Tensor,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    groups: int = 1,
    eps: float = 1e-5,
    silu: bool = True,
) -> torch.Tensor:
    """Return the norm of each group of channels, scaled and shifted by channel, through silu."""
    wide = _wide(x).reshape(x.shape[0], groups, x.shape[1:].numel() // groups)
    centred = wide - wide.mean(-1, keepdim=True)
    scale = torch.rsqrt(centred.square().mean(-1, keepdim=True) + eps)
    by_channel = (1, -1, *(1,) * (x.dim() - 2))
    weight, bias = (None if v is None else v.reshape(by_channel) for v in (weight, bias))
    normed = _scaled((centred * scale).reshape(x.shape), weight, bias)
    return (torch.nn.functional.silu(normed) if silu else normed).to(x.dtype)


def rms_norm_backward(
    g: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor | None = None,
    extra: torch.Tensor | None = None,
    eps: float = 1e-6,
    offset: float = 0.0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the gradients of x, to which `extra` is added, and of the weight."""
    wide, g = _wide(x), _wide(g)
    scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    normed = wide * scale
    moved = _scaled(g, weight, offset=offset)
    dx = (moved - normed * (moved * normed).mean(-1, keepdim=True)) * scale
    dx = dx if extra is None else dx + _wide(extra)
    return dx.to(x.dtype), _by_column(g * normed, x, weight)


def layer_norm_backward(
    g: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    eps: float = 1e-5,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the gradients of x, the weight and the bias."""
    wide, g = _wide(x), _wide(g)
    centred = wide - wide.mean(-1, keepdim=True)
    scale = torch.rsqrt(centred.square().mean(-1, keepdim=True) + eps)
    normed, moved = centred * scale, _scaled(g, weight)
    slope = (moved * normed).mean(-1, keepdim=True)
    dx = (moved - moved.mean(-1, keepdim=True) - normed * slope) * scale
    return dx.to(x.dtype), _by_column(g * normed, x, weight), _by_column(g, x, bias)


def group_norm_silu_backward(
    g: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    groups: int = 1,
    eps: float = 1e-5,
    silu: bool = True,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the gradients of x, the weight and the bias."""
    wide, g = _wide(x), _wide(g)
    rows = (x.shape[0], groups, x.shape[1:].numel() // groups)
    by_channel = (1, -1, *(1,) * (x.dim() - 2))
    w, b = (None if v is None else v.reshape(by_channel) for v in (weight, bias))
    centred = wide.reshape(rows) - wide.reshape(rows).mean(-1, keepdim=True)
    scale = torch.rsqrt(centred.square().mean(-1, keepdim=True) + eps)
    normed = (centred * scale).reshape(x.shape)
    if silu:
        before = _scaled(normed, w, b)
        s = torch.sigmoid(before)
        g = g * s * (1 + before * (1 - s))
    moved, flat = _scaled(g, w).reshape(rows), normed.reshape(rows)
    slope = (moved * flat).mean(-1, keepdim=True)
    dx = ((moved - moved.mean(-1, keepdim=True) - flat * slope) * scale).reshape(x.shape)
    return dx.to(x.dtype), _by_channel(g * normed, weight), _by_channel(g, bias)


def _by_column(sums: torch.Tensor, x: torch.Tensor, like: torch.Tensor | None) -> torch.Tensor:
    if like is None:
        return x.new_empty(0)
    return sums.reshape(-1, x.shape[-1]).sum(0).to(like.dtype)


def _by_channel(sums: torch.Tensor, like: torch.Tensor | None) -> torch.Tensor:
    if like is None:
        return sums.new_empty(0)
    return sums.transpose(0, 1).reshape(sums.shape[1], -1).sum(1).to(like.dtype)
