"""Readers of GGUF's blocks: bytes to codes, scales and minima; no value changes.

Source: ggml, ggml-common.h (block_q4_0 to block_q6_K, block_mxfp4) and ggml-quants.c (dequantize_row_q4_0 to
dequantize_row_q6_K).
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from .._core import checked, refuse
from ._packed import PackedWeight, of

T = torch.Tensor


@dataclass(frozen=True)
class Blocks:
    """What the blocks of a tensor mean; axes are outputs, then blocks, then what a block has."""

    codes: T
    """One for each column, uint8."""
    scales: T
    bits: int
    zero: int = 0
    """What is taken off every code."""
    minima: T | None = None
    exponent: int = 0


def _numbers(two: T) -> T:
    """Return float16 from pairs of bytes."""
    return two.contiguous().view(torch.float16)


def _halves(body: T) -> T:
    """Return the low four bits of a block's bytes, then the high ones."""
    return torch.cat((body & 15, body >> 4), -1)


def _bits(body: T, width: int, count: int) -> T:
    """Return `count` codes of `width` bits of each byte: all lowest ones of a block first."""
    shifts = torch.arange(count, dtype=torch.uint8, device=body.device) * width
    return (body.unsqueeze(-2) >> shifts.unsqueeze(1) & (1 << width) - 1).flatten(-2)


def _fifth(four: T) -> T:
    """Return 32 bits of four bytes, in order, each at the place of a fifth."""
    shifts = torch.arange(8, dtype=torch.uint8, device=four.device)
    return (four.unsqueeze(-1) >> shifts & 1).flatten(-2) << 4


def _q4_0(b: T) -> Blocks:
    return Blocks(_halves(b[..., 2:]), _numbers(b[..., :2]), 4, 8)


def _q4_1(b: T) -> Blocks:
    return Blocks(_halves(b[..., 4:]), _numbers(b[..., :2]), 4, minima=_numbers(b[..., 2:4]))


def _q5_0(b: T) -> Blocks:
    return Blocks(_halves(b[..., 6:]) | _fifth(b[..., 2:6]), _numbers(b[..., :2]), 5, 16)


def _q5_1(b: T) -> Blocks:
    codes = _halves(b[..., 8:]) | _fifth(b[..., 4:8])
    return Blocks(codes, _numbers(b[..., :2]), 5, minima=_numbers(b[..., 2:4]))


def _q8_0(b: T) -> Blocks:
    return Blocks(b[..., 2:] ^ 128, _numbers(b[..., :2]), 8, 128)


def _mxfp4(b: T) -> Blocks:
    power = b[..., :1].int()  # the exponent of a float32, of which 0 would be zero
    scales = torch.where(power == 0, 2.0**-127, (power << 23).view(torch.float32))
    return Blocks(_halves(b[..., 1:]), scales, 4, exponent=2)


def _six_bits(b: T) -> tuple[T, T]:
    """Return the eight scales and eight minima of 12 bytes, 6 bits each."""
    first, second, rest = b[..., :4], b[..., 4:8], b[..., 8:]
    scales = torch.cat((first & 63, rest & 15 | first >> 6 << 4), -1)
    return scales, torch.cat((second & 63, rest >> 4 | second >> 6 << 4), -1)


def _scaled(d: T, dmin: T, scales: T, minima: T) -> tuple[T, T]:
    return _numbers(d).float() * scales, -(_numbers(dmin).float() * minima)


def _q2_k(b: T) -> Blocks:
    codes = torch.cat((_bits(b[..., 16:48], 2, 4), _bits(b[..., 48:80], 2, 4)), -1)
    scales, minima = _scaled(b[..., 80:82], b[..., 82:84], b[..., :16] & 15, b[..., :16] >> 4)
    return Blocks(codes, scales, 2, minima=minima)


