"""Readers of weights that are quantised already, as the tensors of public formats hold them; no value changes.

Source: AutoAWQ, WQLinear_GEMM; AutoGPTQ, QuantLinear (definitions of the layouts).
"""

import torch

from .._core import checked, refuse, told
from ._packed import PackedWeight, of

_AWQ_ORDER = (0, 4, 1, 5, 2, 6, 3, 7)
"""Where in its word of eight AWQ keeps a column: column j at bit 4 * order[j]."""


@checked
def from_awq(qweight: torch.Tensor, qzeros: torch.Tensor, scales: torch.Tensor) -> PackedWeight:
    """Read a weight of 4 bits as AWQ keeps it.

    Args:
        qweight: (inner, outputs / 8) int32.
        qzeros: (groups, outputs / 8) int32.
        scales: (groups, outputs) float16.

    Raises:
        ArgumentError: shapes or dtypes do not fit.
    """
    op = "lowbit.from_awq"
    inner, groups = _sizes(op, qweight, scales)
    _words(op, "qweight", qweight, (inner, scales.shape[1] // 8))
    _words(op, "qzeros", qzeros, (groups, scales.shape[1] // 8))
    shifts = torch.tensor(_AWQ_ORDER, device=qweight.device) * 4

    def nibbles(words: torch.Tensor) -> torch.Tensor:
        return (words.unsqueeze(2) >> shifts & 15).flatten(1).T.to(torch.uint8)

    group = _group_of(op, inner, groups)
    return of(nibbles(qweight), scales.T, nibbles(qzeros), bits=4, group=group)


@checked
def from_gptq(
    qweight: torch.Tensor,
    qzeros: torch.Tensor,
    scales: torch.Tensor,
    g_idx: torch.Tensor | None = None,
    *,
    bits: int = 4,
    zeros_plus_one: bool = True,
) -> PackedWeight:
    """Read a weight of 2, 4 or 8 bits as GPTQ keeps it.

    Args:
        qweight: (inner * bits / 32, outputs) int32.
        qzeros: (groups, outputs * bits / 32) int32.
        scales: (groups, outputs) float16.
        g_idx: (inner,) group of each column; columns of a group need not lie together. None if they do.
        bits: 2, 4 or 8.
        zeros_plus_one: Whether zero points lie in memory less one (`gptq`), else as they are (`gptq_v2`).

    Raises:
        ArgumentError: shapes or dtypes do not fit, or groups of `g_idx` have different sizes.
    """
    op = "lowbit.from_gptq"
    if bits not in (2, 4, 8):
        refuse(op, "bits", bits, "2, 4 or 8")
    each, mask = 32 // bits, (1 << bits) - 1
    inner, groups = _sizes(op, qweight, scales)
    inner, outputs = inner * each, scales.shape[1]
    _words(op, "qweight", qweight, (inner // each, outputs))
    _words(op, "qzeros", qzeros, (groups, outputs // each))
    shifts = torch.arange(each, device=qweight.device) * bits
    codes = (qweight.T.unsqueeze(2) >> shifts & mask).flatten(1).to(torch.uint8)
    zeros = (qzeros.unsqueeze(2) >> shifts & mask).flatten(1).T + int(zeros_plus_one)
    group, order = _group_of(op, inner, groups), None
    if g_idx is not None:
        if g_idx.shape != (inner,):
            refuse(op, "g_idx", f"of shape {tuple(g_idx.shape)}", f"({inner},)")
        order = g_idx.long().argsort(stable=True)
        place = torch.arange(inner, device=order.device)
        if not torch.equal(g_idx.long()[order], place // group):
            refuse(op, "g_idx", "of groups of other sizes", f"{group} columns in each of {groups}")
        order = None if torch.equal(order, place) else order
    codes = codes if order is None else codes[:, order]
    return of(codes, scales.T, zeros.to(torch.uint8), bits=bits, group=group, order=order)


def _sizes(op: str, qweight: torch.Tensor, scales: torch.Tensor) -> tuple[int, int]:
    for name, x in (("qweight", qweight), ("scales", scales)):
        if x.dim() != 2:
            refuse(op, name, told(x), "a matrix")
    return len(qweight), len(scales)


def _words(op: str, name: str, words: torch.Tensor, shape: tuple[int, int]) -> None:
    if words.dtype is not torch.int32 or words.shape != shape:
        refuse(op, name, f"of shape {tuple(words.shape)}, {words.dtype}", f"{shape}, torch.int32")


def _group_of(op: str, inner: int, groups: int) -> int:
    if groups == 1:
        return 0
    if inner % groups or inner // groups % 32:
        refuse(
            op, "scales", f"of {groups} groups of {inner} columns", "groups of a multiple of 32 columns each"
        )
    return inner // groups
