"""The functions and ops of structured products: checks, guards, packing."""

from pathlib import Path
from typing import Any

import torch

from .._core import Kernel, Op, checked, cpu_only, floats, matrix, refuse, told
from . import reference

KERNEL = Kernel(Path(__file__).with_name("kernel.cpp"))
"""The library of this family."""
_PANEL = 32

T = torch.Tensor


def panels_of(factor: T) -> T:
    """Pack a factor (groups, inner, columns): (groups, panels, inner, 32), zeros beyond the last column.

    Example:
        >>> panels_of(torch.randn(2, 5, 40)).shape
        torch.Size([2, 2, 5, 32])
    """
    padded = torch.nn.functional.pad(factor, (0, -factor.shape[2] % _PANEL))
    panels: T = padded.unflatten(2, (-1, _PANEL)).transpose(1, 2).contiguous()  # type: ignore[no-untyped-call]  # torch does not annotate it
    return panels


def packed_monarch(first: T, second: T) -> tuple[T, T]:
    """Pack both factors; columns of the first lie by group, then by rank, as the second reads them."""
    groups = second.shape[0]
    ordered = first.unflatten(1, (-1, groups)).transpose(1, 2).flatten(1, 2)  # type: ignore[no-untyped-call]  # torch does not annotate it
    return panels_of(ordered.transpose(1, 2)), panels_of(second.transpose(1, 2))


def packed_blast(right: T, scale: T, left: T) -> tuple[T, T, T]:
    """Pack the factors of a BLAST matrix."""
    return panels_of(right), scale.contiguous(), panels_of(left.transpose(1, 2))


