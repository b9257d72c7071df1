"""The ops of attention: what is checked, and what the kernel serves."""

from pathlib import Path
from typing import Any

import torch

from .._core import Kernel, Op, cap_of, cpu_only, finite, floats, last, refuse
from . import reference

KERNEL = Kernel(Path(__file__).with_name("kernel.cpp"), flags=("-O2",))
"""The library of this family."""
SERVED = (torch.float32, torch.bfloat16, torch.float16)
_MOST_COLUMNS = 512
_MOST_KEYS = 1 << 24
_NAME = "attention"
T = torch.Tensor


def of_four(name: str, argument: str, x: T, like: T | None = None) -> None:
    """Refuse what is not (batch, heads, rows, columns) of floats, of the dtype of another."""
    floats(name, argument, x)
    if x.dim() != 4:
        refuse(name, argument, f"of shape {tuple(x.shape)}", "(batch, heads, rows, columns)")
    if like is not None and x.dtype is not like.dtype:
        refuse(name, argument, f"of {x.dtype}", f"{like.dtype}, as q is")


def said(x: object) -> str:
    """Return what was given, in a line."""
    return f"a tensor of shape {tuple(x.shape)}" if isinstance(x, T) else repr(x)


def of_heads(name: str, argument: str, x: object, heads: int) -> None:
    """Refuse what is not a float32 number for each head."""
    if x is None:
        return
    if not isinstance(x, T):
        refuse(name, argument, f"a {type(x).__name__}", f"({heads},), torch.float32")
    if x.shape != (heads,) or x.dtype not in (torch.float32, torch.float64):
        refuse(name, argument, f"of shape {tuple(x.shape)}, {x.dtype}", f"({heads},), torch.float32")


def numbers(name: str, scale: float, soft_cap: float) -> None:
    """Refuse a scale or a cap that nobody could use."""
    finite(name, "scale", scale)
    cap_of(name, "soft_cap", soft_cap or None)


def _check(
    q: T, k: T, v: T, ranges: T | None = None, sinks: T | None = None, slopes: T | None = None, scale: float = 1.0,
    soft_cap: float = 0.0,
) -> None:  # fmt: skip
    of_four(_NAME, "q", q)
    of_four(_NAME, "k", k, q)
    of_four(_NAME, "v", v, q)
    batch, heads, rows, inner = q.shape
    groups, keys = k.shape[1:3]
    if k.shape[0] != batch or k.shape[3] != inner:
        refuse(_NAME, "k", f"of shape {tuple(k.shape)}", f"({batch}, kv heads, keys, {inner}), as q has")
    if v.shape[:3] != k.shape[:3]:
        refuse(_NAME, "v", f"of shape {tuple(v.shape)}", f"({batch}, {groups}, {keys}, columns), as k has")
    if not groups or heads % groups:
        refuse(_NAME, "k", f"of {groups} heads", f"a divisor of {heads}, the heads of q")
    numbers(_NAME, scale, soft_cap)
    of_heads(_NAME, "sinks", sinks, heads)
    of_heads(_NAME, "alibi", slopes, heads)
    if ranges is None:
        return
    if not isinstance(ranges, T):
        refuse(_NAME, "mask", f"a {type(ranges).__name__}", "ranges of torch.int32")
    fits = ranges.dim() == 5 and ranges.shape[0] in (1, batch) and ranges.shape[1] in (1, heads)
    if not fits or ranges.shape[2] != rows or ranges.shape[4] != 2 or ranges.dtype is not torch.int32:
        given = f"ranges of shape {tuple(ranges.shape)}, {ranges.dtype}"
        refuse(_NAME, "mask", given, f"(1 or {batch}, 1 or {heads}, {rows}, ranges, 2), torch.int32")


def _serves(q: T, k: T, v: T, ranges: T | None = None, *rest: Any) -> str | None:
    if q.dtype not in SERVED:
        return f"q is of {q.dtype}, and the kernel takes float32, bfloat16 and float16"
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.stride(3) != 1 and x.shape[3] != 1:
            return f"{name} does not have its columns side by side"
        if x.shape[3] > _MOST_COLUMNS:
            return f"{name} has {x.shape[3]} columns, and the kernel takes at most {_MOST_COLUMNS}"
    if k.shape[2] > _MOST_KEYS or q.shape[2] > _MOST_KEYS:
        return f"there are {k.shape[2]} keys, and the kernel takes at most {_MOST_KEYS}"
    for x in (ranges, *rest[:2]):
        if x is not None and not (x.is_contiguous() and x.dtype in (torch.int32, torch.float32)):
            return "ranges, sinks or alibi are not contiguous float32"
    return cpu_only(q, k, v, ranges, *rest[:2])


