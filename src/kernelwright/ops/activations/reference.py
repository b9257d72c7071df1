"""References of activations and gated products: torch alone, in float32 or wider, rounded once."""

import math

import torch
import torch.nn.functional as F

CURVES = ("silu", "gelu", "gelu_tanh")
"""The activations, by their number in the ops."""
_K = math.sqrt(2 / math.pi)


def _wide(x: torch.Tensor) -> torch.Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _value(x: torch.Tensor, curve: int) -> torch.Tensor:
    if curve == 0:
        return F.silu(x)
    return F.gelu(x, approximate="none" if curve == 1 else "tanh")


def _slope(x: torch.Tensor, curve: int) -> torch.Tensor:
    if curve == 0:
        s = torch.sigmoid(x)
        return s * (1 + x * (1 - s))
    if curve == 1:
        below: torch.Tensor = torch.special.ndtr(x)
        density: torch.Tensor = torch.exp(-x * x / 2) / math.sqrt(2 * math.pi)
        return below + x * density
    near = x.clamp(-15, 15)
    s = torch.sigmoid(2 * _K * near * (1 + 0.044715 * near * near))
    return s + near * s * (1 - s) * 2 * _K * (1 + 0.134145 * near * near)


def activation(x: torch.Tensor, curve: int = 0) -> torch.Tensor:
    """Return the activation of each element."""
    return _value(_wide(x), curve).to(x.dtype)


def activation_backward(g: torch.Tensor, x: torch.Tensor, curve: int = 0) -> torch.Tensor:
    """Return the gradient of x."""
    return (_wide(g) * _slope(_wide(x), curve)).to(x.dtype)


def glu(gate: torch.Tensor, up: torch.Tensor, curve: int = 0) -> torch.Tensor:
    """Return the activation of the gate, times up."""
    return (_value(_wide(gate), curve) * _wide(up)).to(gate.dtype)


def glu_backward(
    g: torch.Tensor, gate: torch.Tensor, up: torch.Tensor, curve: int = 0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the gradients of the gate and of up."""
    wide, g = _wide(gate), _wide(g)
    dgate, dup = g * _wide(up) * _slope(wide, curve), g * _value(wide, curve)
    return dgate.to(gate.dtype), dup.to(up.dtype)


def glu_packed(x: torch.Tensor, curve: int = 0) -> torch.Tensor:
    """Return the activation of the first half of each row, times the second half."""
    gate, up = x.chunk(2, -1)
    return glu(gate, up, curve)


def glu_packed_backward(g: torch.Tensor, x: torch.Tensor, curve: int = 0) -> torch.Tensor:
    """Return the gradient of both halves of each row."""
    if not x.shape[-1]:
        return torch.empty_like(x)
    gate, up = x.chunk(2, -1)
    return torch.cat(glu_backward(g, gate, up, curve), -1)
