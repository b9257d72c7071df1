"""Nearest centroids on a GPU: tiles of centroids stream past rows, and no distance is stored but the nearest."""

import torch
import triton
import triton.language as tl

from .._core.gpu import FLOATS, GpuForm
from . import reference

_MOST = 128
"""Columns up to which the kernel was faster on an H200."""


@triton.jit
def nearest(x, c, half, shift, labels, distances, rows, many, inner, row_stride, column_stride,
            SHIFT: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):  # fmt: skip
    """Find the nearest of all centroids for a block of rows, the first of equals, then the distance to it."""
    row = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    own = row < rows
    x += row[:, None].to(tl.int64) * row_stride
    least = tl.full([BLOCK_M], float("inf"), tl.float32)
    at = tl.zeros([BLOCK_M], tl.int32)
    for start in range(0, many, BLOCK_N):
        column = start + tl.arange(0, BLOCK_N)
        products = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
        for first in range(0, inner, BLOCK_K):
            k = first + tl.arange(0, BLOCK_K)
            left = tl.load(
                x + k[None, :].to(tl.int64) * column_stride,
                mask=own[:, None] & (k < inner)[None, :],
                other=0.0,
            ).to(tl.float32)
            if SHIFT:
                left -= tl.load(shift + k, mask=k < inner, other=0.0)[None, :]
            right = tl.load(
                c + column[None, :].to(tl.int64) * inner + k[:, None],
                mask=(column < many)[None, :] & (k < inner)[:, None], other=0.0,
            )  # fmt: skip
            products = tl.dot(left, right, products, input_precision="ieee")
        score = tl.load(half + column, mask=column < many, other=float("inf"))[None, :] - products
        low = tl.min(score, 1)
        first_of_low = tl.min(tl.where(score == low[:, None], column[None, :], 2147483647), 1)
        at = tl.where(low < least, first_of_low, at)
        least = tl.minimum(least, low)
    at = tl.where((at >= 0) & (at < many), at, 0)  # of a row with NaN it is none
    sums = tl.zeros([BLOCK_M], tl.float32)
    for first in range(0, inner, BLOCK_K):
        k = first + tl.arange(0, BLOCK_K)
        mask = own[:, None] & (k < inner)[None, :]
        v = tl.load(x + k[None, :].to(tl.int64) * column_stride, mask=mask, other=0.0).to(tl.float32)
        if SHIFT:
            v -= tl.load(shift + k, mask=k < inner, other=0.0)[None, :]
        v -= tl.load(c + at[:, None].to(tl.int64) * inner + k[None, :], mask=mask, other=0.0)
        sums += tl.sum(v * v, 1)
    tl.store(labels + row, at.to(tl.int64), mask=own)
    tl.store(distances + row, sums, mask=own)


def _assign(x, centroids, shift):
    rows, inner = x.shape
    c = centroids.float().contiguous()
    half = c.square().sum(1) / 2
    labels, distances = x.new_empty(rows, dtype=torch.int64), x.new_empty(rows, dtype=torch.float32)
    wide = max(16, min(128, triton.next_power_of_2(len(c))))
    tall, warps = (128, 8) if wide == 128 else (64, 4)
    deep = max(16, min(32, triton.next_power_of_2(inner)))
    nearest[(triton.cdiv(rows, tall),)](
        x, c, half, c if shift is None else shift, labels, distances, rows, len(c), inner, *x.stride(),
        SHIFT=shift is not None, BLOCK_M=tall, BLOCK_N=wide, BLOCK_K=deep, num_warps=warps,
    )  # fmt: skip
    return labels, distances


def _step(x, centroids, shift, weights):
    return reference.moves(x, centroids, shift, weights, *_assign(x, centroids, shift))


def _serves(x, centroids, shift, weights=None):  # noqa: ARG001
    if x.dtype not in FLOATS:
        return f"x is of {x.dtype}, and the kernel takes float32, bfloat16 and float16"
    if x.shape[1] > _MOST:
        return f"x has {x.shape[1]} columns, and with more than {_MOST} the reference is faster"
    if shift is not None and not (shift.dtype is torch.float32 and shift.is_contiguous()):
        return "shift is not contiguous float32"
    return None


FORMS = {"kmeans_assign": GpuForm(_serves, _assign), "kmeans_step": GpuForm(_serves, _step)}
