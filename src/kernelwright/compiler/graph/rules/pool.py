"""Pooling and upsampling: windows of neighbours, reduced; neighbours, repeated."""

from ....tasks.capture import Node as Captured
from .._nodes import Node
from .._reader import NotRead, Reader, Result, ints, rule


def _settings(op: Captured, rank: int) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    given = op.arguments()
    sizes = ints(given["kernel_size"], rank)
    stride = given.get("stride")
    strides = ints(stride, rank) if stride not in (None, ()) else sizes
    return sizes, strides, ints(given.get("padding") or 0, rank)


def _fitted(b: Reader, x: Node, shape: tuple[int, ...], sizes: tuple[int, ...], strides: tuple[int, ...],
            pads: tuple[int, ...], steps: tuple[int, ...], value: float) -> Node:  # fmt: skip
    """Pad below as given, above as far as a last window may reach, then cut the windows of the result."""
    rank = len(sizes)
    lead = len(x.shape) - rank
    ends = [
        (out - 1) * stride + step * (size - 1) + 1 - pad > have + pad
        for out, stride, step, size, pad, have in zip(
            shape[lead:], strides, steps, sizes, pads, x.shape[lead:], strict=True
        )
    ]
    more = [stride - 1 if any(ends) else 0 for stride in strides]
    zeros = (0,) * lead
    high = [pad + extra for pad, extra in zip(pads, more, strict=True)]
    padded = b.pad(x, (*zeros, *pads), (*zeros, *high), value)
    return b.window(padded, range(lead, lead + rank), sizes, strides, steps, counts=shape[lead:])


@rule("max_pool1d", "max_pool2d", "max_pool3d", "max_pool2d_with_indices", "max_pool3d_with_indices")
def _max_pool(b: Reader, op: Captured) -> Result:
    bare = op.op.split(".")[1]
    rank = int(bare.split("pool")[1][0])
    x = b.node(op.args[0])
    sizes, strides, pads = _settings(op, rank)
    steps = ints(op.arguments().get("dilation") or 1, rank)
    shape = op.shape
    if op.dtype == "tuple":
        users = [n for n in b.captured.users(op.name) if n.op == "getitem"]
        if any(n.args[1] != 0 for n in users):
            raise NotRead("positions of the largest in windows")
        shape = users[0].shape
    cut = _fitted(b, x, shape, sizes, strides, pads, steps, float("-inf"))
    found = b.reduce(cut, range(len(x.shape), len(cut.shape)), "max")
    return (found, None) if op.dtype == "tuple" else found


@rule("avg_pool1d", "avg_pool2d", "avg_pool3d")
def _avg_pool(b: Reader, op: Captured) -> Node:
    rank = int(op.op.split("pool")[1][0])
    x, given = b.node(op.args[0]), op.arguments()
    sizes, strides, pads = _settings(op, rank)
    if given.get("ceil_mode") or (any(pads) and not given.get("count_include_pad", True)):
        raise NotRead("an average over windows of several sizes")
    cut = _fitted(b, x, op.shape, sizes, strides, pads, (1,) * rank, 0)
    total = b.reduce(cut, range(len(x.shape), len(cut.shape)), "sum")
    count = given.get("divisor_override")
    for size in sizes:
        count = (
            size
            if count is None
            else int(str(count)) * (size if given.get("divisor_override") is None else 1)
        )
    return b.point("div", total, int(str(count)))


@rule("_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "adaptive_avg_pool1d")
def _adaptive_avg(b: Reader, op: Captured) -> Node:
    x = b.node(op.args[0])
    rank = len(ints(op.args[1]))
    lead = len(x.shape) - rank
    ins, outs = x.shape[lead:], op.shape[lead:]
    if any(i % o for i, o in zip(ins, outs, strict=True)):
        raise NotRead("an average over windows of several sizes")
    if all(o == 1 for o in outs):
        return b.mean(x, range(lead, len(x.shape)), keepdim=True)
    sizes = tuple(i // o for i, o in zip(ins, outs, strict=True))
    cut = b.window(x, range(lead, len(x.shape)), sizes, sizes, (1,) * rank)
    return b.mean(cut, range(len(x.shape), len(cut.shape)))


@rule("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d")
def _nearest(b: Reader, op: Captured) -> Node:
    x = b.node(op.args[0])
    rank = len(op.shape) - 2
    ins, outs = x.shape[2:], op.shape[2:]
    if any(o % i for i, o in zip(ins, outs, strict=True)):
        raise NotRead("neighbours at uneven distances")
    apart, wide = list(x.shape[:2]), list(x.shape[:2])
    for i, o in zip(ins, outs, strict=True):
        apart += [i, 1]
        wide += [i, o // i]
    assert len(ins) == rank
    return b.reshape(b.expand(b.reshape(x, apart), wide), op.shape)
