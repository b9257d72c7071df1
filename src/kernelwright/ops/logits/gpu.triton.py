"""Largest logits on a GPU: torch multiplies some rows at a time, in float32, and a kernel folds their logits."""

import torch
import triton
import triton.language as tl

from .._core.gpu import FLOATS, GpuForm, product

_CHUNK = 1 << 27
"""Most logits that are held at once."""


@triton.jit
def fold(
    logits, bias, best, place, lse, many, cap, BIAS: tl.constexpr, CAP: tl.constexpr, BLOCK: tl.constexpr
):
    """Return the largest of a row, its first place, and the log-sum-exp; NaN is larger than all."""
    row = tl.program_id(0).to(tl.int64)
    high = tl.full([BLOCK], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    at = tl.full([BLOCK], 2147483647, tl.int32)
    odd = tl.full([BLOCK], 2147483647, tl.int32)
    for start in range(0, many, BLOCK):
        column = start + tl.arange(0, BLOCK)
        v = tl.load(logits + row * many + column, mask=column < many, other=float("-inf"))
        if BIAS:
            v += tl.load(bias + column, mask=column < many, other=0.0).to(tl.float32)
        if CAP:
            v = cap * (2.0 * tl.sigmoid(2.0 * v / cap) - 1.0)
            v = tl.where(column < many, v, float("-inf"))
        odd = tl.where((v != v) & (odd == 2147483647), column, odd)  # noqa: PLR0124  a NaN
        higher = tl.where(v > high, v, high)
        at = tl.where((v > high) | ((v == high) & (at == 2147483647) & (column < many)), column, at)
        safe = tl.where(higher == float("-inf"), 0.0, higher)
        total = total * tl.exp(high - safe) + tl.exp(v - safe)
        high = higher
    top = tl.max(high, 0)
    first = tl.min(tl.where(high == top, at, 2147483647), 0)
    safe = tl.where(top == float("-inf"), 0.0, top)
    whole = tl.log(tl.sum(total * tl.exp(high - safe), 0)) + safe
    whole = tl.where(top == float("inf"), top, whole)
    wrong = tl.min(odd, 0)
    nan = wrong != 2147483647
    tl.store(best + row, tl.where(nan, float("nan"), top))
    tl.store(place + row, tl.where(nan, wrong, first).to(tl.int64))
    tl.store(lse + row, tl.where(nan, float("nan"), whole))


def _keys(logits):
    """Return int64 keys that are in the order of the logits, of equals the first largest, and NaN above all."""
    bits = (
        torch.where(logits.isnan(), torch.full_like(logits, torch.nan), logits + 0.0).view(torch.int32).long()
    )
    order = torch.where(bits < 0, -(bits & 0x7FFFFFFF), bits)
    return (order << 32) | (0x7FFFFFFF - torch.arange(logits.shape[1], device=logits.device))


def _top(x, weight, bias, count, softcap, sums):
    rows, many = len(x), len(weight)
    each = max(1, _CHUNK // many)
    values = x.new_empty(rows, count, dtype=torch.float32)
    tokens = x.new_empty(rows, count, dtype=torch.int64)
    lse = x.new_empty(rows, dtype=torch.float32)
    for i in range(0, rows, each):
        part = slice(i, i + each)
        logits = product(x[part], weight.t())
        best, place = values[part], tokens[part]
        if count > 1:
            best, place = best[:, 0].contiguous(), place[:, 0].contiguous()
        fold[(len(logits),)](
            logits, logits if bias is None else bias, best, place, lse[part], many, softcap,
            BIAS=bias is not None, CAP=softcap != 0.0, BLOCK=4096, num_warps=8,
        )  # fmt: skip
        if count > 1:
            if bias is not None:
                logits += bias
            if softcap:
                logits = torch.tanh(logits / softcap) * softcap
            tokens[part] = found = _keys(logits).topk(count).indices
            values[part] = logits.gather(1, found)
    return values, tokens, lse if sums else lse[:0]


def _serves(x, weight, bias, count, softcap, sums):  # noqa: ARG001
    if x.dtype not in FLOATS:
        return f"x is of {x.dtype}, and the kernel takes float32, bfloat16 and float16"
    if bias is not None and not bias.is_contiguous():
        return "bias is not contiguous"
    return None


FORMS = {"logits_top": GpuForm(_serves, _top)}
