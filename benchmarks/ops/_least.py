"""The least that a call of an op moves and multiplies, from its row's words: what a share of a bound is of.

Bytes are each input once and each output once; a gathered row counts once however often it is named, as far as chance
repeats names. An op whose least work depends on values (an output's zeros, a mask's area) has none here.
"""

import math
import re
from collections.abc import Callable
from typing import NamedTuple

BYTES = {"float32": 4, "bfloat16": 2, "int8": 1}
"""Bytes of an element."""
_INDEX = 8
"""Bytes of a row's number."""


class Least(NamedTuple):
    """Work of one call."""

    moved_bytes: float
    flop: float


def least(family: str, op: str, size: str, dtype: str) -> Least | None:
    """Return the least work of a call; None for an op that is not counted here.

    Example:
        >>> least("activations", "swiglu", "2x8", "float32")
        Least(moved_bytes=192, flop=0)
    """
    count = _COUNTS.get(family, {}).get(op)
    return count(BYTES[dtype], *map(int, re.findall(r"\d+", size))) if count else None


def _passes(over: int) -> Callable[..., Least]:
    """Read or write so many tensors of the size."""
    return lambda item, *sizes: Least(over * math.prod(sizes) * item, 0)


def _rope(item: int, batch: int, length: int, heads: int, keys: int, columns: int) -> Least:
    return Least(2 * batch * length * (heads + keys) * columns * item, 0)


def _attention(products: int, share: float) -> Callable[..., Least]:
    def count(item: int, batch: int, heads: int, length: int, columns: int) -> Least:
        one = batch * heads * length * columns
        return Least(2 * products * one * item, 2 * products * one * length * share)

    return count


def _decode(per_element: float) -> Callable[..., Least]:
    return lambda _, batch, heads, groups, keys, columns: Least(
        2 * batch * groups * keys * columns * per_element, 4 * batch * heads * keys * columns
    )


def _matmul(item: int, rows: int, columns: int, inner: int) -> Least:
    moved = (rows * inner + inner * columns) * item + rows * columns * (4 if item == 1 else item)
    return Least(moved, 2 * rows * columns * inner)


def _argmax(item: int, rows: int, vocabulary: int, columns: int) -> Least:
    return Least((rows + vocabulary) * columns * item, 2 * rows * vocabulary * columns)


def _named(rows: int, names: int) -> float:
    """Return how many rows of a table so many random names are expected to name."""
    return rows * -math.expm1(names * math.log1p(-1 / rows))


_BAG = 20


def _embedding(item: int, rows: int, columns: int, n: int) -> Least:
    return Least((_named(rows, n) + n) * columns * item + n * _INDEX, 0)


def _embedding_backward(item: int, rows: int, columns: int, n: int) -> Least:
    return Least((rows + n) * columns * item + n * _INDEX, 0)


def _bags(item: int, rows: int, columns: int, n: int) -> Least:
    return Least((_named(rows, n) + n / _BAG) * columns * item + n * _INDEX, 0)


def _bags_backward(item: int, rows: int, columns: int, n: int) -> Least:
    return Least((rows + n / _BAG) * columns * item + n * _INDEX, 0)


def _convolution(depthwise: bool) -> Callable[..., Least]:
    def count(
        item: int, items: int, channels: int, height: int, width: int, results: int, taps: int, stride: int
    ) -> Least:
        out = items * results * math.ceil(height / stride) * math.ceil(width / stride)
        each = (1 if depthwise else channels) * taps * taps
        return Least((items * channels * height * width + out + results * each) * item, 2 * out * each)

    return count


def _causal(item: int, items: int, channels: int, length: int, taps: int) -> Least:
    return Least(2 * items * channels * length * item, 2 * items * channels * length * taps)


def _resize(item: int, items: int, channels: int, rows: int, columns: int, height: int, width: int) -> Least:
    return Least(items * channels * (rows * columns + height * width) * item, 0)


def _scan(flop: int) -> Callable[..., Least]:
    def count(item: int, batch: int, heads: int, length: int, inner: int, columns: int) -> Least:
        steps = batch * heads * length
        moved = 2 * steps * (inner + columns) + (2 if length == 1 else 1) * batch * heads * inner * columns
        return Least(moved * item, flop * steps * inner * columns)

    return count


def _spmm(item: int, rows: int, columns: int, each: int, width: int) -> Least:
    return Least(rows * each * (item + _INDEX) + (rows + columns) * width * item, 2 * rows * each * width)


_RESIZES = ("nearest", "bilinear", "bilinear smoothed", "bicubic", "bicubic smoothed")
_COUNTS: dict[str, dict[str, Callable[..., Least]]] = {
    "activations": {
        "swiglu": _passes(3), "swiglu backward": _passes(5), "gelu": _passes(2), "gelu backward": _passes(3),
        "swiglu of halves": _passes(3), "swiglu of halves backward": _passes(5),
    },
    "attention": {
        "dense": _attention(2, 1.0), "dense gradients": _attention(5, 1.0),
        "causal": _attention(2, 0.5), "causal gradients": _attention(5, 0.5),
        "decode": _decode(4), "decode paged": _decode(4), "decode int8": _decode(1),
        "decode int8 groups": _decode(1 + 2 / 32), "decode int4 groups": _decode(1 / 2 + 2 / 32),
    },
    "conv": {
        "depthwise": _convolution(True), "pointwise": _convolution(False), "small": _convolution(False),
        "causal": _causal,
    },
    "embedding": {
        "embedding": _embedding, "embedding backward": _embedding_backward,
        **{f"bag {mode}": _bags for mode in ("sum", "mean", "max")},
        **{f"bag {mode} backward": _bags_backward for mode in ("sum", "mean", "max")},
    },
    "gemm": {"matmul": _matmul, "int_mm": _matmul, "bias_gelu": _matmul},
    "image": {f"resize {mode}": _resize for mode in _RESIZES},
    "logits": {"argmax": _argmax},
    "norms": {
        "rms_norm": _passes(2), "rms_norm_backward": _passes(3), "layer_norm": _passes(2),
        "layer_norm_backward": _passes(3), "add_rms_norm": _passes(4), "add_rms_norm_backward": _passes(4),
        "group_norm_silu": _passes(2), "group_norm_silu_backward": _passes(3),
    },
    "optim": {"adamw": _passes(7), "lion": _passes(5), "adafactor": _passes(3)},
    "rope": {"rope halves": _rope, "rope halves backward": _rope},
    "scan": {"linear": _scan(4), "linear step": _scan(4), "delta": _scan(6), "delta step": _scan(6)},
    "sparse": {"spmm": _spmm},
}  # fmt: skip