def _q3_k(b: T) -> Blocks:
    low = torch.cat((_bits(b[..., 32:64], 2, 4), _bits(b[..., 64:96], 2, 4)), -1)
    codes = low | _bits(b[..., :32], 1, 8) << 2
    twelve = b[..., 96:108]
    steps = _halves(twelve[..., :8]) | _bits(twelve[..., 8:], 2, 4) << 4
    return Blocks(codes, _numbers(b[..., 108:110]).float() * (steps.float() - 32), 3, 4)


def _q4_k(b: T) -> Blocks:
    codes = _halves(b[..., 16:].unflatten(-1, (4, 32))).flatten(-2)  # type: ignore[no-untyped-call]  # torch does not annotate it
    scales, minima = _scaled(b[..., :2], b[..., 2:4], *_six_bits(b[..., 4:16]))
    return Blocks(codes, scales, 4, minima=minima)


def _q5_k(b: T) -> Blocks:
    codes = _halves(b[..., 48:].unflatten(-1, (4, 32))).flatten(-2)  # type: ignore[no-untyped-call]  # as above
    scales, minima = _scaled(b[..., :2], b[..., 2:4], *_six_bits(b[..., 4:16]))
    return Blocks(codes | _bits(b[..., 16:48], 1, 8) << 4, scales, 5, minima=minima)


def _q6_k(b: T) -> Blocks:
    low = torch.cat((_halves(b[..., :64]), _halves(b[..., 64:128])), -1)
    high = torch.cat((_bits(b[..., 128:160], 2, 4), _bits(b[..., 160:192], 2, 4)), -1)
    scales = _numbers(b[..., 208:210]).float() * b[..., 192:208].contiguous().view(torch.int8)
    return Blocks(low | high << 4, scales, 6, 32)


KINDS: dict[str, tuple[int, int, Callable[[T], Blocks]]] = {
    "Q4_0": (18, 32, _q4_0), "Q4_1": (20, 32, _q4_1), "Q5_0": (22, 32, _q5_0), "Q5_1": (24, 32, _q5_1),
    "Q8_0": (34, 32, _q8_0), "MXFP4": (17, 32, _mxfp4), "Q2_K": (84, 256, _q2_k), "Q3_K": (110, 256, _q3_k),
    "Q4_K": (144, 256, _q4_k), "Q5_K": (176, 256, _q5_k), "Q6_K": (210, 256, _q6_k),
}  # fmt: skip
"""By kind: bytes of a block, its columns, and what they mean."""


@checked
def from_gguf(data: torch.Tensor, kind: str, shape: tuple[int, int]) -> PackedWeight:
    """Read a tensor of a GGUF file; the weight is what ggml makes of it in float32, bit by bit.

    Args:
        data: Its bytes, uint8, of any shape.
        kind: `Q4_0`, `Q5_0`, `Q8_0`: blocks of 32 columns, a float16 scale for each; `Q4_1`, `Q5_1`: and a minimum;
            `MXFP4`: small floats (`e2m1`) behind a power of two; `Q2_K` to `Q6_K`: blocks of 256 columns, in groups
            of 32 (`Q4_K`, `Q5_K`) or 16, whose scales and minima are small multiples of the block's.
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
    if kind not in KINDS:
        refuse(op, "kind", repr(kind), f"one of {', '.join(map(repr, KINDS))}")
    size, columns, meaning = KINDS[kind]
    outputs, inner = shape
    if inner % columns:
        refuse(op, "shape", shape, f"a multiple of {columns} columns, as blocks have")
    if data.dtype is not torch.uint8 or data.numel() != outputs * inner // columns * size:
        expected = f"{outputs * inner // columns * size} bytes, torch.uint8"
        refuse(op, "data", f"{data.numel()} of {data.dtype}", expected)
    found = meaning(data.reshape(outputs, inner // columns, size))
    return of(
        found.codes.reshape(outputs, inner), found.scales.reshape(outputs, -1), bits=found.bits,
        group=columns // max(1, found.scales.shape[-1]), exponent=found.exponent, zero=found.zero,
        minima=None if found.minima is None else found.minima.reshape(outputs, -1),
    )  # fmt: skip
