"""Products of matrices, the right factor packed ahead, with bias, activation, gate and residual in registers.

| name | what it computes |
|---|---|
| `pack(b)` | the right factor as panels, packed again when it changes, or frozen |
| `matmul(a, b, bias, activation=..., gate=..., residual=...)` | `activation(a @ b + bias) * gate + residual` |
| `int_mm(a, b)` | the product of int8 matrices, exact as int32, or scaled by rows and columns to float32 |

A product that torch multiplies faster is left to torch (`faster_natively`), and so is one whose factor is not packed.
"""

import math
from pathlib import Path
from typing import Any

import torch

from .._core import Kernel, Op, Tuning, by_reference, checked, cpu_only, floats, refuse, told
from . import reference
from ._packed import Packed, pack

__all__ = ["KERNEL", "Packed", "faster_natively", "int_mm", "matmul", "pack"]

KERNEL = Kernel(Path(__file__).with_name("kernel.cpp"))
"""The library of this family."""
ACTIVATIONS = {
    None: reference.NONE, "relu": reference.RELU, "silu": reference.SILU, "gelu": reference.GELU,
    "gelu_tanh": reference.GELU_TANH,
}  # fmt: skip

T = torch.Tensor
_MATMUL, _INT = "gemm.matmul", "gemm.int_mm"


