"""Low-bit linear layers on a GPU: a row reads the codes once, more multiply them on tensor cores as they are unpacked,
and for many the weights are unpacked for torch's product.

Codes lie as for processors: 16 outputs of a tile of 32 inner elements are 64 bytes for each bit of a code, four bytes
an output side by side. A word of four bytes has codes of four neighbouring inner elements, `8 / bits` in each byte.
"""

import torch
import triton
import triton.language as tl

from .._core.gpu import FLOATS, GpuForm

_FEW, _FEW_SHORT = 16, 4
"""Rows of float32, and of 16 bits, up to which codes are read for the product itself."""
_MANY = 32
"""Rows of 16 bits up to which codes are unpacked on the way to tensor cores: the fastest on an H100, which unpacks
4096 x 4096 codes of 4 bits in 24.6 us, product included, and takes 23.3 us on the way."""
_PROGRAMS, _PARTS = 528, 8
"""Programs that keep a GPU busy, and parts of the inner axis at most."""


@triton.jit
def few(x, words, scales, zeros, bias, out, rows, outputs, inner, tiles, groups, together, zero,
        ZEROS: tl.constexpr, BIAS: tl.constexpr, BITS: tl.constexpr, ROWS: tl.constexpr,
        TILES: tl.constexpr):  # fmt: skip
    """Multiply up to ROWS rows by the weights of 16 outputs."""
    panel, part = tl.program_id(0) // 4, tl.program_id(0) % 4
    row, output = tl.program_id(1) * ROWS + tl.arange(0, ROWS), tl.arange(0, 16)
    word = tl.arange(0, TILES * BITS)
    step, near = word // BITS, word % BITS
    total = tl.zeros([ROWS, 16, TILES * BITS], tl.float32)
    for first in range(0, tiles, TILES):
        tile = first + step
        there = tile < tiles
        place = ((panel.to(tl.int64) * tiles + tile) * 4 + part) * (16 * BITS) + near * 16
        held = tl.load(words + place[None, :] + output[:, None], mask=there[None, :], other=0)
        of_group = ((panel * groups + tile // together) * 64 + part * 16)[None, :] + output[:, None]
        scale = tl.load(scales + of_group, mask=there[None, :], other=0.0).to(tl.float32)
        less = zero
        if ZEROS:
            less = tl.load(zeros + of_group, mask=there[None, :], other=0).to(tl.int32)
        sums = tl.zeros([ROWS, 16, TILES * BITS], tl.float32)
        for code_of in tl.static_range(32 // BITS):
            byte = code_of // (8 // BITS)
            limb = code_of % (8 // BITS)
            code = (((held >> (8 * byte + BITS * limb)) & ((1 << BITS) - 1)) - less).to(tl.float32)
            k = tile * 32 + (limb * BITS + near) * 4 + byte
            v = tl.load(
                x + row[:, None].to(tl.int64) * inner + k[None, :], mask=(row < rows)[:, None] & (k < inner)[None, :],
                other=0.0,
            )  # fmt: skip
            sums += v.to(tl.float32)[:, None, :] * code[None, :, :]
        total += sums * scale[None, :, :]
    found = tl.sum(total, 2)
    column = panel * 64 + part * 16 + output
    if BIAS:
        found += tl.load(bias + column, mask=column < outputs, other=0.0).to(tl.float32)[None, :]
    tl.store(
        out + row[:, None].to(tl.int64) * outputs + column[None, :], found.to(out.dtype.element_ty),
        mask=(row < rows)[:, None] & (column < outputs)[None, :],
    )  # fmt: skip


@triton.jit
def weights(words, scales, zeros, panel, output, first, tiles, groups, together, zero, kind: tl.constexpr,
            ZEROS: tl.constexpr, BITS: tl.constexpr, OUTPUTS: tl.constexpr, TILES: tl.constexpr):  # fmt: skip
    """Return the weights of some outputs of a panel at the inner elements of some tiles, in their order."""
    word = tl.arange(0, TILES * BITS)
    near, tile = word % BITS, first + word // BITS
    there = tile < tiles
    part = (panel.to(tl.int64) * tiles + tile)[None, :] * 4 + (output // 16)[:, None]
    held = tl.load(
        words + part * (16 * BITS) + near[None, :] * 16 + (output % 16)[:, None], mask=there[None, :], other=0
    )
    of_group = (panel * groups + tile // together)[None, :] * 64 + output[:, None]
    scale = tl.load(scales + of_group, mask=there[None, :], other=0.0).to(tl.float32)
    less = zero
    if ZEROS:
        less = tl.load(zeros + of_group, mask=there[None, :], other=0).to(tl.int32)[:, :, None]
    code_of = tl.arange(0, 32 // BITS)
    shift = 8 * (code_of % 4) + BITS * (code_of // 4)
    code = ((held[:, :, None] >> shift[None, None, :]) & ((1 << BITS) - 1)) - less
    value = (code.to(tl.float32) * scale[:, :, None]).to(kind)
    value = tl.permute(tl.reshape(value, [OUTPUTS, TILES, BITS, 8 // BITS, 4]), (0, 1, 3, 2, 4))
    return tl.reshape(value, [OUTPUTS, TILES * 32])


@triton.jit
def tiled(x, words, scales, zeros, bias, out, rows, outputs, inner, tiles, groups, together, zero, each,
          ZEROS: tl.constexpr, BIAS: tl.constexpr, BITS: tl.constexpr, ROWS: tl.constexpr,
          TILES: tl.constexpr):  # fmt: skip
    """Multiply ROWS rows by the weights of a panel on tensor cores, over one part of the tiles."""
    panel, part = tl.program_id(0), tl.program_id(2)
    row, output, k = tl.program_id(1) * ROWS + tl.arange(0, ROWS), tl.arange(0, 64), tl.arange(0, TILES * 32)
    total = tl.zeros([ROWS, 64], tl.float32)
    for first in range(part * each, tl.minimum((part + 1) * each, tiles), TILES):
        weight = weights(words, scales, zeros, panel, output, first, tiles, groups, together, zero,
                         x.dtype.element_ty, ZEROS, BITS, 64, TILES)  # fmt: skip
        column = first * 32 + k
        left = tl.load(
            x + row[:, None].to(tl.int64) * inner + column[None, :],
            mask=(row < rows)[:, None] & (column < inner)[None, :], other=0.0,
        )  # fmt: skip
        total = tl.dot(left, tl.trans(weight), total)
    column = panel * 64 + output
    if BIAS:
        total += tl.load(bias + column, mask=column < outputs, other=0.0).to(tl.float32)[None, :]
    tl.store(
        out + (part * rows + row)[:, None].to(tl.int64) * outputs + column[None, :],
        total.to(out.dtype.element_ty), mask=(row < rows)[:, None] & (column < outputs)[None, :],
    )  # fmt: skip


@triton.jit
def unpack(words, scales, zeros, out, outputs, inner, tiles, groups, together, zero,
           ZEROS: tl.constexpr, BITS: tl.constexpr, TILES: tl.constexpr):  # fmt: skip
    """Write the weights of 16 outputs and some tiles."""
    panel, first = tl.program_id(0) // 4, tl.program_id(1) * TILES
    output = tl.program_id(0) % 4 * 16 + tl.arange(0, 16)
    weight = weights(words, scales, zeros, panel, output, first, tiles, groups, together, zero,
                     out.dtype.element_ty, ZEROS, BITS, 16, TILES)  # fmt: skip
    k, column = first * 32 + tl.arange(0, TILES * 32), panel * 64 + output
    tl.store(
        out + column[:, None].to(tl.int64) * inner + k[None, :], weight,
        mask=(column < outputs)[:, None] & (k < inner)[None, :],
    )  # fmt: skip


def by_lanes(x, given, sizes, bias, outputs, how):
    """Multiply few rows without tensor cores: each program reads its codes once for up to four of them."""
    rows = len(x)
    some = (128 if rows == 1 else 64) // how["BITS"]  # the fastest of those that were tried on an H200
    out = x.new_empty(rows, outputs)
    each = min(4, triton.next_power_of_2(rows))
    few[(4 * triton.cdiv(outputs, 64), triton.cdiv(rows, each))](
        x, *given, x if bias is None else bias, out, rows, *sizes, BIAS=bias is not None, ROWS=each, TILES=some,
        num_warps=8, **how,
    )  # fmt: skip
    return out


def by_tiles(x, given, sizes, bias, outputs, how, *, tiles=4, warps=4, stages=3, most=_PARTS):
    """Multiply on tensor cores, codes unpacked on their way; where panels are few, parts of the inner axis apart."""
    rows = len(x)
    high = max(16, min(64, triton.next_power_of_2(rows)))
    panels, blocks, along = triton.cdiv(outputs, 64), triton.cdiv(rows, high), sizes[2]
    parts = max(1, min(most, _PROGRAMS // (panels * blocks), along // (4 * tiles)))
    each = triton.cdiv(triton.cdiv(along, parts), tiles) * tiles
    parts = triton.cdiv(along, each)
    apart = parts > 1
    out = x.new_empty(parts, rows, outputs, dtype=torch.float32 if apart else x.dtype)
    added = None if apart else bias
    tiled[(panels, blocks, parts)](
        x, *given, x if added is None else added, out, rows, *sizes, each, BIAS=added is not None, ROWS=high,
        TILES=tiles, num_warps=warps, num_stages=stages, **how,
    )  # fmt: skip
    if not apart:
        return out[0]
    found = out.sum(0)
    return (found if bias is None else found.add_(bias)).to(x.dtype)


def by_unpacking(x, given, sizes, bias, outputs, how):
    """Unpack the weights and have torch multiply."""
    some = 32 // how["BITS"]
    weight = x.new_empty(outputs, x.shape[1])
    unpack[(4 * triton.cdiv(outputs, 64), triton.cdiv(sizes[2], some))](
        *given, weight, *sizes, TILES=some, num_warps=4, **how
    )
    return torch.nn.functional.linear(x, weight, bias)


def _way(x):
    """Return the fastest way for so many rows."""
    if x.dtype is torch.float32:
        return by_lanes if len(x) <= _FEW else by_unpacking
    return by_lanes if len(x) <= _FEW_SHORT else by_tiles if len(x) <= _MANY else by_unpacking


def _linear(x, codes, scales, zeros, minima, bias, exponent, group, zero, int8, outputs):  # noqa: ARG001 - as the op calls it
    tiles, bits = codes.shape[1], codes.shape[3]
    given = (codes.view(torch.int32), scales, scales if zeros is None else zeros)
    sizes = (outputs, x.shape[1], tiles, scales.shape[1], group // 32, zero)
    how = {"ZEROS": zeros is not None, "BITS": bits}
    return _way(x)(x.contiguous(), given, sizes, bias, outputs, how)


def _serves(x, codes, scales, zeros, minima, bias, exponent, group, zero, int8, outputs):  # noqa: ARG001 - as the op calls it
    if x.dtype not in FLOATS:
        return f"x is of {x.dtype}, and the kernel takes float32, bfloat16 and float16"
    if not all(t is None or t.is_contiguous() for t in (codes, scales, zeros, bias)):
        return "codes, scales, zeros or bias are not contiguous"
    if codes.shape[3] not in (1, 2, 4, 8) or exponent:
        return f"codes are of {codes.shape[3]} bits, {exponent} of an exponent; the kernel takes integers of 1, 2, 4, 8"
    if int8:
        return "activations of 8 bits are asked for"
    if minima is not None or group < 32:
        return "groups have minima, or 16 columns"
    return None


FORMS = {"lowbit_linear": GpuForm(_serves, _linear)}
