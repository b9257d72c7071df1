"""Low-bit linear layers on a GPU: few rows read the codes once, for more they are unpacked for torch's product.

Codes lie as for processors: 16 outputs of a tile of 32 inner elements are 64 bytes for each bit of a code, four bytes
an output side by side. A word of four bytes has codes of four neighbouring inner elements, `8 / bits` in each byte.
"""

import torch
import triton
import triton.language as tl

from .._core.gpu import FLOATS, GpuForm

_FEW = 16
"""Rows up to which codes are read for the product itself."""


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
def unpack(words, scales, zeros, out, outputs, inner, tiles, groups, together, zero,
           ZEROS: tl.constexpr, BITS: tl.constexpr, TILES: tl.constexpr):  # fmt: skip
    """Write the weights of 16 outputs and some tiles."""
    panel, part = tl.program_id(0) // 4, tl.program_id(0) % 4
    output = tl.arange(0, 16)
    word = tl.arange(0, TILES * BITS)
    near, tile = word % BITS, tl.program_id(1) * TILES + word // BITS
    there = tile < tiles
    place = ((panel.to(tl.int64) * tiles + tile) * 4 + part) * (16 * BITS) + near * 16
    held = tl.load(words + place[None, :] + output[:, None], mask=there[None, :], other=0)
    of_group = ((panel * groups + tile // together) * 64 + part * 16)[None, :] + output[:, None]
    scale = tl.load(scales + of_group, mask=there[None, :], other=0.0).to(tl.float32)
    less = zero
    if ZEROS:
        less = tl.load(zeros + of_group, mask=there[None, :], other=0).to(tl.int32)
    column = panel * 64 + part * 16 + output
    for code_of in tl.static_range(32 // BITS):
        byte = code_of // (8 // BITS)
        limb = code_of % (8 // BITS)
        code = (((held >> (8 * byte + BITS * limb)) & ((1 << BITS) - 1)) - less).to(tl.float32)
        k = tile * 32 + (limb * BITS + near) * 4 + byte
        tl.store(
            out + column[:, None].to(tl.int64) * inner + k[None, :], (code * scale).to(out.dtype.element_ty),
            mask=(column < outputs)[:, None] & (there & (k < inner))[None, :],
        )  # fmt: skip


def _linear(x, codes, scales, zeros, bias, exponent, group, zero, int8, outputs):  # noqa: ARG001
    rows, inner = x.shape
    panels, tiles, _, bits, _ = codes.shape
    words = codes.view(torch.int32)
    given = (words, scales, scales if zeros is None else zeros)
    sizes = (outputs, inner, tiles, scales.shape[1], group // 32, zero)
    if rows <= _FEW:
        some = (128 if rows == 1 else 64) // bits  # the fastest of those that were tried on an H200
        x, out = x.contiguous(), x.new_empty(rows, outputs)
        each = min(4, triton.next_power_of_2(rows))
        few[(4 * panels, triton.cdiv(rows, each))](
            x, *given, x if bias is None else bias, out, rows, *sizes, ZEROS=zeros is not None, BIAS=bias is not None,
            BITS=bits, ROWS=each, TILES=some, num_warps=8,
        )  # fmt: skip
        return out
    some = 32 // bits
    weight = x.new_empty(outputs, inner)
    unpack[(4 * panels, triton.cdiv(tiles, some))](
        *given, weight, *sizes, ZEROS=zeros is not None, BITS=bits, TILES=some, num_warps=4
    )
    return torch.nn.functional.linear(x, weight, bias)


def _serves(x, codes, scales, zeros, bias, exponent, group, zero, int8, outputs):  # noqa: ARG001
    if x.dtype not in FLOATS:
        return f"x is of {x.dtype}, and the kernel takes float32, bfloat16 and float16"
    if not all(t is None or t.is_contiguous() for t in (codes, scales, zeros, bias)):
        return "codes, scales, zeros or bias are not contiguous"
    if codes.shape[3] not in (1, 2, 4, 8) or exponent:
        return f"codes are of {codes.shape[3]} bits, {exponent} of an exponent; the kernel takes integers of 1, 2, 4, 8"
    if int8:
        return "activations of 8 bits are asked for"
    return None


FORMS = {"lowbit_linear": GpuForm(_serves, _linear)}
