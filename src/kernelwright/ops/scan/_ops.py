"""The ops of scans, on contiguous tensors: checks, guards, gradients."""

from pathlib import Path
from typing import Any

import torch

from .._core import Kernel, Op, cpu_only, finite, floats, refuse, told
from . import reference

KERNEL = Kernel(Path(__file__).with_name("kernel.cpp"))
"""The library of this family."""
_Tensor = torch.Tensor
_Maybe = torch.Tensor | None


def _shaped(
    op: str, name: str, x: Any, shape: tuple[int, ...], words: str, dtype: torch.dtype | None
) -> None:
    """Refuse a tensor of another shape, or of another dtype than this; of none but floats."""
    if (
        not isinstance(x, torch.Tensor)
        or tuple(x.shape) != shape
        or (dtype is not None and x.dtype is not dtype)
    ):
        refuse(op, name, told(x), f"{shape}{'' if dtype is None else f', {dtype}'}: {words}")
    floats(op, name, x)


def _wide(x: _Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)


def _check_selective(
    u: _Tensor, delta: _Tensor, a: _Tensor, b: _Tensor, c: _Tensor, d: _Maybe, state: _Maybe, *_: Any
) -> None:
    op = "scan.selective_scan"
    for name, x, words, axes in (("u", u, "(batch, length, channels)", 3), ("a", a, "(channels, states)", 2)):
        floats(op, name, x)
        if x.dim() != axes:
            refuse(op, name, told(x), words)
    batch, length, channels = u.shape
    _shaped(op, "delta", delta, (batch, length, channels), "as u", u.dtype)
    _shaped(op, "a", a, (channels, a.shape[1]), "(channels, states)", _wide(u))
    for name, x in (("b", b), ("c", c)):
        _shaped(op, name, x, (batch, length, a.shape[1]), "(batch, length, states)", u.dtype)
    if d is not None:
        _shaped(op, "d", d, (channels,), "one for each channel", _wide(u))
    if state is not None:
        _shaped(op, "state", state, (batch, channels, a.shape[1]), "(batch, channels, states)", _wide(u))


def _check_linear(op: str, q: _Tensor, k: _Tensor, v: _Tensor, scale: float, **rest: Any) -> None:
    floats(op, "q", q)
    floats(op, "v", v)
    for name, x, words in (
        ("q", q, "(batch, groups, length, inner)"),
        ("v", v, "(batch, heads, length, columns)"),
    ):
        if x.dim() != 4:
            refuse(op, name, told(x), words)
    batch, groups, length, inner = q.shape
    heads = v.shape[1]
    _shaped(op, "k", k, tuple(q.shape), "as q", q.dtype)
    _shaped(op, "v", v, (batch, heads, length, v.shape[3]), "(batch, heads, length, columns), as q", q.dtype)
    if not groups or heads % groups:
        refuse(op, "v", told(v), f"a number of heads that {groups}, the groups of q, divides")
    for name in ("beta", "decay"):
        if rest.get(name) is not None:
            _shaped(op, name, rest[name], (batch, heads, length), "(batch, heads, length)", _wide(q))
    if rest.get("state") is not None:
        shape = (batch, heads, inner, v.shape[3])
        _shaped(op, "state", rest["state"], shape, "(batch, heads, inner, columns)", _wide(q))
    finite(op, "scale", scale)


def _check_attention(
    q: _Tensor, k: _Tensor, v: _Tensor, decay: _Maybe, state: _Maybe, scale: float, *_: Any
) -> None:
    _check_linear("scan.linear_attention", q, k, v, scale, decay=decay, state=state)


def _check_delta(
    q: _Tensor, k: _Tensor, v: _Tensor, beta: _Tensor, decay: _Maybe, state: _Maybe, scale: float, *_: Any
) -> None:
    if not isinstance(beta, torch.Tensor):
        refuse("scan.gated_delta_rule", "beta", told(beta), "a tensor")
    _check_linear("scan.gated_delta_rule", q, k, v, scale, beta=beta, decay=decay, state=state)


def _serves(*arguments: Any) -> str | None:
    dtype = arguments[0].dtype
    if dtype not in (torch.float32, torch.bfloat16):
        return f"a tensor is of {dtype}, and the kernel takes float32 and bfloat16"
    for x in arguments:
        if isinstance(x, torch.Tensor):
            if not x.is_contiguous():
                return "a tensor is not contiguous"
            if not x.is_cpu:
                return cpu_only(x)
    return None


def _selective_outputs(u: _Tensor, _: _Tensor, a: _Tensor, *__: Any) -> tuple[_Tensor, ...]:
    return torch.empty_like(u), a.new_empty(u.shape[0], *a.shape)