def _wide(q: T) -> torch.dtype:
    return torch.float64 if q.dtype is torch.float64 else torch.float32


def _outputs(q: T, k: T, v: T, *_: Any) -> tuple[T, T]:  # noqa: ARG001
    batch, heads, rows, _inner = q.shape
    return q.new_empty(batch, heads, rows, v.shape[3]), q.new_empty(batch, heads, rows, dtype=_wide(q))


_SETTINGS = "Tensor? ranges, Tensor? sinks, Tensor? alibi, float scale, float soft_cap"


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[T, T]) -> None:
    q, k, v, ranges, sinks, slopes, scale, soft_cap = inputs
    ctx.save_for_backward(q, k, v, *output, ranges, sinks, slopes)
    ctx.settings = (scale, soft_cap)


def _backward(ctx: Any, gradient: T | None, lse_gradient: T | None) -> tuple[T | None, ...]:
    q, k, v, out, lse, ranges, sinks, slopes = ctx.saved_tensors
    if gradient is None:
        gradient = torch.zeros_like(out)
    elif gradient.stride(3) != 1:  # of a sum, it is one number everywhere
        gradient = gradient.contiguous()
    if lse_gradient is not None:
        lse_gradient = lse_gradient.contiguous()
    dq, dk, dv, dsinks = gradients(
        gradient, lse_gradient, q, k, v, out, lse, ranges, sinks, slopes, *ctx.settings
    )
    of_sinks = None if sinks is None else dsinks.to(sinks.dtype)
    found = (dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype), None, of_sinks)
    return (*last(_NAME, found, (q, k, v, sinks, gradient)), None, None, None)


forward = Op(
    f"attention(Tensor q, Tensor k, Tensor v, {_SETTINGS}) -> (Tensor, Tensor)",
    reference=reference.attention, kernel=KERNEL, outputs=_outputs, check=_check, serves=_serves,
    gradient=(_keep, _backward),
)  # fmt: skip


def _check_gradients(
    gradient: T, lse_gradient: T | None, q: T, k: T, v: T, out: T, lse: T, *settings: Any
) -> None:
    _check(q, k, v, *settings)
    name = "attention gradients"
    right = (*q.shape[:3], v.shape[3])
    for argument, x, shape in (("gradient", gradient, right), ("out", out, right), ("lse", lse, right[:3])):
        if x.shape != shape:
            refuse(name, argument, f"of shape {tuple(x.shape)}", f"{shape}")
    if lse_gradient is not None and lse_gradient.shape != lse.shape:
        refuse(name, "lse_gradient", f"of shape {tuple(lse_gradient.shape)}", f"{tuple(lse.shape)}")


def _serves_gradients(
    gradient: T, lse_gradient: T | None, q: T, k: T, v: T, out: T, lse: T, *settings: Any
) -> str | None:
    for name, x in (("gradient", gradient), ("out", out)):
        if x.dtype is not q.dtype or (x.stride(3) != 1 and x.shape[3] != 1):
            return f"{name} is not of {q.dtype} with its columns side by side"
    for y in (lse, lse_gradient):
        if y is not None and not (y.is_contiguous() and y.dtype is torch.float32):
            return "lse or its gradient is not contiguous float32"
    return _serves(q, k, v, *settings) or cpu_only(gradient, out, lse, lse_gradient)


def _all(
    gradient: T,  # noqa: ARG001
    lse_gradient: T | None,  # noqa: ARG001
    q: T,
    k: T,
    v: T,
    out: T,  # noqa: ARG001
    lse: T,  # noqa: ARG001
    ranges: T | None,  # noqa: ARG001
    sinks: T | None,
    *_: Any,
) -> tuple[T, T, T, T]:
    wide = _wide(q)
    return (
        q.new_empty(q.shape, dtype=wide), q.new_empty(k.shape, dtype=wide), q.new_empty(v.shape, dtype=wide),
        q.new_empty(0 if sinks is None else sinks.shape[0], dtype=wide),
    )  # fmt: skip


gradients = Op(
    "attention_gradients(Tensor gradient, Tensor? lse_gradient, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, "
    f"{_SETTINGS}) -> (Tensor, Tensor, Tensor, Tensor)",
    reference=reference.gradients, kernel=KERNEL, outputs=_all, check=_check_gradients, serves=_serves_gradients,
)  # fmt: skip
