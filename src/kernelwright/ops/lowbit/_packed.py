"""The packed weight: codes of 1 to 8 bits in the order in which the kernel reads them, with scales and zero points."""

import re
from dataclasses import dataclass
from typing import ClassVar

import torch

from .._core import checked, matrix, refuse
from .reference import unpack as _unpacked
from .reference import values_of

PANEL, TILE = 64, 32
_SCALES = (torch.float32, torch.bfloat16, torch.float16)
_FLOAT = re.compile(r"e([1-5])m([0-6])")
_TOP = {(4, 3): 0x7E, (5, 2): 0x7B}
"""Largest codes of the two 8-bit floats whose formats keep the codes beyond for NaN and infinity."""


@dataclass(frozen=True)
class PackedWeight:
    """A weight (outputs, inner) in codes of 1 to 8 bits; `codes.shape[3]` says how many.

    A code means an integer, less its group's zero point, or a small float; times the scale of its group of inner
    elements, plus the group's minimum where there are any.
    """

    by_fields: ClassVar = (
        "codes",
        "scales",
        "zeros",
        "outputs",
        "inner",
        "group",
        "exponent",
        "zero",
        "order",
        "minima",
    )
    codes: torch.Tensor
    """(panels, tiles, 4, bits, 64) uint8; a panel is 64 outputs, a tile 32 inner elements."""
    scales: torch.Tensor
    """(panels, groups, 64) float32, bfloat16 or float16."""
    zeros: torch.Tensor | None
    """(panels, groups, 64) uint8; none if `zero` is every group's."""
    outputs: int
    """Rows of the weight."""
    inner: int
    """Its columns."""
    group: int
    """Columns of a scale: 16, or a multiple of 32."""
    exponent: int = 0
    """Bits of a code's exponent; 0 if codes are integers."""
    zero: int = 0
    """Zero point of every group, if there are no `zeros`."""
    order: torch.Tensor | None = None
    """(inner,) int64: which column of x a column of the codes multiplies; none if the same."""
    minima: torch.Tensor | None = None
    """(panels, groups, 64) of the scales' dtype; none if all are zero."""

    @property
    def bits(self) -> int:
        """Bits of a code."""
        return self.codes.shape[3]

    @property
    def nbytes(self) -> int:
        """Bytes that one row of activations reads: codes, scales, zero points, minima."""
        kept = (self.codes, self.scales, self.zeros, self.minima)
        return sum(t.numel() * t.element_size() for t in kept if t is not None)


@checked
def pack(
    weight: torch.Tensor,
    bits: int | None = None,
    group: int = 32,
    kind: str = "int",
    symmetric: bool = True,
    scale_dtype: torch.dtype = torch.bfloat16,
) -> PackedWeight:
    """Quantise a weight to the nearest codes, group by group, and pack it.

    Args:
        weight: (outputs, inner), finite.
        bits: 1 to 8 for integers, 4 by default; for floats what the kind says.
        group: Columns that share a scale: a multiple of 32, or 0 for all.
        kind: `int`, `uint`, or a small float: `e2m1` (fp4), `e4m3` and `e5m2` (fp8), `e3m2`, any `eXmY` of 2 to 8 bits.
        symmetric: Whether zero is the same code everywhere; else each group of integers has a zero point.
        scale_dtype: float32, bfloat16 or float16; codes are chosen for the scale that was rounded.

    Raises:
        ArgumentError: an argument is wrong, or scales do not fit their dtype.

    Example:
        >>> packed = pack(torch.tensor([[1.0, -7.0, 3.2]]), bits=4)
        >>> unpack(packed).tolist()
        [[1.0, -7.0, 3.0]]
    """
    bits, exponent = _kind(bits, kind)
    matrix("lowbit.pack", "weight", weight)
    if scale_dtype not in _SCALES:
        refuse("lowbit.pack", "scale_dtype", scale_dtype, "torch.float32, torch.bfloat16 or torch.float16")
    if not bool(weight.isfinite().all()):
        refuse("lowbit.pack", "weight", "not finite everywhere", "numbers, which codes can be near")
    if kind == "uint" and symmetric and bool((weight < 0).any()):
        refuse("lowbit.pack", "weight", "below zero somewhere", "none, or kind='int' or symmetric=False")
    inner = weight.shape[1]
    group = _group("lowbit.pack", group, inner)
    parts = torch.nn.functional.pad(weight.float(), (0, -inner % group)).unflatten(1, (-1, group))  # type: ignore[no-untyped-call]  # torch does not annotate it
    if exponent:
        codes, scales, zeros = *_small_floats(parts, bits, exponent, scale_dtype), None
    elif symmetric:
        codes, scales, zeros = *_centred(parts, bits, kind == "int", scale_dtype), None
    else:
        codes, scales, zeros = _shifted(parts, bits, scale_dtype)
    if not bool(scales.isfinite().all()):
        refuse("lowbit.pack", "scale_dtype", f"{scale_dtype}, too narrow for these scales", "torch.float32")
    zero = 1 << bits - 1 if kind == "int" and symmetric else 0
    return of(
        codes.flatten(1)[:, :inner], scales, zeros, bits=bits, group=group, exponent=exponent, zero=zero
    )


