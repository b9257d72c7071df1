"""What is cached, as codes of 8 or 4 bits."""

import torch

from .._core import checked, floats, refuse

T = torch.Tensor
BLOCK = 32
"""Columns that lie together: byte j of a block of int4 has column j in its low half, column 16 + j in its high half."""
_NAME = "attention.quantize"


def columns_of(cache: T) -> int:
    """Return how many columns a cache has; uint8 holds two a byte."""
    return cache.shape[-1] * (2 if cache.dtype is torch.uint8 else 1)


@checked
def quantize(x: T, bits: int = 8, group: int | None = None) -> tuple[T, T]:
    """Return a cache as codes, and the scales that give it back: the largest number of each is 127, or 7 of 4 bits.

    Args:
        x: (..., columns) floats.
        bits: 8 or 4.
        group: Columns that share a scale: 32, 64, 128 ..., which divide the columns. None for one scale a row, or of 4
            bits for 32.

    Returns:
        codes: (..., columns) int8; of 4 bits (..., columns / 2) uint8.
        scales: (...,) float32; of groups (..., columns / group) bfloat16.

    Raises:
        ArgumentError: an argument does not fit.

    Example:
        >>> codes, scales = quantize(torch.tensor([[2.54, -1.0]]))
        >>> codes.tolist(), round(float(scales), 4)
        ([[127, -50]], 0.02)
    """
    floats(_NAME, "x", x)
    if not x.dim():
        refuse(_NAME, "x", "of no dimensions", "at least one")
    if bits not in (4, 8):
        refuse(_NAME, "bits", bits, "8 or 4")
    if bits == 4 and group is None:
        group = BLOCK
    if group is None:
        top = x.abs().amax(-1).float() if x.shape[-1] else x.new_zeros(x.shape[:-1], dtype=torch.float32)
        scales = top / 127
        return _codes(x, scales[..., None], 127), scales
    if group < BLOCK or group & (group - 1) or x.shape[-1] % group or not x.shape[-1]:
        refuse(
            _NAME, "group", group, f"{BLOCK} or a power of two of it that divides the {x.shape[-1]} columns"
        )
    most = 2 ** (bits - 1) - 1
    parts = x.reshape(*x.shape[:-1], x.shape[-1] // group, group)
    scales = _up(parts.abs().amax(-1).float() / most)
    codes = _codes(parts, scales.float()[..., None], most).flatten(-2)
    return (_packed(codes), scales) if bits == 4 else (codes, scales)


def _codes(x: T, scales: T, most: int) -> T:
    found = (x.float() / torch.where(scales > 0, scales, 1)).round()
    return found.clamp(-most, most).to(torch.int8)


def _up(x: T) -> T:
    """Return bfloat16 that are not below x, so that no code is beyond the largest."""
    found = x.bfloat16()
    return torch.where(found.float() < x, torch.nextafter(found, torch.full_like(found, torch.inf)), found)


def _packed(codes: T) -> T:
    """Return codes of -8 to 7 two a byte, by blocks."""
    pairs = (codes + 8).to(torch.uint8).reshape(*codes.shape[:-1], codes.shape[-1] // BLOCK, 2, BLOCK // 2)
    return (pairs[..., 0, :] | pairs[..., 1, :] << 4).flatten(-2)
