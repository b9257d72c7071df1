"""Products with sparse matrices on a GPU: a program for a row of entries, or for some entries; sums in their order."""

import torch
import triton
import triton.language as tl

from .._core.gpu import FLOATS, GpuForm


@triton.jit
def spmm(crow, col, values, x, out, entries, inner, columns, ENTRIES: tl.constexpr, BLOCK: tl.constexpr):
    """Add up rows of x by the entries of one row, some at a time; a column out of range gives NaN."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < columns
    total = tl.zeros([ENTRIES, BLOCK], tl.float32)
    last = tl.minimum(tl.load(crow + row + 1), entries)
    for first in range(tl.maximum(tl.load(crow + row), 0), last, ENTRIES):
        entry = first + tl.arange(0, ENTRIES)
        own = entry < last
        which = tl.load(col + entry, mask=own, other=0).to(tl.int64)
        there = (which >= 0) & (which < inner)
        value = tl.load(values + entry, mask=own, other=0.0).to(tl.float32)
        value = tl.where(there, value, float("nan"))
        v = tl.load(
            x + which[:, None] * columns + column[None, :], mask=(own & there)[:, None] & inside[None, :], other=0.0
        )  # fmt: skip
        total += tl.where(own[:, None], value[:, None] * v.to(tl.float32), 0.0)
    tl.store(out + row * columns + column, tl.sum(total, 0).to(out.dtype.element_ty), mask=inside)


@triton.jit
def sddmm(row_of, col, a, b, out, entries, rows, many, inner, ENTRIES: tl.constexpr, BLOCK: tl.constexpr):
    """Compute some entries of a product."""
    entry = tl.program_id(0) * ENTRIES + tl.arange(0, ENTRIES)
    own = entry < entries
    row = tl.load(row_of + entry, mask=own, other=-1)
    column = tl.load(col + entry, mask=own, other=0).to(tl.int64)
    there = own & (row >= 0) & (row < rows) & (column >= 0) & (column < many)
    total = tl.zeros([ENTRIES], tl.float32)
    for first in range(0, inner, BLOCK):
        k = first + tl.arange(0, BLOCK)
        mask = there[:, None] & (k < inner)[None, :]
        left = tl.load(a + row[:, None] * inner + k[None, :], mask=mask, other=0.0).to(tl.float32)
        right = tl.load(b + column[:, None] * inner + k[None, :], mask=mask, other=0.0).to(tl.float32)
        total += tl.sum(left * right, 1)
    tl.store(out + entry, total.to(out.dtype.element_ty), mask=own)


def _spmm(crow, col, values, x):
    rows, columns = len(crow) - 1, x.shape[1]
    out = x.new_empty(rows, columns)
    block = max(16, min(256, triton.next_power_of_2(columns)))
    some = 8 if block <= 64 else 1024 // block
    spmm[(rows, triton.cdiv(columns, block))](
        crow,
        col,
        values,
        x,
        out,
        len(col),
        len(x),
        columns,
        ENTRIES=some,
        BLOCK=block,
        num_warps=1 if block <= 64 else 2,
    )
    return out


def _sddmm(crow, col, a, b):
    entries, inner = len(col), a.shape[1]
    out = a.new_empty(entries)
    places = torch.arange(entries, dtype=crow.dtype, device=crow.device)
    row = torch.searchsorted(crow, places, right=True) - 1
    block = max(16, min(128, triton.next_power_of_2(inner)))
    some = max(1, 2048 // block)
    sddmm[(triton.cdiv(entries, some),)](
        row, col, a, b, out, entries, len(a), len(b), inner, ENTRIES=some, BLOCK=block, num_warps=4
    )
    return out


def _serves(crow, col, *numbers):
    for x in numbers:
        if x.dtype not in FLOATS or not x.is_contiguous():
            return (
                f"a tensor is of {x.dtype} or not contiguous; the kernel takes float32, bfloat16 and float16"
            )
    return None if crow.is_contiguous() and col.is_contiguous() else "a tensor is not contiguous"


FORMS = {"sparse_spmm": GpuForm(_serves, _spmm), "sparse_sddmm": GpuForm(_serves, _sddmm)}
