"""Matrix products, convolutions, attention: multiply and sum over shared labels."""

import math

from ....tasks.capture import Node as Captured
from .._nodes import Contract, Node
from .._reader import NotRead, Reader, Result, ints, number, rule


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
    if given.get("dropout_p") or given.get("enable_gqa") or len(query.shape) < 2:
        raise NotRead("attention with dropout or shared heads")
    if any(q.shape[:-2] != query.shape[:-2] for q in (key, value)):
        raise NotRead("attention whose batches are broadcast")
    scale = given.get("scale")
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else float(number(scale))
    batch = "bhij"[: len(query.shape) - 2]
    wide = "float32" if query.dtype in ("float16", "bfloat16") else query.dtype
    scores = contract(b, query, key, f"{batch}qd,{batch}kd->{batch}qk", wide)
    scores = b.point("mul", scores, factor)
    mask = b.optional(given.get("attn_mask"))
    if given.get("is_causal"):
        rank = len(scores.shape)
        row, column = b.ramp(scores.shape[-2], rank - 2, rank), b.ramp(scores.shape[-1], rank - 1, rank)
        scores = b.point("where", b.point("le", column, row, dtype="bool"), scores, float("-inf"))
    if mask is not None and mask.dtype == "bool":
        scores = b.point("where", mask, scores, float("-inf"), dtype=scores.dtype)
    elif mask is not None:
        scores = b.point("add", scores, mask)
    top = b.reduce(scores, (-1,), "max", keepdim=True)
    power = b.point("exp", b.point("sub", scores, top))
    weights = b.point("div", power, b.reduce(power, (-1,), "sum", keepdim=True))
    if wide != value.dtype:
        weights = b.point("cast", weights, dtype=value.dtype)
    found = contract(b, weights, value, f"{batch}qk,{batch}kd->{batch}qd")
    return (found, None) if op.dtype == "tuple" else found