@checked
def unpack(packed: PackedWeight, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return the weight (outputs, inner) that the codes stand for.

    Example:
        >>> unpack(pack(torch.tensor([[0.5, -6.0]]), kind="e2m1")).tolist()
        [[0.5, -6.0]]
    """
    p = packed
    weight = _unpacked(
        p.codes, p.scales, p.zeros, p.minima, p.exponent, p.group, p.zero, p.outputs, p.inner, dtype
    )
    return weight if p.order is None else torch.empty_like(weight).index_copy_(1, p.order, weight)


@checked
def of(
    codes: torch.Tensor,
    scales: torch.Tensor,
    zeros: torch.Tensor | None = None,
    *,
    bits: int,
    group: int,
    exponent: int = 0,
    zero: int = 0,
    order: torch.Tensor | None = None,
    minima: torch.Tensor | None = None,
) -> PackedWeight:
    """Pack codes as they are: the way in for formats that are not read here.

    Args:
        codes: (outputs, inner) uint8, each below `2 ** bits`.
        scales: (outputs, groups) float32, bfloat16 or float16.
        zeros: (outputs, groups) uint8 zero points; none if `zero` is every group's.
        bits: 1 to 8.
        group: Columns that share a scale: 16, a multiple of 32, or 0 for all.
        exponent: Bits of a code's exponent; 0 if codes are integers.
        zero: Zero point of every group.
        order: (inner,) int64: which column of x a column of the codes multiplies.
        minima: (outputs, groups) of the scales' dtype: what a group of integers begins at, added to code times scale.

    Raises:
        ArgumentError: shapes or dtypes do not fit.

    Example:
        >>> codes = torch.tensor([[0, 8, 15]], dtype=torch.uint8)
        >>> unpack(of(codes, torch.tensor([[0.5]]), bits=4, group=0, zero=8)).tolist()
        [[-4.0, 0.0, 3.5]]
    """
    op = "lowbit.of"
    if codes.dim() != 2 or codes.dtype is not torch.uint8:
        refuse(op, "codes", f"of shape {tuple(codes.shape)}, {codes.dtype}", "a matrix of torch.uint8")
    if not 1 <= bits <= 8:
        refuse(op, "bits", bits, "1 to 8")
    if codes.numel() and int(codes.max()) >> bits:
        refuse(op, "codes", f"up to {int(codes.max())}", f"below {1 << bits}, as codes of {bits} bits are")
    outputs, inner = codes.shape
    group = group if group == TILE // 2 else _group(op, group, inner)
    groups = -(-inner // group)
    if scales.dtype not in _SCALES or scales.shape != (outputs, groups):
        refuse(
            op,
            "scales",
            f"of shape {tuple(scales.shape)}, {scales.dtype}",
            f"({outputs}, {groups}) of floats",
        )
    if zeros is not None and (zeros.dtype is not torch.uint8 or zeros.shape != scales.shape):
        refuse(
            op,
            "zeros",
            f"of shape {tuple(zeros.shape)}, {zeros.dtype}",
            f"({outputs}, {groups}), torch.uint8",
        )
    if minima is not None and (exponent or minima.dtype is not scales.dtype or minima.shape != scales.shape):
        given = f"of shape {tuple(minima.shape)}, {minima.dtype}, with {exponent} bits of exponent"
        refuse(op, "minima", given, f"({outputs}, {groups}), {scales.dtype}, of integers")
    return PackedWeight(
        _interleaved(codes, bits), _by_panels(scales), None if zeros is None else _by_panels(zeros),
        outputs, inner, group, exponent, zero, order, None if minima is None else _by_panels(minima),
    )  # fmt: skip


def _kind(bits: int | None, kind: str) -> tuple[int, int]:
    found = _FLOAT.fullmatch(kind)
    if found:
        exponent, wanted = int(found[1]), 1 + int(found[1]) + int(found[2])
        if wanted > 8 or bits not in (None, wanted):
            refuse("lowbit.pack", "bits", bits or wanted, f"{min(wanted, 8)} or less, as {kind} has")
        return wanted, exponent
    if kind not in ("int", "uint"):
        refuse("lowbit.pack", "kind", repr(kind), "'int', 'uint', or a small float such as 'e2m1'")
    bits = 4 if bits is None else bits
    if not 1 <= bits <= 8:
        refuse("lowbit.pack", "bits", bits, "1 to 8")
    return bits, 0


def _group(op: str, group: int, inner: int) -> int:
    if group < 0 or group % TILE:
        refuse(op, "group", group, f"a multiple of {TILE}, or 0 for a scale for each output")
    whole = 8 * TILE if inner > 8 * TILE else TILE
    return group or max(1, -(-inner // whole)) * whole


def _interleaved(codes: torch.Tensor, bits: int) -> torch.Tensor:
    outputs, inner = codes.shape
    padded = torch.nn.functional.pad(codes, (0, -inner % TILE, 0, -outputs % PANEL))
    panels, tiles = padded.shape[0] // PANEL, padded.shape[1] // TILE
    parts = padded.view(panels, 4, 16, tiles, 8, 4).permute(0, 3, 1, 4, 2, 5).reshape(panels, tiles, 4, 8, 64)
    found, at = codes.new_zeros(panels, tiles, 4, bits, 64), 0
    for size in (8, 4, 2, 1):
        if bits & size:
            limb = (parts >> at & (1 << size) - 1).unflatten(3, (8 // size, size))  # type: ignore[no-untyped-call]  # torch does not annotate it
            for i in range(8 // size):
                found[:, :, :, at : at + size] |= limb[:, :, :, i] << i * size
            at += size
    return found


def _by_panels(x: torch.Tensor) -> torch.Tensor:
    padded = torch.nn.functional.pad(x, (0, 0, 0, -x.shape[0] % PANEL))
    panels: torch.Tensor = padded.unflatten(0, (-1, PANEL))  # type: ignore[no-untyped-call]  # torch does not annotate it
    return panels.transpose(1, 2).contiguous()


Coded = tuple[torch.Tensor, torch.Tensor]


def _rounded(scales: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the scales in their dtype, and their reciprocals, zero of what is zero."""
    kept = scales.to(dtype)
    wide = kept.float().unsqueeze(2)
    return kept, torch.where(wide == 0, 0.0, 1 / wide)


def _centred(parts: torch.Tensor, bits: int, signed: bool, dtype: torch.dtype) -> Coded:
    least = -(1 << bits - 1) if signed else 0
    most = least + (1 << bits) - 1
    extreme = parts.abs().amax(2)
    if most == 0:  # the only code that is not zero is -1
        extreme = -parts.gather(2, parts.abs().argmax(2, keepdim=True)).squeeze(2)
    scales, inverse = _rounded(extreme / max(most, 1), dtype)
    return ((parts * inverse).round().clamp(least, most) - least).to(torch.uint8), scales


def _shifted(
    parts: torch.Tensor, bits: int, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    most = (1 << bits) - 1
    low, high = parts.amin(2).clamp(max=0), parts.amax(2).clamp(min=0)
    scales, inverse = _rounded((high - low) / most, dtype)
    zeros = (-low.unsqueeze(2) * inverse).round().clamp(0, most)
    codes = ((parts * inverse).round() + zeros).clamp(0, most)
    return codes.to(torch.uint8), scales, zeros.squeeze(2).to(torch.uint8)


def _small_floats(parts: torch.Tensor, bits: int, exponent: int, dtype: torch.dtype) -> Coded:
    half = 1 << bits - 1
    top = _TOP.get((exponent, bits - 1 - exponent), half - 1)
    values = values_of(torch.arange(half), bits, exponent, torch.float32)[: top + 1]
    values = values.to(parts.device)
    scales, inverse = _rounded(parts.abs().amax(2) / values[-1], dtype)
    middles, sizes = (values[1:] + values[:-1]) / 2, parts.abs() * inverse
    codes = torch.bucketize(sizes, middles)
    even = (
        middles[codes.clamp(max=max(len(middles) - 1, 0))] == sizes
        if len(middles)
        else torch.zeros_like(codes, dtype=torch.bool)
    )
    codes = (codes + (even & (codes % 2 == 1))).clamp(max=top)
    return torch.where(parts < 0, codes + half, codes).to(torch.uint8), scales
