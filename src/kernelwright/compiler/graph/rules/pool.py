"""Pooling and upsampling: windows of neighbours, reduced; neighbours, repeated."""

from ....tasks.capture import Node as Captured
from .._nodes import Gather, Node
from .._reader import NotRead, Reader, Result, ints, rule
from .._real import Real
from .._size import Size


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


@rule("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d")
def _linear(b: Reader, op: Captured) -> Node:
    """Interpolate along one dimension after another, the last first: positions and weights depend on one each."""
    x, given = b.node(op.args[0]), op.arguments()
    if x.dtype != "float32":
        raise NotRead("interpolation in half precision, which torch rounds at other places")
    factors = given.get("scale_factors") or [
        given.get(name) for name in ("scales", "scales_d", "scales_h", "scales_w") if name in given
    ]
    for dim in range(len(op.shape) - 1, 1, -1):
        factor = factors[dim - 2] if isinstance(factors, list | tuple) and factors else None
        x = _between(b, x, dim, op.shape[dim], bool(given.get("align_corners")), factor)
    return x


def _between(b: Reader, x: Node, dim: int, out: int, corners: bool, factor: object) -> Node:
    """Interpolate along a dimension: `x[low] * (1 - w) + x[low + 1] * w`."""
    size = x.shape[dim]
    at = b.point("cast", b.ramp(out, 0, 1), dtype="float32")
    scale = _distance(b, size, out, corners, factor)
    if not corners:
        at = b.point("sub", b.point("mul", b.point("add", at, 0.5), scale), 0.5)
        at = b.point("clamp", at, 0.0, None)
    else:
        at = b.point("mul", at, scale)
    last = size - 1
    low = b.point("minimum", b.point("cast", at, dtype="int64"), b.constant(last, (), "int64"))
    high = b.point("minimum", b.point("add", low, 1), b.constant(last, (), "int64"))
    weight = b.point("clamp", b.point("sub", at, b.point("cast", low, dtype="float32")), 0.0, 1.0)
    weight = b.reshape(weight, [out, *(1 for _ in x.shape[dim + 1 :])])
    one, two = (
        Gather(
            name=b.name("gather"), shape=(*x.shape[:dim], out, *x.shape[dim + 1 :]), dtype=x.dtype, source=x,
            index=index, dim=dim, aligned=False,
        )
        for index in (low, high)
    )  # fmt: skip
    return b.point("add", b.point("mul", one, b.point("sub", 1.0, weight)), b.point("mul", two, weight))


def _distance(b: Reader, size: int, out: int, corners: bool, factor: object) -> Node | float:
    """Return how far apart in the source neighbours of the result are."""
    if corners:
        if not isinstance(size, Size) and not isinstance(out, Size):
            return (size - 1) / (out - 1) if out > 1 else 0.0
        if not isinstance(out, Size) or any(v < 2 for v in out.values):
            raise NotRead("corners that are aligned, of a size that may be one")
        return b.point("div", b.constant(size - 1), b.constant(out - 1))
    if isinstance(factor, Real):
        raise NotRead("interpolation by a factor that follows from a size")
    if isinstance(factor, float) and factor > 0:
        return 1.0 / factor
    if not isinstance(size, Size) and not isinstance(out, Size):
        return size / out
    times = out // size
    if not out % size and not isinstance(times, Size):
        return 1.0 / times
    return b.point("div", b.constant(size), b.constant(out))