def _check_panels(op: str, a: T, panels: T, columns: int, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    if a.dim() != 2:
        refuse(op, "a", told(a), "a matrix")
    wanted = (-(-columns // 32), *shape)
    if tuple(panels.shape) != wanted or panels.dtype is not dtype:
        refuse(op, "panels", told(panels), f"of shape {wanted}, {dtype}")


def _check_vector(op: str, name: str, x: T | None, length: int, dtype: torch.dtype) -> None:
    if x is not None and (x.shape != (length,) or x.dtype is not dtype):
        refuse(op, name, told(x), f"({length},), {dtype}")


def _check_curve(op: str, curve: int) -> None:
    if not 0 <= curve < len(ACTIVATIONS):
        refuse(op, "curve", curve, f"0 to {len(ACTIVATIONS) - 1}")


def _check(
    a: T, panels: T, bias: T | None, gate: T | None, residual: T | None, curve: int, columns: int
) -> None:
    floats(_MATMUL, "a", a)
    inner = a.shape[-1]
    paired = panels.dim() == 4 and panels.shape[2:] == (32, 2)
    _check_panels(
        _MATMUL, a, panels, columns, ((inner + 1) // 2, 32, 2) if paired else (inner, 2, 16), a.dtype
    )
    _check_vector(_MATMUL, "bias", bias, columns, a.dtype)
    for name, x in (("gate", gate), ("residual", residual)):
        if x is not None and (x.shape != (a.shape[0], columns) or x.dtype is not a.dtype):
            refuse(_MATMUL, name, told(x), f"({a.shape[0]}, {columns}), {a.dtype}")
    _check_curve(_MATMUL, curve)


def _check_integers(
    a: T, panels: T, row_scale: T | None, column_scale: T | None, bias: T | None, curve: int, columns: int
) -> None:
    if not isinstance(a, torch.Tensor) or a.dtype is not torch.int8:
        refuse(_INT, "a", told(a), "a matrix of int8")
    _check_panels(_INT, a, panels, columns, ((a.shape[-1] + 3) // 4, 32, 4), torch.uint8)
    _check_scales(a, row_scale, column_scale, bias, curve, columns)


def _check_scales(
    a: T, row_scale: T | None, column_scale: T | None, bias: T | None, curve: int, columns: int
) -> None:
    _check_vector(_INT, "row_scale", row_scale, a.shape[0], torch.float32)
    _check_vector(_INT, "column_scale", column_scale, columns, torch.float32)
    _check_vector(_INT, "bias", bias, columns, torch.float32)
    _check_curve(_INT, curve)
    if column_scale is None and (row_scale is not None or bias is not None or curve):
        refuse(_INT, "column_scale", None, "a scale of each column, without which the result is int32")


def _serves(a: T, panels: T, *others: Any) -> str | None:
    paired = panels.shape[2] == 32
    if a.dtype is not (torch.bfloat16 if paired else torch.float32) and a.dtype is not torch.int8:
        return f"a is of {a.dtype}, and the kernel takes float32 and, in pairs, bfloat16"
    if a.numel() and (a.stride(1) != 1 or (a.shape[0] > 1 and a.stride(0) < a.shape[1])):
        return "rows of a do not lie side by side"
    rest = [x for x in others if isinstance(x, torch.Tensor)]
    if not all(x.is_contiguous() for x in (panels, *rest)):
        return "a tensor is not contiguous"
    return cpu_only(a, panels, *rest)


def _outputs(a: T, *rest: Any) -> T:
    return a.new_empty(a.shape[0], rest[-1])


def _output_of_integers(a: T, *rest: Any) -> T:
    return a.new_empty(a.shape[0], rest[-1], dtype=torch.int32 if rest[2] is None else torch.float32)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: T) -> None:  # noqa: ARG001
    ctx.save_for_backward(*inputs[:5])
    ctx.numbers = inputs[5:]


def _backward(ctx: Any, gradient: T) -> tuple[T | None, ...]:
    found = by_reference(reference.matmul, ctx.saved_tensors, ctx.numbers, ctx.needs_input_grad[:5], gradient)
    return *found, None, None


_matmul = Op(
    "gemm_matmul(Tensor a, Tensor panels, Tensor? bias, Tensor? gate, Tensor? residual, int curve, int columns) "
    "-> Tensor",
    reference=reference.matmul, kernel=KERNEL, outputs=_outputs, check=_check, serves=_serves,
    gradient=(_keep, _backward),
    tuning=Tuning("dots", lambda a, panels, *_: (len(a), len(panels), a.shape[1])),
)  # fmt: skip
_integers = Op(
    "gemm_integers(Tensor a, Tensor panels, Tensor? row_scale, Tensor? column_scale, Tensor? bias, int curve, "
    "int columns) -> Tensor",
    reference=reference.integers, kernel=KERNEL, outputs=_output_of_integers, check=_check_integers, serves=_serves,
    tuning=Tuning("dots", lambda a, panels, *_: (len(a), len(panels), a.shape[1])),
)  # fmt: skip


@checked
def faster_natively(rows: int, columns: int, inner: int, dtype: torch.dtype) -> bool:
    """Tell whether torch multiplies such matrices faster than the kernel, as far as was measured.

    The kernel's: products of some rows, which read the factor once in the order in which it lies, and in floats those
    of many rows that are long enough. Torch's: small ones, which are not worth the call; one row of a float32 factor
    that no cache holds, where both take as long as memory; many rows of few columns or inner elements, or of int8.

    Source: `python -m benchmarks.ops.gemm`, an AMD EPYC with AVX-512.

    Example:
        >>> faster_natively(8, 8, 8, torch.float32), faster_natively(256, 1024, 1024, torch.float32)
        (True, False)
    """
    work = rows * columns * inner
    if rows <= _FEW_ROWS:
        return work < _LEAST[dtype] or (dtype is torch.float32 and rows == 1 and columns * inner >= _UNCACHED)
    if dtype is torch.int8:
        return True
    if dtype is torch.float32:
        return inner < 512 or columns < 256 or work < 1 << 25
    return inner < 1024 or columns < 256


_FEW_ROWS = 16
_LEAST = {torch.float32: 1 << 21, torch.bfloat16: 1 << 16, torch.int8: 1 << 22}
"""Multiplications of a product of few rows that are worth the kernel's call."""
_UNCACHED = 1 << 21
"""Elements of a float32 factor that is read from memory."""


@checked
def matmul(
    a: T, b: T | Packed, bias: T | None = None, *, activation: str | None = None, gate: T | None = None,
    residual: T | None = None,
) -> T:  # fmt: skip
    """Return `activation(a @ b + bias) * gate + residual`.

    Args:
        a: (..., inner) float32 or bfloat16, of b's dtype.
        b: (inner, columns): packed, or a tensor, which torch multiplies.
        bias: (columns,), of a's dtype.
        activation: `relu`, `silu`, `gelu`, `gelu_tanh` or none.
        gate: (..., columns), of a's dtype: what is multiplied by it follows the activation.
        residual: (..., columns), of a's dtype: added last.

    Returns:
        (..., columns) of a's dtype. It has gradients by all that is real; with a factor that is followed, torch
        computes products that need them.

    Raises:
        ArgumentError: shapes or dtypes do not fit.

    Example:
        >>> b = pack(torch.tensor([[1.0, -1.0], [2.0, 3.0]]))
        >>> matmul(torch.tensor([[1.0, -1.0]]), b, activation="relu", residual=torch.ones(1, 2)).tolist()
        [[1.0, 1.0]]
    """
    if (
        type(b) is Packed and b.native is not None
        and activation is None and bias is None and gate is None and residual is None
        and type(a) is torch.Tensor and a.dim() == 2 and a.shape[1] == b.inner and a.dtype is b.dtype is not torch.int8
        and faster_natively(a.shape[0], b.columns, b.inner, a.dtype)
    ):  # fmt: skip  # small products are over before the rest of this
        return torch.mm(a, b.native)
    floats(_MATMUL, "a", a)
    if activation not in ACTIVATIONS:
        named = ", ".join(repr(one) for one in ACTIVATIONS if one)
        refuse(_MATMUL, "activation", repr(activation), f"{named} or None")
    for name, one in (("bias", bias), ("gate", gate), ("residual", residual)):
        if one is not None:
            floats(_MATMUL, name, one)
    inner, columns = _factor(_MATMUL, a, b)
    rows = _flat(a)
    gates, more = (None if x is None else _flat(x) for x in (gate, residual))
    curve = ACTIVATIONS[activation]
    native = b if isinstance(b, torch.Tensor) else b.native
    if native is not None and (
        native is b or _differentiated(a, native, bias, gate, residual)
        or rows.is_cuda or faster_natively(rows.shape[0], columns, inner, a.dtype)
    ):  # fmt: skip
        out = _natively(rows, native, bias, curve, gates, more)
    else:
        assert isinstance(b, Packed)
        out = _matmul(rows, b.panels, bias, gates, more, curve, columns)
    return out if a.dim() == 2 else out.view(*a.shape[:-1], columns)


@checked
def int_mm(
    a: T, b: Packed, *, row_scale: T | None = None, column_scale: T | None = None, bias: T | None = None,
    activation: str | None = None,
) -> T:  # fmt: skip
    """Return the product of int8 matrices: exact, or scaled.

    Args:
        a: (rows, inner) int8.
        b: (inner, columns) int8, packed.
        row_scale: (rows,) float32.
        column_scale: (columns,) float32; without it the result is int32.
        bias: (columns,) float32, added after the scales.
        activation: As for `matmul`.

    Returns:
        (rows, columns): int32, or float32 `activation(a @ b * row_scale[:, None] * column_scale + bias)`.

    Raises:
        ArgumentError: shapes or dtypes do not fit.

    Example:
        >>> a, b = torch.tensor([[100, -3]], dtype=torch.int8), torch.tensor([[127], [-128]], dtype=torch.int8)
        >>> int_mm(a, pack(b)).item(), int_mm(a, pack(b), column_scale=torch.tensor([0.5])).item()
        (13084, 6542.0)
    """
    if activation not in ACTIVATIONS:
        refuse(_INT, "activation", repr(activation), ", ".join(map(repr, ACTIVATIONS)))
    if not isinstance(b, Packed) or b.dtype is not torch.int8:
        refuse(_INT, "b", told(b), "a packed matrix of int8")
    inner, columns = _factor(_INT, a, b)
    if a.dim() != 2:
        refuse(_INT, "a", told(a), f"(rows, {inner}), int8")
    out: T
    some = a.numel() * columns > 0  # torch wants some of each, and on a GPU more
    if a.is_cuda:
        some = len(a) > 16 and not inner % 8 and not columns % 8
    if (
        column_scale is None
        and b.native is not None
        and some
        and faster_natively(len(a), columns, inner, a.dtype)
    ):
        _check_scales(a, row_scale, None, bias, ACTIVATIONS[activation], columns)
        out = torch._int_mm(a, b.native)
        return out
    out = _integers(a, b.panels, row_scale, column_scale, bias, ACTIVATIONS[activation], columns)
    return out


def _flat(x: T) -> T:
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1]) if x.dim() and x.dim() != 2 else x


def _factor(op: str, a: T, b: T | Packed) -> tuple[int, int]:
    if isinstance(b, torch.Tensor):
        if b.dim() != 2:
            refuse(op, "b", told(b), "a matrix, or a packed one")
        inner, columns = b.shape
    elif isinstance(b, Packed):
        inner, columns = b.inner, b.columns
    else:
        refuse(op, "b", told(b), "a matrix, or a packed one")
    if not isinstance(a, torch.Tensor) or not a.dim() or a.shape[-1] != inner or a.dtype is not b.dtype:
        refuse(op, "a", told(a), f"(..., {inner}), {b.dtype}, as b is")
    return inner, columns


def _differentiated(*tensors: T | None) -> bool:
    return torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in tensors)


def _natively(a: T, b: T, bias: T | None, curve: int, gate: T | None, residual: T | None) -> T:
    """Compute by torch's own calls."""
    _check_vector(_MATMUL, "bias", bias, b.shape[1], a.dtype)
    for name, x in (("gate", gate), ("residual", residual)):
        if x is not None and (x.shape != (a.shape[0], b.shape[1]) or x.dtype is not a.dtype):
            refuse(_MATMUL, name, told(x), f"({a.shape[0]}, {b.shape[1]}), {a.dtype}")
    sums = torch.mm(a, b) if bias is None else torch.addmm(bias, a, b)
    return reference.followed(sums, None, curve, gate, residual)
