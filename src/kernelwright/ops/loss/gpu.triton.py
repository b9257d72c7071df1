"""Linear cross-entropy on a GPU: torch multiplies some rows at a time; a kernel folds logits and leaves gradients.

Gradients by logits take the place of the logits, in x's dtype, and torch multiplies them with x and the weight.
"""

import torch
import triton
import triton.language as tl

from .._core.gpu import FLOATS, GpuForm, add_product, product

_CHUNK = 1 << 27
"""Most logits that are held at once."""


@triton.jit
def logit(logits, bias, column, many, cap, BIAS: tl.constexpr, CAP: tl.constexpr):
    """Load logits, and add the bias and cap them."""
    v = tl.load(logits + column, mask=column < many, other=0.0)
    if BIAS:
        v += tl.load(bias + column, mask=column < many, other=0.0).to(tl.float32)
    if CAP:
        v = cap * (2.0 * tl.sigmoid(2.0 * v / cap) - 1.0)
    return tl.where(column < many, v, float("-inf"))


@triton.jit
def fold(logits, bias, target, loss, best, sum_exp, many, ignored, smoothing, z, cap,
         BIAS: tl.constexpr, CAP: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    """Compute a row's loss, its largest logit, and the sum of exponentials of logits less that."""
    row = tl.program_id(0).to(tl.int64)
    logits += row * many
    high = tl.full([BLOCK], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    sums = tl.zeros([BLOCK], tl.float32)
    for start in range(0, many, BLOCK):
        column = start + tl.arange(0, BLOCK)
        v = logit(logits, bias, column, many, cap, BIAS, CAP)
        higher = tl.maximum(high, v)
        safe = tl.where(higher == float("-inf"), 0.0, higher)
        total = total * tl.exp(high - safe) + tl.exp(v - safe)
        sums += tl.where(column < many, v, 0.0)
        high = higher
    top = tl.max(high, 0)
    safe = tl.where(top == float("-inf"), 0.0, top)
    summed = tl.sum(total * tl.exp(high - safe), 0)
    rest = tl.log(summed)
    wanted = tl.load(target + row)
    there = (wanted >= 0) & (wanted < many)
    chosen = tl.load(logits + wanted, mask=there, other=float("nan"))
    if BIAS:
        chosen += tl.load(bias + wanted, mask=there, other=0.0).to(tl.float32)
    if CAP:
        chosen = cap * (2.0 * tl.sigmoid(2.0 * chosen / cap) - 1.0)
    found = rest - (1.0 - smoothing) * (chosen - safe) + z * (rest + safe) * (rest + safe)
    if smoothing > 0.0:
        found -= smoothing * (tl.sum(sums, 0) / many - safe)
    tl.store(loss + row, tl.where(wanted == ignored, 0.0, found))
    tl.store(best + row, safe)
    tl.store(sum_exp + row, summed)


@triton.jit
def slope(logits, bias, target, best, sum_exp, scale, out, many, ignored, smoothing, z, cap, stride,
          BIAS: tl.constexpr, CAP: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    """Write the gradients of a row's logits where the logits lie, or in the first half of that place.

    A block is read whole before it is written, and what it is written over was read with it or earlier. A log-sum-exp
    would be rounded to the largest logit's last bit, which is a factor that all probabilities of the row are off by.
    """
    row = tl.program_id(0).to(tl.int64)
    wanted = tl.load(target + row)
    safe, summed = tl.load(best + row), tl.load(sum_exp + row)
    by = tl.where(wanted == ignored, 0.0, tl.load(scale + row))
    raised = by * (1.0 + 2.0 * z * (tl.log(summed) + safe)) / summed
    for start in range(0, many, BLOCK):
        column = start + tl.arange(0, BLOCK)
        v = logit(logits + row * many, bias, column, many, cap, BIAS, CAP)
        d = tl.exp(v - safe) * raised - by * smoothing / many
        d -= tl.where(column == wanted, by * (1.0 - smoothing), 0.0)
        if CAP:
            d *= 1.0 - (v / cap) * (v / cap)
        d = tl.where(wanted == ignored, 0.0, d)  # be the logits NaN
        tl.debug_barrier()
        tl.store(out + row * stride + column, d.to(out.dtype.element_ty), mask=column < many)


def _losses(x, weight, target, bias, ignore_index, label_smoothing, z_loss, softcap):
    found, best, summed = (x.new_empty(len(x), dtype=torch.float32) for _ in range(3))
    many = len(weight)
    each = max(1, _CHUNK // many)
    for i in range(0, len(x), each):
        logits = product(x[i : i + each], weight.t())
        fold[(len(logits),)](
            logits, logits if bias is None else bias, target[i:], found[i:], best[i:], summed[i:], many,
            ignore_index, label_smoothing, z_loss, softcap, BIAS=bias is not None, CAP=softcap != 0.0, BLOCK=4096,
            num_warps=8,
        )  # fmt: skip
    return found


def _gradients(x, weight, target, bias, ignore_index, label_smoothing, z_loss, softcap, scale):
    found, best, summed = (x.new_empty(len(x), dtype=torch.float32) for _ in range(3))
    dx = x.new_empty(x.shape)
    dw = x.new_zeros(weight.shape, dtype=torch.float32)
    db = x.new_zeros(0 if bias is None else len(bias), dtype=torch.float32)
    many, how = len(weight), {"BIAS": bias is not None, "CAP": softcap != 0.0, "BLOCK": 4096, "num_warps": 8}
    numbers = (many, ignore_index, label_smoothing, z_loss, softcap)
    each = max(1, _CHUNK // many)
    for i in range(0, len(x), each):
        part = slice(i, i + each)
        logits = product(x[part], weight.t())
        added = logits if bias is None else bias
        rows = best[i:], summed[i:]
        fold[(len(logits),)](logits, added, target[i:], found[i:], *rows, *numbers, **how)
        slopes = logits.view(x.dtype)
        slope[(len(logits),)](
            logits, added, target[i:], *rows, scale[i:], slopes, *numbers, slopes.shape[1], **how
        )
        slopes = slopes[:, :many]
        dx[part] = product(slopes, weight)
        add_product(dw, slopes.t(), x[part])
        if bias is not None:
            db += slopes.sum(0, dtype=torch.float32)
    return found, dx, dw.to(x.dtype), db


def _serves(x, weight, target, bias, *settings):  # noqa: ARG001
    if x.dtype not in FLOATS:
        return f"x is of {x.dtype}, and the kernel takes float32, bfloat16 and float16"
    if not target.is_contiguous() or (bias is not None and not bias.is_contiguous()):
        return "target or bias are not contiguous"
    scale = settings[4] if len(settings) > 4 else None
    if scale is not None and not (scale.dtype is torch.float32 and scale.is_contiguous()):
        return "scale is not contiguous float32"
    return None


FORMS = {
    "linear_cross_entropy": GpuForm(_serves, _losses),
    "linear_cross_entropy_gradients": GpuForm(_serves, _gradients),
}
