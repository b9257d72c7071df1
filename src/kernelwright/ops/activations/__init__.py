"""Activations, and the gated products of transformers' feed-forward layers; forward and backward.

| function | what it computes |
|---|---|
| `swiglu(gate, up)`, `swiglu(both)` | `silu(gate) * up`, of two tensors or of the halves of one |
| `geglu(gate, up)`, `geglu(both)` | `gelu(gate) * up` |
| `silu(x)`, `gelu(x)` | `x * sigmoid(x)`; `x * P(Z <= x)` |

Computed in float32 and rounded once. A tensor that is not contiguous is copied first. Gradients of gradients are the
references'.
"""

from pathlib import Path
from typing import Any

import torch

from .._core import Kernel, Op, checked, cpu_only, floats, refuse, remembered
from . import reference

__all__ = ["KERNEL", "geglu", "gelu", "silu", "swiglu"]

KERNEL = Kernel(Path(__file__).with_name("kernel.cpp"))
"""The library of this family."""
_Tensor = torch.Tensor
_SILU = 0


def _check_like(op: str, name: str, other: _Tensor, like: str, x: _Tensor) -> None:
    floats(op, name, other)
    if other.shape != x.shape or other.dtype is not x.dtype:
        refuse(
            op,
            name,
            f"of shape {tuple(other.shape)}, {other.dtype}",
            f"{tuple(x.shape)}, {x.dtype}, as {like} is",
        )


def _check_one(x: _Tensor, curve: int, name: str = "x") -> None:
    floats("activations", name, x)
    if not 0 <= curve < len(reference.CURVES):
        refuse("activations", "curve", curve, "0, 1 or 2: silu, gelu or gelu by tanh")


def _check_one_gradient(g: _Tensor, x: _Tensor, curve: int) -> None:
    _check_one(x, curve)
    _check_like("activations.backward", "g", g, "x", x)


def _check_two(gate: _Tensor, up: _Tensor, curve: int) -> None:
    _check_one(gate, curve, "gate")
    _check_like("activations.glu", "up", up, "gate", gate)


def _check_two_gradient(g: _Tensor, gate: _Tensor, up: _Tensor, curve: int) -> None:
    _check_two(gate, up, curve)
    _check_like("activations.glu_backward", "g", g, "gate", gate)


def _check_packed(x: _Tensor, curve: int) -> None:
    _check_one(x, curve, "gate")
    if not x.dim() or x.shape[-1] % 2:
        refuse(
            "activations.glu",
            "gate",
            f"of shape {tuple(x.shape)}",
            "an even last axis, gate and up, or up too",
        )


