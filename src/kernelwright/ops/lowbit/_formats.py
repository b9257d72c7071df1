"""Readers of weights that are quantised already, as the tensors of public formats hold them; no value changes.

Source: GGUF, block_q4_0, block_q5_0, block_q8_0 and block_mxfp4; AutoAWQ, WQLinear_GEMM; AutoGPTQ, QuantLinear
(definitions of the layouts).
"""

import torch

from .._core import checked, refuse, told
from ._packed import PackedWeight, of

_AWQ_ORDER = (0, 4, 1, 5, 2, 6, 3, 7)
"""Where in its word of eight AWQ keeps a column: column j at bit 4 * order[j]."""
_GGUF_BYTES = {"Q4_0": 18, "Q5_0": 22, "Q8_0": 34, "MXFP4": 17}
"""Of a block of 32 columns: its scale, then its codes."""
_GGUF_UNSERVED = {
    **dict.fromkeys(
        ("Q4_1", "Q5_1", "Q2_K", "Q4_K", "Q5_K"),
        "whose groups begin at a float, not at a whole number of steps",
    ),
    **dict.fromkeys(("Q3_K", "Q6_K"), "whose groups have 16 columns, where the kernel takes 32 or more"),
}
"""Why the kernel does not take them."""


@checked
def from_gguf(data: torch.Tensor, kind: str, shape: tuple[int, int]) -> PackedWeight:
    """Read a tensor of a GGUF file.

    Args:
        data: Its bytes, uint8, of any shape.
        kind: `Q4_0`, `Q5_0` or `Q8_0`: blocks of 32 columns, a float16 scale in front of each; or `MXFP4`: small
            floats (`e2m1`) behind a power of two.
        shape: (outputs, inner) of the weight.

    Raises:
        ArgumentError: another kind, or another number of bytes than the shape wants.

    Example:
        >>> block = torch.zeros(18, dtype=torch.uint8)
        >>> block[1], block[2] = 0x3C, 0xF8  # scale 1; elements 0 and 16 are 8 and 15, less 8
        >>> from .._core import family
        >>> unpacked = family("lowbit").unpack(from_gguf(block, "Q4_0", (1, 32)))
        >>> unpacked[0, [0, 16]].tolist()
        [0.0, 7.0]
    """
    op = "lowbit.from_gguf"
    if kind not in _GGUF_BYTES:
        why = _GGUF_UNSERVED.get(kind)
        refuse(op, "kind", f"{kind!r}, {why}" if why else repr(kind), "'Q4_0', 'Q5_0', 'Q8_0' or 'MXFP4'")
    size = _GGUF_BYTES[kind]
    outputs, inner = shape
    if inner % 32:
        refuse(op, "shape", shape, "a multiple of 32 columns, as blocks have")
    if data.dtype is not torch.uint8 or data.numel() != outputs * inner // 32 * size:
        expected = f"{outputs * inner // 32 * size} bytes, torch.uint8"
        refuse(op, "data", f"{data.numel()} of {data.dtype}", expected)
    blocks = data.reshape(outputs, inner // 32, size)
    if kind == "MXFP4":
        power = blocks[:, :, 0].int()  # the exponent of a float32, of which 0 would be zero
        scales = torch.where(power == 0, 2.0**-127, (power << 23).view(torch.float32))
        return of(_halves(blocks[:, :, 1:]).reshape(outputs, inner), scales, bits=4, group=32, exponent=2)
    scales = blocks[:, :, :2].contiguous().view(torch.float16).squeeze(2)
    body = blocks[:, :, 2:]
    if kind == "Q4_0":
        codes, bits = _halves(body), 4
    elif kind == "Q5_0":
        fifth = body[:, :, :4].unsqueeze(3) >> torch.arange(8, device=body.device, dtype=torch.uint8) & 1
        codes, bits = _halves(body[:, :, 4:]) | fifth.flatten(2) << 4, 5
    else:
        codes, bits = body ^ 128, 8
    return of(codes.reshape(outputs, inner), scales, bits=bits, group=32, zero=1 << bits - 1)


def _halves(body: torch.Tensor) -> torch.Tensor:
    """Return the low four bits of a block's bytes, then the high ones."""
    return torch.cat((body & 15, body >> 4), 2)


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