def _check_panels(op: str, name: str, panels: T, groups: int, columns: int, inner: int, x: T) -> None:
    wanted = (groups, -(-columns // _PANEL), inner, _PANEL)
    if tuple(panels.shape) != wanted or panels.dtype is not x.dtype:
        refuse(op, name, told(panels), f"of shape {wanted}, {x.dtype}")


def _check_monarch(x: T, first: T, second: T, rank: int, each: int) -> None:
    op = "blr.monarch"
    matrix(op, "x", x)
    if first.dim() != 4 or second.dim() != 4 or not first.shape[0] or not second.shape[0] or rank < 1:
        refuse(op, "first", told(first), "packed factors, and a rank of 1 or more")
    blocks, groups = first.shape[0], second.shape[0]
    if x.shape[1] % blocks:
        refuse(op, "x", told(x), f"(rows, a multiple of {blocks})")
    _check_panels(op, "first", first, blocks, groups * rank, x.shape[1] // blocks, x)
    _check_panels(op, "second", second, groups, each, blocks * rank, x)


def _check_blast(x: T, right: T, scale: T, left: T, each: int) -> None:
    op = "blr.blast"
    matrix(op, "x", x)
    if scale.dim() != 3 or not scale.numel() or scale.dtype is not x.dtype:
        refuse(op, "scale", told(scale), f"(groups, blocks, rank), {x.dtype}")
    groups, blocks, rank = scale.shape
    if x.shape[1] % blocks:
        refuse(op, "x", told(x), f"(rows, a multiple of {blocks})")
    _check_panels(op, "right", right, blocks, rank, x.shape[1] // blocks, x)
    _check_panels(op, "left", left, groups, each, rank, x)


def _serves(x: T, *others: Any) -> str | None:
    if x.dtype is not torch.float32:
        return f"x is of {x.dtype}, and the kernel takes float32"
    if x.numel() and (x.stride(1) != 1 or (x.shape[0] > 1 and x.stride(0) < x.shape[1])):
        return "rows of x do not lie side by side"
    tensors = [t for t in others if isinstance(t, torch.Tensor)]
    if not all(t.is_contiguous() for t in tensors):
        return "a factor is not contiguous"
    return cpu_only(x, *tensors)


run_monarch = Op(
    "blr_monarch(Tensor x, Tensor first, Tensor second, int rank, int each) -> Tensor",
    reference=reference.monarch, kernel=KERNEL, check=_check_monarch, serves=_serves,
    outputs=lambda x, _, second, __, each: x.new_empty(x.shape[0], second.shape[0] * each),
)  # fmt: skip
run_blast = Op(
    "blr_blast(Tensor x, Tensor right, Tensor scale, Tensor left, int each) -> Tensor",
    reference=reference.blast, kernel=KERNEL, check=_check_blast, serves=_serves,
    outputs=lambda x, _, scale, __, each: x.new_empty(x.shape[0], scale.shape[0] * each),
)  # fmt: skip


@checked
def monarch(x: T, first: T, second: T) -> T:
    """Multiply rows by a Monarch matrix.

    Block k of a row times `first[k]` makes rank numbers for each group, the column of rank i and group l being
    `i * groups + l`; those of all blocks for group l, times `second[l]`, are outputs l, l + groups, l + 2 groups ...
    Source: Dao and others, Monarch: Expressive Structured Matrices for Efficient and Accurate Training (2022).

    Args:
        x: (..., blocks * inner) float32; other floats run the formula.
        first: (blocks, groups * rank, inner).
        second: (groups, each, blocks * rank).

    Returns:
        (..., each * groups). It has gradients by all three. The factors are packed at each call; a `MonarchLinear`
        packs them once.

    Raises:
        ArgumentError: shapes or dtypes do not fit.

    Example:
        >>> first, second = torch.randn(4, 4 * 2, 8), torch.randn(4, 5, 4 * 2)  # rank 2
        >>> monarch(torch.randn(3, 32), first, second).shape
        torch.Size([3, 20])
    """
    rank = check_monarch(x, first, second)
    rows = x.reshape(-1, x.shape[-1])
    if differentiated(x, first, second):
        out = reference.monarch_of(rows, first, second)
    else:
        out = run_monarch(rows, *packed_monarch(first, second), rank, second.shape[1])
    return out.view(*x.shape[:-1], out.shape[1])


@checked
def blast(x: T, right: T, scale: T, left: T) -> T:
    """Multiply rows by a BLAST matrix, whose block of outputs l and inputs k is `left[l] diag(scale[l, k]) right[k].T`.

    Source: Lee and others, BLAST: Block-Level Adaptive Structured Matrices (2024).

    Args:
        x: (..., blocks * inner) float32; other floats run the formula.
        right: (blocks, inner, rank).
        scale: (groups, blocks, rank).
        left: (groups, each, rank).

    Returns:
        (..., groups * each). It has gradients by all four. The factors are packed at each call; a `BlastLinear` packs
        them once.

    Raises:
        ArgumentError: shapes or dtypes do not fit.

    Example:
        >>> blast(torch.randn(3, 32), torch.randn(4, 8, 6), torch.randn(2, 4, 6), torch.randn(2, 5, 6)).shape
        torch.Size([3, 10])
    """
    check_blast(x, right, scale, left)
    rows = x.reshape(-1, x.shape[-1])
    if differentiated(x, right, scale, left):
        out = reference.blast_of(rows, right, scale, left)
    else:
        out = run_blast(rows, *packed_blast(right, scale, left), left.shape[1])
    return out.view(*x.shape[:-1], out.shape[1])


def differentiated(*tensors: T) -> bool:
    """Tell whether a gradient by any of these is asked for."""
    return torch.is_grad_enabled() and any(x.requires_grad for x in tensors)


def check_monarch(x: T, first: T, second: T) -> int:
    """Refuse what does not fit; return the rank."""
    op = "blr.monarch"
    _check_factor(op, "first", first, x)
    _check_factor(op, "second", second, x)
    blocks, wide, inner = first.shape
    groups, _, read = second.shape
    if wide % groups or read != blocks * (wide // groups) or not wide:
        expected = f"({groups}, each, {blocks} * rank), where first has {groups} * rank rows, not {wide}"
        refuse(op, "second", told(second), expected)
    _check_rows(op, x, blocks * inner)
    return wide // groups


def check_blast(x: T, right: T, scale: T, left: T) -> None:
    """Refuse what does not fit."""
    op = "blr.blast"
    for name, factor in (("right", right), ("scale", scale), ("left", left)):
        _check_factor(op, name, factor, x)
    blocks, inner, rank = right.shape
    groups = left.shape[0]
    if scale.shape != (groups, blocks, rank):
        refuse(op, "scale", told(scale), f"({groups}, {blocks}, {rank}), as right and left say")
    if left.shape[2] != rank:
        refuse(op, "left", told(left), f"(groups, each, {rank}), as right has columns")
    _check_rows(op, x, blocks * inner)


def _check_factor(op: str, name: str, factor: T, x: T) -> None:
    floats(op, "x", x)
    if not isinstance(factor, torch.Tensor) or factor.dim() != 3 or factor.dtype is not x.dtype:
        refuse(op, name, told(factor), f"of three axes, {x.dtype}, as x is")
    if not factor.numel():
        refuse(op, name, told(factor), "axes of 1 or more")


def _check_rows(op: str, x: T, inputs: int) -> None:
    if not x.dim() or x.shape[-1] != inputs:
        refuse(op, "x", told(x), f"(..., {inputs}), as the factors have inputs")
