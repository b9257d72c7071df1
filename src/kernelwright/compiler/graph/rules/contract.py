"""Matrix products, convolutions, attention: multiply and sum over shared labels."""

import math
from collections.abc import Sequence

from ....tasks.capture import Node as Captured
from .._nodes import Contract, Node
from .._reader import NotRead, Reader, Result, ints, number, rule
from .._size import Size, same
from .reduce import softmax


def contract(b: Reader, left: Node, right: Node, labels: str, dtype: str = "") -> Node:
    """Make the contraction that an einsum string names, of the left's dtype by default; half sums in float32."""
    first, out = labels.split("->")
    one, two = first.split(",")
    sizes = dict(zip(one, left.shape, strict=True)) | dict(zip(two, right.shape, strict=True))
    shape = tuple(sizes[c] for c in out)
    return Contract(
        name=b.name("product"), shape=shape, dtype=dtype or left.dtype, left=left, right=right,
        labels=(one, two, out),
    )  # fmt: skip


@rule("mm")
def _mm(b: Reader, op: Captured) -> Node:
    return contract(b, b.node(op.args[0]), b.node(op.args[1]), "mk,kn->mn")


@rule("bmm")
def _bmm(b: Reader, op: Captured) -> Node:
    return contract(b, b.node(op.args[0]), b.node(op.args[1]), "bmk,bkn->bmn")


@rule("mv")
def _mv(b: Reader, op: Captured) -> Node:
    return contract(b, b.node(op.args[0]), b.node(op.args[1]), "mk,k->m")


@rule("dot")
def _dot(b: Reader, op: Captured) -> Node:
    return contract(b, b.node(op.args[0]), b.node(op.args[1]), "k,k->")


@rule("addmm", "baddbmm", "addmv")
def _addmm(b: Reader, op: Captured) -> Node:
    given = op.arguments()
    beta, alpha = number(given.get("beta", 1)), number(given.get("alpha", 1))
    labels = {"addmm": "mk,kn->mn", "baddbmm": "bmk,bkn->bmn", "addmv": "mk,k->m"}[op.op.split(".")[1]]
    product = contract(b, b.node(op.args[1]), b.node(op.args[2]), labels)
    if alpha != 1:
        product = b.point("mul", product, alpha)
    if beta == 0:
        return product
    bias = b.node(op.args[0])
    return b.point("add", product, bias if beta == 1 else b.point("mul", bias, beta))


@rule("convolution")
def _convolution(b: Reader, op: Captured) -> Node:
    x, weight, bias, stride, padding, dilation, transposed, out_padding, groups = op.args
    source, kernel, count = b.node(x), b.node(weight), ints(groups)[0]
    rank = len(kernel.shape) - 2
    if len(source.shape) != rank + 2:
        raise NotRead("a convolution without a batch")
    strides, pads, steps = (ints(v, rank) for v in (stride, padding, dilation))
    if transposed:
        source, kernel = _spread(b, source, kernel, strides, pads, steps, ints(out_padding, rank), count)
        strides, pads = (1,) * rank, (0,) * rank
    source = b.pad(source, (0, 0, *pads), (0, 0, *pads), 0)
    dims = range(2, rank + 2)
    cut = b.window(source, dims, kernel.shape[2:], strides, steps)
    space, inside = "xyz"[:rank], "uvw"[:rank]
    if count == 1:
        found = contract(b, cut, kernel, f"nc{space}{inside},oc{inside}->no{space}")
    else:
        each, outs = source.shape[1] // count, kernel.shape[0] // count
        grouped = b.reshape(cut, (cut.shape[0], count, each, *cut.shape[2:]))
        weights = b.reshape(kernel, (count, outs, *kernel.shape[1:]))
        found = contract(b, grouped, weights, f"ngc{space}{inside},goc{inside}->ngo{space}")
        found = b.reshape(found, op.shape)
    if bias is None:
        return found
    return b.point("add", found, b.reshape(b.node(bias), (kernel.shape[0], *(1 for _ in range(rank)))))


