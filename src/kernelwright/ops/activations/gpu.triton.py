"""Activations and gated products on a GPU: one pass, in float32."""

import torch
import triton
import triton.language as tl

from .._core.gpu import FLOATS, GpuForm

_BLOCK, _WARPS = 2048, 8


@triton.jit
def value_of(x, CURVE: tl.constexpr):
    """Return silu, gelu, or gelu by tanh."""
    if CURVE == 0:
        y = x * tl.sigmoid(x)
    elif CURVE == 1:
        y = x * 0.5 * (1.0 + tl.erf(x * 0.7071067811865476))
    else:
        y = x * tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))
    return y


@triton.jit
def slope_of(x, CURVE: tl.constexpr):
    """Return the slope of the curve."""
    if CURVE == 0:
        s = tl.sigmoid(x)
        y = s * (1.0 + x * (1.0 - s))
    elif CURVE == 1:
        below = 0.5 * (1.0 + tl.erf(x * 0.7071067811865476))
        y = below + x * tl.exp(-0.5 * x * x) * 0.3989422804014327
    else:
        near = tl.where(x > 15.0, 15.0, tl.where(x < -15.0, -15.0, x))  # products overflow beyond; NaN stays
        s = tl.sigmoid(1.5957691216057308 * (near + 0.044715 * near * near * near))
        y = s + near * s * (1.0 - s) * 1.5957691216057308 * (1.0 + 0.134145 * near * near)
    return y


@triton.jit
def one(x, out, n, CURVE: tl.constexpr, BLOCK: tl.constexpr):
    """Compute the activation of each element."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n, other=0.0).to(tl.float32)
    tl.store(out + at, value_of(v, CURVE).to(out.dtype.element_ty), mask=at < n)


@triton.jit
def one_slope(g, x, out, n, CURVE: tl.constexpr, BLOCK: tl.constexpr):
    """Compute the gradient of each element."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n, other=0.0).to(tl.float32)
    slope = tl.load(g + at, mask=at < n, other=0.0).to(tl.float32)
    tl.store(out + at, (slope * slope_of(v, CURVE)).to(out.dtype.element_ty), mask=at < n)


@triton.jit
def two(gate, up, out, columns, stride, CURVE: tl.constexpr, BLOCK: tl.constexpr):
    """Compute the activation of a row's gates, times up; rows of both are `stride` apart."""
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(gate + row * stride + at, mask=at < columns, other=0.0).to(tl.float32)
    u = tl.load(up + row * stride + at, mask=at < columns, other=0.0).to(tl.float32)
    tl.store(out + row * columns + at, (value_of(v, CURVE) * u).to(out.dtype.element_ty), mask=at < columns)


@triton.jit
def two_slope(g, gate, up, dgate, dup, columns, stride, CURVE: tl.constexpr, BLOCK: tl.constexpr):
    """Compute the gradients of a row's gates and ups."""
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = at < columns
    v = tl.load(gate + row * stride + at, mask=inside, other=0.0).to(tl.float32)
    u = tl.load(up + row * stride + at, mask=inside, other=0.0).to(tl.float32)
    slope = tl.load(g + row * columns + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(
        dgate + row * stride + at, (slope * u * slope_of(v, CURVE)).to(dgate.dtype.element_ty), mask=inside
    )
    tl.store(dup + row * stride + at, (slope * value_of(v, CURVE)).to(dup.dtype.element_ty), mask=inside)


def _one(x, curve):
    out = torch.empty_like(x)
    n = x.numel()
    one[(triton.cdiv(n, _BLOCK),)](x, out, n, CURVE=curve, BLOCK=_BLOCK, num_warps=_WARPS)
    return out


def _one_slope(g, x, curve):
    out = torch.empty_like(x)
    n = x.numel()
    one_slope[(triton.cdiv(n, _BLOCK),)](g, x, out, n, CURVE=curve, BLOCK=_BLOCK, num_warps=_WARPS)
    return out


def _grid(rows, columns):
    block = max(128, min(_BLOCK, triton.next_power_of_2(columns)))
    return (rows, triton.cdiv(columns, block)), {"BLOCK": block, "num_warps": max(1, block // 256)}


def _flat(n):
    """Return rows and columns of n elements side by side, in rows of whole blocks where they divide n."""
    columns = next(c for c in (1 << 16, 1 << 13, _BLOCK, n) if n % c == 0)
    return n // columns, columns


def _two(gate, up, curve):
    out = torch.empty_like(gate)
    rows, columns = _flat(gate.numel())
    grid, how = _grid(rows, columns)
    two[grid](gate, up, out, columns, columns, CURVE=curve, **how)
    return out


def _two_slope(g, gate, up, curve):
    dgate, dup = torch.empty_like(gate), torch.empty_like(up)
    rows, columns = _flat(gate.numel())
    grid, how = _grid(rows, columns)
    two_slope[grid](g, gate, up, dgate, dup, columns, columns, CURVE=curve, **how)
    return dgate, dup


def _packed(x, curve):
    columns = x.shape[-1] // 2
    out = x.new_empty((*x.shape[:-1], columns))
    grid, how = _grid(x.numel() // (2 * columns), columns)
    two[grid](x, x.view(-1)[columns:], out, columns, 2 * columns, CURVE=curve, **how)
    return out


def _packed_slope(g, x, curve):
    columns, out = x.shape[-1] // 2, torch.empty_like(x)
    grid, how = _grid(x.numel() // (2 * columns), columns)
    up, dup = x.view(-1)[columns:], out.view(-1)[columns:]
    two_slope[grid](g, x, up, out, dup, columns, 2 * columns, CURVE=curve, **how)
    return out


def _serves(*arguments):
    for x in arguments[:-1]:
        if x.dtype not in FLOATS:
            return f"x is of {x.dtype}, and the kernel takes float32, bfloat16 and float16"
        if not x.is_contiguous():
            return "a tensor is not contiguous"
    return None


FORMS = {
    "activation": GpuForm(_serves, _one),
    "activation_backward": GpuForm(_serves, _one_slope),
    "glu": GpuForm(_serves, _two),
    "glu_backward": GpuForm(_serves, _two_slope),
    "glu_packed": GpuForm(_serves, _packed),
    "glu_packed_backward": GpuForm(_serves, _packed_slope),
}