def _linear_outputs(q: _Tensor, _: _Tensor, v: _Tensor, *__: Any) -> tuple[_Tensor, ...]:
    return torch.empty_like(v), _state_like(q, v)


def _state_like(q: _Tensor, v: _Tensor) -> _Tensor:
    return v.new_empty(*v.shape[:2], q.shape[3], v.shape[3], dtype=_wide(v))


def _selective_gradients(
    u: _Tensor, delta: _Tensor, a: _Tensor, b: _Tensor, c: _Tensor, *_: Any
) -> tuple[_Tensor, ...]:
    like = [torch.empty_like(x) for x in (u, delta, a, b, c)]
    return *like, a.new_empty(a.shape[0]), a.new_empty(u.shape[0], *a.shape)


def _linear_gradients(q: _Tensor, _: _Tensor, v: _Tensor, decay: _Maybe, *__: Any) -> tuple[_Tensor, ...]:
    each = [v.new_empty(*v.shape[:3], q.shape[3]) for _ in "qk"]
    left = v.new_empty(0, dtype=_wide(v)) if decay is None else torch.empty_like(decay)
    return *each, torch.empty_like(v), left, _state_like(q, v)


_selective_backward = Op(
    "scan_selective_backward(Tensor u, Tensor delta, Tensor a, Tensor b, Tensor c, Tensor? d, Tensor? state,"
    " Tensor slope, Tensor? after) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    reference=reference.selective_backward, kernel=KERNEL, outputs=_selective_gradients, check=_check_selective,
    serves=_serves,
)  # fmt: skip
_linear_backward = Op(
    "scan_linear_backward(Tensor q, Tensor k, Tensor v, Tensor? decay, Tensor? state, float scale, Tensor slope,"
    " Tensor? after) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    reference=reference.linear_backward, kernel=KERNEL, outputs=_linear_gradients, check=_check_attention,
    serves=_serves,
)  # fmt: skip


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:  # noqa: ARG001
    ctx.save_for_backward(*[x for x in inputs if isinstance(x, torch.Tensor) or x is None])
    ctx.rest = [x for x in inputs if not isinstance(x, torch.Tensor) and x is not None]


def _back(op: Any, ctx: Any, slope: _Tensor, after: _Tensor) -> tuple[list[Any], Any]:
    """Run a backward op, or where gradients of gradients are asked for its reference, which has them."""
    given = ctx.saved_tensors
    run = op.reference if torch.is_grad_enabled() and isinstance(op, Op) else op
    found = run(*given, *ctx.rest, slope.contiguous(), after.contiguous())
    return [f if x is not None else None for x, f in zip(given, found, strict=True)], given


def _selective_gradient(ctx: Any, slope: _Tensor, after: _Tensor) -> tuple[Any, ...]:
    return tuple(_back(_selective_backward, ctx, slope, after)[0])


def _linear_gradient(ctx: Any, slope: _Tensor, after: _Tensor) -> tuple[Any, ...]:
    found, given = _back(_linear_backward, ctx, slope, after)
    for i in range(2):
        batch, groups, length, inner = given[i].shape
        if found[i].shape[1] != groups:
            found[i] = found[i].view(batch, groups, -1, length, inner).sum(2)
    return *found, None


def _delta_gradient(ctx: Any, slope: _Tensor, after: _Tensor) -> tuple[Any, ...]:
    return *_back(reference.delta_backward, ctx, slope, after)[0], None


selective = Op(
    "scan_selective(Tensor u, Tensor delta, Tensor a, Tensor b, Tensor c, Tensor? d, Tensor? state)"
    " -> (Tensor, Tensor)",
    reference=reference.selective, kernel=KERNEL, outputs=_selective_outputs, check=_check_selective,
    serves=_serves, gradient=(_keep, _selective_gradient),
)  # fmt: skip
linear = Op(
    "scan_linear(Tensor q, Tensor k, Tensor v, Tensor? decay, Tensor? state, float scale) -> (Tensor, Tensor)",
    reference=reference.linear, kernel=KERNEL, outputs=_linear_outputs, check=_check_attention, serves=_serves,
    gradient=(_keep, _linear_gradient),
)  # fmt: skip
delta = Op(
    "scan_delta(Tensor q, Tensor k, Tensor v, Tensor beta, Tensor? decay, Tensor? state, float scale)"
    " -> (Tensor, Tensor)",
    reference=reference.delta, kernel=KERNEL, outputs=_linear_outputs, check=_check_delta, serves=_serves,
    gradient=(_keep, _delta_gradient),
)  # fmt: skip