def _spread(
    b: Reader, source: Node, kernel: Node, strides: tuple[int, ...], pads: tuple[int, ...],
    steps: tuple[int, ...], more: tuple[int, ...], groups: int,
) -> tuple[Node, Node]:  # fmt: skip
    """Turn a transposed convolution into a plain one: zeros between elements, the kernel mirrored.

    The kernel comes as (in, out/groups, ...) and leaves as (out, in/groups, ...).
    """
    rank = len(strides)
    for i, stride in enumerate(strides):
        d = i + 2
        if stride != 1:
            apart = b.reshape(source, (*source.shape[: d + 1], 1, *source.shape[d + 1 :]))
            high = [stride - 1 if e == d + 1 else 0 for e in range(len(apart.shape))]
            wide = b.pad(apart, [0] * len(high), high, 0)
            joined = b.reshape(wide, (*source.shape[:d], source.shape[d] * stride, *source.shape[d + 1 :]))
            source = b.slice(joined, d, 0, source.shape[d] * stride - (stride - 1))
    sizes = kernel.shape[2:]
    low = [s * (k - 1) - p for s, k, p in zip(steps, sizes, pads, strict=True)]
    high = [a + m for a, m in zip(low, more, strict=True)]
    source = b.pad(source, (0, 0, *low), (0, 0, *high), 0)
    for i, size in enumerate(sizes):
        kernel = b.slice(kernel, i + 2, size - 1, size, -1)
    each, outs = kernel.shape[0] // groups, kernel.shape[1]
    kernel = b.reshape(kernel, (groups, each, outs, *sizes))
    kernel = b.permute(kernel, (0, 2, 1, *range(3, rank + 3)))
    return source, b.reshape(kernel, (groups * outs, each, *sizes))


@rule("scaled_dot_product_attention", "_scaled_dot_product_flash_attention_for_cpu")
def _attention(b: Reader, op: Captured) -> Result:
    given = op.arguments()
    query, key, value = (b.node(given[n]) for n in ("query", "key", "value"))
    if given.get("dropout_p") or len(query.shape) < 2:
        raise NotRead("attention with dropout")
    shared = _shared_heads(query, key)
    batch = "bhij"[: len(query.shape) - 2]
    if shared is None or not _is_same(key.shape[:-2], value.shape[:-2]):
        raise NotRead("attention whose batches are broadcast")
    several = f"{batch}g" if shared else batch
    scale = given.get("scale")
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else float(number(scale))
    wide = "float32" if query.dtype in ("float16", "bfloat16") else query.dtype
    heads, cut = query.shape[:-2], (*key.shape[:-2], *shared)
    rows, columns = query.shape[-2], key.shape[-2]
    left = b.reshape(query, (*cut, *query.shape[-2:])) if shared else query
    scores = contract(b, left, key, f"{several}qd,{batch}kd->{several}qk", wide)
    scores = b.reshape(scores, (*heads, rows, columns)) if shared else scores
    scores = b.point("mul", scores, factor)
    mask = b.optional(given.get("attn_mask"))
    if given.get("is_causal"):
        rank = len(scores.shape)
        row, column = b.ramp(rows, rank - 2, rank), b.ramp(columns, rank - 1, rank)
        scores = b.point("where", b.point("le", column, row, dtype="bool"), scores, float("-inf"))
    if mask is not None and mask.dtype == "bool":
        scores = b.point("where", mask, scores, float("-inf"), dtype=scores.dtype)
    elif mask is not None:
        scores = b.point("add", scores, mask)
    weights = softmax(b, scores, (-1,), safe=mask is not None)
    if wide != value.dtype:
        weights = b.point("cast", weights, dtype=value.dtype)
    weights = b.reshape(weights, (*cut, rows, columns)) if shared else weights
    found = contract(b, weights, value, f"{several}qk,{batch}kd->{several}qd")
    found = b.reshape(found, (*heads, rows, value.shape[-1])) if shared else found
    return (found, None) if op.dtype == "tuple" else found


def _shared_heads(query: Node, key: Node) -> tuple[int, ...] | None:
    """Return how many heads of queries share one of keys, if several do; none where the batches do not fit."""
    one, two = query.shape[:-2], key.shape[:-2]
    if _is_same(one, two):
        return ()
    fits = len(one) == len(two) > 0 and _is_same(one[:-1], two[:-1])
    heads, shared = (int(s[-1]) if s else 0 for s in (one, two))
    fixed = fits and not any(isinstance(s[-1], Size) for s in (one, two))
    return (heads // shared,) if fixed and shared and heads % shared == 0 else None


def _is_same(one: Sequence[int], two: Sequence[int]) -> bool:
    return len(one) == len(two) and all(map(same, one, two))
