"""References of low-bit linear layers: torch alone; the weight is unpacked, and rows are multiplied by it."""

import torch
from torch import Tensor


def codes_of(codes: Tensor, outputs: int, inner: int) -> Tensor:
    """Return the codes as int64 [outputs, inner], from [panels, tiles, 4, bits, 64] bytes."""
    panels, tiles, _, bits, _ = codes.shape
    limbs, section = [], 0
    for size in (8, 4, 2, 1):
        if bits & size:
            shifts = torch.arange(8 // size, device=codes.device).mul(size).view(-1, 1, 1)
            limb = codes[:, :, :, None, section : section + size].long() >> shifts & (1 << size) - 1
            limbs.append(limb.reshape(panels, tiles, 4, 8, 16, 4) << section)
            section += size
    whole = sum(limbs[1:], limbs[0]).permute(0, 2, 4, 1, 3, 5)
    return whole.reshape(panels * 64, tiles * 32)[:outputs, :inner]


def values_of(codes: Tensor, bits: int, exponent: int, dtype: torch.dtype) -> Tensor:
    """Return what codes mean without scale: themselves, or small floats with a sign, `exponent` bits and a mantissa."""
    if not exponent:
        return codes.to(dtype)
    mantissa = bits - 1 - exponent
    code = torch.arange(1 << bits, device=codes.device)
    low, power = code % (1 << mantissa), code >> mantissa & (1 << exponent) - 1
    units = torch.where(power > 0, low + (1 << mantissa) << (power - 1).clamp(min=0), low)
    table = units.to(dtype) * 2.0 ** (2 - (1 << exponent - 1) - mantissa)
    return torch.where(code >> bits - 1 > 0, -table, table)[codes]


def unpack(
    codes: Tensor,
    scales: Tensor,
    zeros: Tensor | None,
    minima: Tensor | None,
    exponent: int,
    group: int,
    zero: int,
    outputs: int,
    inner: int,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Return the weight [outputs, inner] as floats."""

    def spread(x: Tensor) -> Tensor:
        return x.transpose(1, 2).reshape(-1, x.shape[1])[:outputs].repeat_interleave(group, 1)[:, :inner]

    weight = values_of(codes_of(codes, outputs, inner), codes.shape[3], exponent, dtype)
    weight = weight - (zero if zeros is None else spread(zeros).to(dtype))
    weight = weight * spread(scales).to(dtype)
    return weight if minima is None else weight + spread(minima).to(dtype)


def quantised(x: Tensor, group: int) -> Tensor:
    """Return rows as the 8 bits hold them: each block is scaled so that its largest value is 127."""
    group = max(group, 32)
    block = next(tiles for tiles in range(min(8, group // 32), 0, -1) if group // 32 % tiles == 0) * 32
    padded = torch.nn.functional.pad(x, (0, -x.shape[1] % block))
    padded = padded.view(len(x), padded.shape[1] // block, block)
    largest = padded.abs().amax(2, keepdim=True).clamp(min=1e-30)
    most = torch.full_like(largest, 127.0)
    return ((padded * (most / largest)).round() * (largest / most)).flatten(1)[:, : x.shape[1]]


def linear(
    x: Tensor,
    codes: Tensor,
    scales: Tensor,
    zeros: Tensor | None = None,
    minima: Tensor | None = None,
    bias: Tensor | None = None,
    exponent: int = 0,
    group: int = 32,
    zero: int = 8,
    int8: bool = False,
    outputs: int = 1,
) -> Tensor:
    """Return x @ weight.T + bias, in x's dtype."""
    wide = torch.promote_types(x.dtype, torch.float32)
    weight = unpack(codes, scales, zeros, minima, exponent, group, zero, outputs, x.shape[1], wide)
    rows = quantised(x.to(wide), group) if int8 else x.to(wide)
    out = rows @ weight.T
    return (out if bias is None else out + bias.to(wide)).to(x.dtype)
