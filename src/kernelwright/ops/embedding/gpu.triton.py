"""Embeddings on a GPU: rows by number; an id out of range gives NaN. The gradient of rows is torch's, sorted by id."""

import torch
import triton
import triton.language as tl

from .._core.gpu import FLOATS, GpuForm


@triton.jit
def rows_of(weight, ids, out, count, table, columns, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Copy a block of columns of some rows."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    which = tl.load(ids + row, mask=row < count, other=0).to(tl.int64)
    mask = (row < count)[:, None] & (column < columns)[None, :]
    there = mask & ((which >= 0) & (which < table))[:, None]
    v = tl.load(weight + which[:, None] * columns + column[None, :], mask=there, other=float("nan"))
    tl.store(out + row[:, None].to(tl.int64) * columns + column[None, :], v, mask=mask)


def _rows(weight, ids, padding):  # noqa: ARG001
    table, columns = weight.shape
    out = weight.new_empty((*ids.shape, columns))
    block = min(2048, triton.next_power_of_2(columns))
    count = max(1, 2048 // block)
    rows_of[(triton.cdiv(ids.numel(), count), triton.cdiv(columns, block))](
        weight, ids, out, ids.numel(), table, columns, ROWS=count, BLOCK=block, num_warps=4
    )
    return out


def _slope(g, ids, rows, padding):
    return torch.ops.aten.embedding_dense_backward(g, ids, rows, padding, False)


def _serves(weight, ids, *_):
    if weight.dtype not in FLOATS:
        return f"a tensor is of {weight.dtype}, and the kernel takes float32, bfloat16 and float16"
    return None if weight.is_contiguous() and ids.is_contiguous() else "a tensor is not contiguous"


FORMS = {"embedding": GpuForm(_serves, _rows), "embedding_backward": GpuForm(_serves, _slope)}