def _check_packed_gradient(g: _Tensor, x: _Tensor, curve: int) -> None:
    _check_packed(x, curve)
    floats("activations.glu_backward", "g", g)
    shape = (*x.shape[:-1], x.shape[-1] // 2)
    if g.shape != shape or g.dtype is not x.dtype:
        refuse(
            "activations.glu_backward", "g", f"of shape {tuple(g.shape)}, {g.dtype}", f"{shape}, {x.dtype}"
        )


def _serves(*arguments: Any) -> str | None:
    dtype = arguments[0].dtype
    if dtype is not torch.float32 and dtype is not torch.bfloat16:
        return f"x is of {dtype}, and the kernel takes float32 and bfloat16"
    for x in arguments[:-1]:
        if not x.is_contiguous():
            return "a tensor is not contiguous"
        if not x.is_cpu:
            return cpu_only(x)
    return None


def _like(x: _Tensor, *_: Any) -> _Tensor:
    return torch.empty_like(x)


def _like_second(_: _Tensor, x: _Tensor, *__: Any) -> _Tensor:
    return torch.empty_like(x)


def _like_both(_: _Tensor, gate: _Tensor, up: _Tensor, *__: Any) -> tuple[_Tensor, _Tensor]:
    return torch.empty_like(gate), torch.empty_like(up)


def _half(x: _Tensor, *_: Any) -> _Tensor:
    return x.new_empty((*x.shape[:-1], x.shape[-1] // 2))


_one_backward = Op(
    "activation_backward(Tensor g, Tensor x, int curve) -> Tensor",
    reference=reference.activation_backward, kernel=KERNEL, outputs=_like_second, check=_check_one_gradient,
    serves=_serves,
)  # fmt: skip
_two_backward = Op(
    "glu_backward(Tensor g, Tensor gate, Tensor up, int curve) -> (Tensor, Tensor)",
    reference=reference.glu_backward, kernel=KERNEL, outputs=_like_both, check=_check_two_gradient, serves=_serves,
)  # fmt: skip
_packed_backward = Op(
    "glu_packed_backward(Tensor g, Tensor x, int curve) -> Tensor",
    reference=reference.glu_packed_backward, kernel=KERNEL, outputs=_like_second, check=_check_packed_gradient,
    serves=_serves,
)  # fmt: skip


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:  # noqa: ARG001
    *tensors, ctx.curve = inputs
    ctx.save_for_backward(*tensors)


def _backward(op: Op, ctx: Any, g: _Tensor) -> Any:
    """Run a backward op, or where gradients of gradients are asked for its reference, which has them."""
    arguments = (g.contiguous(), *ctx.saved_tensors, ctx.curve)
    return (op.reference if torch.is_grad_enabled() else op)(*arguments)


_one = Op(
    "activation(Tensor x, int curve) -> Tensor",
    reference=reference.activation, kernel=KERNEL, outputs=_like, check=_check_one, serves=_serves,
    gradient=(_keep, lambda ctx, g: (_backward(_one_backward, ctx, g), None)),
)  # fmt: skip
_two = Op(
    "glu(Tensor gate, Tensor up, int curve) -> Tensor",
    reference=reference.glu, kernel=KERNEL, outputs=_like, check=_check_two, serves=_serves,
    gradient=(_keep, lambda ctx, g: (*_backward(_two_backward, ctx, g), None)),
)  # fmt: skip
_packed = Op(
    "glu_packed(Tensor x, int curve) -> Tensor",
    reference=reference.glu_packed, kernel=KERNEL, outputs=_half, check=_check_packed, serves=_serves,
    gradient=(_keep, lambda ctx, g: (_backward(_packed_backward, ctx, g), None)),
)  # fmt: skip


def _flat(x: _Tensor) -> _Tensor:
    """Return x, or a copy whose elements lie side by side; what is no tensor goes to the check."""
    return x.contiguous() if isinstance(x, torch.Tensor) else x


def _gelu(op: str, approximate: str) -> int:
    if approximate not in ("none", "tanh"):
        refuse(op, "approximate", repr(approximate), "'none' or 'tanh'")
    return 1 if approximate == "none" else 2


def _glu(gate: _Tensor, up: _Tensor | None, curve: int) -> _Tensor:
    out: _Tensor = _packed(_flat(gate), curve) if up is None else _two(_flat(gate), _flat(up), curve)
    return out


@remembered
@checked
def swiglu(gate: _Tensor, up: _Tensor | None = None) -> _Tensor:
    """Return `silu(gate) * up`.

    Args:
        gate: (..., n) float32 or bfloat16; other floats run the reference. Without `up`, (..., 2 n): gate, then up.
        up: As gate; none if it lies next to the gate.

    Returns:
        (..., n), of the gate's dtype.

    Raises:
        ArgumentError: shapes or dtypes do not fit.

    Example:
        >>> swiglu(torch.tensor([0.0, 40.0]), torch.tensor([5.0, 2.0])).tolist()
        [0.0, 80.0]
        >>> swiglu(torch.tensor([0.0, 40.0, 5.0, 2.0])).tolist()
        [0.0, 80.0]
    """
    return _glu(gate, up, _SILU)


@remembered
@checked
def geglu(gate: _Tensor, up: _Tensor | None = None, *, approximate: str = "none") -> _Tensor:
    """Return `gelu(gate) * up`.

    Args:
        gate: (..., n) float32 or bfloat16; other floats run the reference. Without `up`, (..., 2 n): gate, then up.
        up: As gate; none if it lies next to the gate.
        approximate: `none`, by erf, or `tanh`, as for `torch.nn.functional.gelu`.

    Returns:
        (..., n), of the gate's dtype.

    Raises:
        ArgumentError: shapes or dtypes do not fit.

    Example:
        >>> geglu(torch.tensor([0.0, 40.0]), torch.tensor([5.0, 2.0])).tolist()
        [0.0, 80.0]
    """
    return _glu(gate, up, _gelu("activations.geglu", approximate))


@remembered
@checked
def silu(x: _Tensor) -> _Tensor:
    """Return `x * sigmoid(x)`.

    Args:
        x: float32 or bfloat16 of any shape; other floats run the reference.

    Returns:
        As x.

    Raises:
        ArgumentError: x is no tensor of floats.

    Example:
        >>> silu(torch.tensor([0.0, 40.0])).tolist()
        [0.0, 40.0]
    """
    out: _Tensor = _one(_flat(x), _SILU)
    return out


@remembered
@checked
def gelu(x: _Tensor, *, approximate: str = "none") -> _Tensor:
    """Return x times the probability that a standard normal number is below it.

    Args:
        x: float32 or bfloat16 of any shape; other floats run the reference.
        approximate: `none`, by erf, or `tanh`, as for `torch.nn.functional.gelu`.

    Returns:
        As x.

    Raises:
        ArgumentError: x is no tensor of floats, or `approximate` no such word.

    Example:
        >>> gelu(torch.tensor([0.0, 40.0])).tolist()
        [0.0, 40.0]
    """
    out: _Tensor = _one(_flat(x), _gelu("activations.gelu", approximate))
    return out
