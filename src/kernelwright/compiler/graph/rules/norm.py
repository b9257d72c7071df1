"""Layer, group, batch and instance norm: statistics, then elementwise."""

import math
from collections.abc import Sequence

from ....tasks.capture import Node as Captured
from .._nodes import Node
from .._reader import NotRead, Reader, Result, ints, number, rule


def _scaled(b: Reader, x: Node, dims: Sequence[int], epsilon: float) -> tuple[Node, Node, Node, Node]:
    """Return (x - mean) * scale, mean, variance and scale = 1 / sqrt(variance + epsilon)."""
    mean = b.mean(x, dims, keepdim=True)
    variance = b.reduce(x, dims, "variance", keepdim=True)
    scale = b.point("rsqrt", b.point("add", variance, epsilon))
    return b.point("mul", b.point("sub", x, mean), scale), mean, variance, scale


def _affine(b: Reader, x: Node, weight: Node | None, bias: Node | None) -> Node:
    if weight is not None:
        x = b.point("mul", x, weight)
    return x if bias is None else b.point("add", x, bias)


def _folded(b: Reader, x: Node, mean: Node, scale: Node, bias: Node | None) -> Node:
    """Return x * scale + shift, as torch does: with an infinite weight the result is NaN."""
    away = b.point("mul", mean, scale)
    shift = b.point("neg", away) if bias is None else b.point("sub", bias, away)
    return b.point("add", b.point("mul", x, scale), shift)


def _wide(b: Reader, x: Node) -> Node:
    return b.point("cast", x, dtype="float32") if x.dtype in ("float16", "bfloat16") else x


def _narrow(b: Reader, x: Node, dtype: str) -> Node:
    return x if x.dtype == dtype else b.point("cast", x, dtype=dtype)


@rule("native_layer_norm")
def _layer_norm(b: Reader, op: Captured) -> Result:
    source, shape, weight, bias, epsilon = op.args
    x = b.node(source)
    rank = len(ints(shape))
    dims = range(len(x.shape) - rank, len(x.shape))
    y, mean, _, scale = _scaled(b, _wide(b, x), dims, float(number(epsilon)))
    return _narrow(b, _affine(b, y, b.optional(weight), b.optional(bias)), x.dtype), mean, scale


@rule("native_group_norm")
def _group_norm(b: Reader, op: Captured) -> Result:
    source, weight, bias, _, _, _, groups, epsilon = op.args
    x, count = b.node(source), ints(groups)[0]
    split = (x.shape[0], count, x.shape[1] // count, *x.shape[2:])
    dims = range(2, len(split))
    wide = b.reshape(_wide(b, x), split)
    y, mean, _, scale = _scaled(b, wide, dims, float(number(epsilon)))
    channels = (count, x.shape[1] // count, *(1 for _ in x.shape[2:]))
    w, c = (None if p is None else b.reshape(b.node(p), channels) for p in (weight, bias))
    if w is not None:
        y = _folded(b, wide, mean, b.point("mul", scale, w), c)
    elif c is not None:
        y = b.point("add", y, c)
    return _narrow(b, b.reshape(y, x.shape), x.dtype), b.reshape(mean, split[:2]), b.reshape(scale, split[:2])


def _channels(b: Reader, x: Node, parameter: object) -> Node | None:
    if parameter is None:
        return None
    return b.reshape(b.node(parameter), (x.shape[1], *(1 for _ in x.shape[2:])))


@rule("_native_batch_norm_legit_no_training")
def _batch_norm(b: Reader, op: Captured) -> Result:
    source, weight, bias, mean, variance, _, epsilon = op.args
    x = b.node(source)
    w, c, m, v = (_channels(b, x, p) for p in (weight, bias, mean, variance))
    assert m is not None and v is not None
    scale = b.point("rsqrt", b.point("add", v, float(number(epsilon))))
    y = b.point("mul", b.point("sub", _wide(b, x), m), scale)
    return _narrow(b, _affine(b, y, w, c), x.dtype), None, None


@rule("_native_batch_norm_legit", "_native_batch_norm_legit_functional")
def _batch_statistics(b: Reader, op: Captured) -> Result:
    """Normalise by the batch's own statistics; also returns the updated running ones, if any."""
    given = op.arguments()
    x = b.node(op.args[0])
    dims = [d for d in range(len(x.shape)) if d != 1]
    wide, epsilon = _wide(b, x), float(number(given["eps"]))
    y, mean, variance, scale = _scaled(b, wide, dims, epsilon)
    w, c = _channels(b, x, given["weight"]), _channels(b, x, given["bias"])
    out = _narrow(b, _affine(b, y, w, c), x.dtype)
    flat_mean, flat_scale = b.reshape(mean, (x.shape[1],)), b.reshape(scale, (x.shape[1],))
    if not op.op.split(".")[1].endswith("functional"):
        if not op.op.endswith("no_stats"):
            raise NotRead("batch norm that updates its statistics in place")
        return out, flat_mean, flat_scale
    momentum = float(number(given["momentum"]))
    count = math.prod(x.shape[d] for d in dims)
    flat_variance = b.reshape(variance, (x.shape[1],))
    unbiased = b.point("div", b.point("mul", flat_variance, count), count - 1)  # no further pass over x
    old_mean, old_variance = b.node(given["running_mean"]), b.node(given["running_var"])
    new = [
        b.point("add", b.point("mul", old, 1 - momentum), b.point("mul", seen, momentum))
        for old, seen in ((old_mean, flat_mean), (old_variance, unbiased))
    ]
    return out, flat_mean, flat_scale, *new
